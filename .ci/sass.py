#!/usr/bin/env python3
"""Watches what NVIDIA's assembler makes of the production kernels.

How fast a kernel is depends on what ptxas does with its registers and its main loop, and that can change with a new rustc, LLVM or
ptxas while every test still passes. So the production kernels are assembled, and a few numbers of each are compared with those
of gpu-kernels/production/sass.json, which were written when the kernels were last measured:

    .ci/sass.py             compare; exit code 1 and a table if something moved further than the tolerances
    .ci/sass.py --bless     write the numbers as they are now, after measuring that the kernels are as fast as they were
    .ci/sass.py --show      print the numbers as they are now

The numbers, for sm_90: registers of a thread; bytes of its stack frame and of spills (local memory, which should be none); and of
the main loop its instructions, the share of them that are fused multiply-adds (FFMA), which is the share of the FFMA peak
that the kernel could reach if it issued an instruction every cycle, and the cycles that one warp takes to issue them. Those are
the sum of the stall counts that ptxas gives the instructions (bits 105 to 108 of each, from Volta on: Jia et al., "Dissecting the
NVIDIA Volta GPU architecture via microbenchmarking", 2018). The times of 46 orders of work in one kernel followed that sum on an H200, with 0.7
to 1 cycle for each of its cycles, and hardly the conflicts of register banks. The main loop is the natural loop of the control flow graph with
the most FFMA, the innermost one where loops are nested. For one chip of each other generation, only spills.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXPECTED = ROOT / "gpu-kernels/production/sass.json"
MODULE = "production_compute_80"
ARCHITECTURE = "sm_90"
OTHERS = ["sm_80", "sm_89", "sm_100", "sm_120"]

# How far a number may move before somebody has to look: by as much as this, or by this share of what is expected.
TOLERANCES = {
    "registers": {"by": 6},
    "stack_bytes": {"by": 0},
    "spill_bytes": {"by": 0},
    "loop_instructions": {"share": 0.02},
    "loop_ffma": {"by": 0},
    "ffma_share": {"by": 0.01},
    "loop_cycles": {"share": 0.02},
}
# Bytes that a thread may spill more than expected on the other chips.
MORE_SPILLS = 32
COLUMNS = {
    "registers": "registers",
    "stack_bytes": "stack bytes",
    "spill_bytes": "spilled bytes",
    "loop_instructions": "instructions of the main loop",
    "loop_ffma": "FFMA of the main loop",
    "ffma_share": "FFMA share of the main loop",
    "loop_cycles": "cycles to issue the main loop",
}


def parse(listing):
    """The instructions of a disassembled kernel, [(guarded, mnemonic, operands)], and its labels, {name: index}."""
    instructions, labels = [], {}
    for line in listing.splitlines():
        if label := re.match(r"\s*(\.L_\w+|\$\w+):", line):
            labels[label[1]] = len(instructions)
        elif found := re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(?:\{\s*)?(@!?U?P\w+\s+)?([A-Z][\w.]*)\s*([^;]*);", line):
            instructions.append((found[1] is not None, found[2], found[3].strip()))
    return instructions, labels


def stall_counts(listing):
    """The cycles after each instruction until the warp's next may be issued, of a listing with the instructions' bits."""
    return [int(word, 16) >> 41 & 15 for word in re.findall(r"^\s*/\* (0x[0-9a-f]{16}) \*/\s*$", listing, flags=re.MULTILINE)]


def successors(instructions, labels):
    """Where control can go from each instruction."""
    result = []
    for at, (guarded, mnemonic, operands) in enumerate(instructions):
        operation = mnemonic.split(".")[0]
        label = re.search(r"`\((\.L_\w+|\$\w+)\)", operands)
        to = set()
        # A branch may have predicates among its operands besides the guard.
        goes_on = guarded or operation not in ("BRA", "EXIT", "RET", "BRX", "JMP") or bool(label and re.match(r"!?U?P", operands))
        if goes_on and at + 1 < len(instructions):
            to.add(at + 1)
        if label and operation in ("BRA", "WARPSYNC") and labels.get(label[1], len(instructions)) < len(instructions):
            to.add(labels[label[1]])
        result.append(to)
    return result


def natural_loops(successors):
    """The loops of a control flow graph: sets of instructions, one for each instruction that loops return to."""
    count = len(successors)
    predecessors = [set() for _ in range(count)]
    for at, targets in enumerate(successors):
        for target in targets:
            predecessors[target].add(at)

    # Depth-first order, and immediate dominators by Cooper, Harvey and Kennedy's iteration.
    order, state, stack = [], [0] * count, [(0, iter(successors[0]))] if count else []
    if stack:
        state[0] = 1
    while stack:
        at, targets = stack[-1]
        target = next((target for target in targets if not state[target]), None)
        if target is None:
            order.append(at)
            stack.pop()
        else:
            state[target] = 1
            stack.append((target, iter(successors[target])))
    rank = {at: place for place, at in enumerate(order)}
    dominator = {0: 0}
    changed = True
    while changed:
        changed = False
        for at in reversed(order[:-1]):
            new = None
            for before in predecessors[at]:
                if before not in dominator:
                    continue
                if new is None:
                    new = before
                    continue
                other = before
                while new != other:
                    while rank[new] < rank[other]:
                        new = dominator[new]
                    while rank[other] < rank[new]:
                        other = dominator[other]
            if new is not None and dominator.get(at) != new:
                dominator[at] = new
                changed = True

    def dominates(head, at):
        while at != head and at != dominator[at]:
            at = dominator[at]
        return at == head

    loops = {}
    for at in order:
        for head in successors[at]:
            # A dominator stands later in the order, so most edges need no walk.
            if rank[head] < rank[at] or not dominates(head, at):
                continue
            body, unvisited = loops.setdefault(head, {head}), [at]
            while unvisited:
                inside = unvisited.pop()
                if inside not in body:
                    body.add(inside)
                    unvisited.extend(before for before in predecessors[inside] if before in rank)
    return list(loops.values())


def is_ffma(instruction):
    return instruction[1].split(".")[0] in ("FFMA", "FFMA2")


def main_loop(instructions, loops):
    """The loop with the most FFMA; of nested ones, the innermost that still has more than half of them."""
    def ffma(loop):
        return sum(is_ffma(instructions[at]) for at in loop)

    best = max(loops, key=lambda loop: (ffma(loop), len(loop)), default=None)
    while best is not None:
        inner = [loop for loop in loops if loop < best and 2 * ffma(loop) > ffma(best)]
        if not inner:
            return best
        best = max(inner, key=lambda loop: (ffma(loop), len(loop)))
    return set()


def loop_numbers(listing):
    """The numbers of a kernel's main loop."""
    instructions, labels = parse(listing)
    loop = main_loop(instructions, natural_loops(successors(instructions, labels)))
    ffma = sum(is_ffma(instructions[at]) for at in loop)
    share = round(ffma / len(loop), 4) if loop else 0.0
    stalls = stall_counts(listing)
    if len(stalls) != len(instructions):
        sys.exit(f"{len(instructions)} instructions, but {len(stalls)} have bits: nvdisasm writes another format")
    cycles = sum(stalls[at] for at in loop)
    return {"loop_instructions": len(loop), "loop_ffma": ffma, "ffma_share": share, "loop_cycles": cycles}


def resources(report):
    """What ptxas says of each kernel: {name: numbers}."""
    found = {}
    for part in re.split(r"^ptxas info *: Function properties for ", report, flags=re.MULTILINE)[1:]:
        stack, stores, loads = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", part).groups()
        found[part.split(None, 1)[0]] = {
            "registers": int(re.search(r"Used (\d+) registers", part)[1]),
            "stack_bytes": int(stack),
            "spill_bytes": int(stores) + int(loads),
        }
    return found


def listings(disassembly):
    """The listing of each kernel: {name: text}."""
    parts = re.split(r"^//-+ \.text\.(\w+) +-+\n", disassembly, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"{pathlib.Path(command[0]).name} {command[1]} refuses the production kernels:\n{done.stdout[-4000:]}")
    return done.stdout


def found_now():
    """The numbers as they are now: {"kernels": {name: numbers}, "spills": {architecture: {name: bytes}}}."""
    bin = subprocess.run([ROOT / ".ci/nvidia-tools"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    tools = ROOT / bin
    command = ["cargo", "run", "--quiet", "-p", "host", "--", "ptx", MODULE]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        ptx = pathlib.Path(folder, "kernels.ptx")
        ptx.write_text(subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout)

        def assemble(architecture):
            cubin = pathlib.Path(folder, f"{architecture}.cubin")
            return resources(run([tools / "ptxas", f"-arch={architecture}", "--verbose", "-o", cubin, ptx])), cubin

        others = [threads.submit(assemble, architecture) for architecture in OTHERS]
        kernels, cubin = assemble(ARCHITECTURE)
        if not kernels:
            sys.exit(f"{MODULE} has no kernels")
        for name, listing in listings(run([tools / "nvdisasm", "-c", "-hex", cubin])).items():
            kernels[name].update(loop_numbers(listing))
        spills = {}
        for architecture, other in zip(OTHERS, others):
            of_kernels = other.result()[0].items()
            spills[architecture] = {name: values["spill_bytes"] for name, values in sorted(of_kernels) if values["spill_bytes"]}
    return {"kernels": dict(sorted(kernels.items())), "spills": spills}


def allowed(what, expected):
    tolerance = TOLERANCES[what]
    return tolerance["by"] if "by" in tolerance else tolerance["share"] * expected


def moved(expected, found):
    """What isn't as expected: [(kernel, what, expected, found, allowed)]."""
    rows = []
    before_all, now_all = expected["kernels"], found["kernels"]
    for name in sorted(before_all.keys() | now_all.keys()):
        if name not in now_all:
            rows.append((name, "the kernel", "is there", "is gone", ""))
        elif name not in before_all:
            rows.append((name, "the kernel", "unknown", "is new", ""))
        else:
            for what in TOLERANCES:
                before, now = before_all[name][what], now_all[name][what]
                if abs(now - before) > allowed(what, before) + 1e-9:
                    rows.append((name, COLUMNS[what], show(what, before), show(what, now), "± " + show(what, allowed(what, before))))
    for architecture, spills in found["spills"].items():
        for name, now in spills.items():
            before = expected["spills"].get(architecture, {}).get(name, 0)
            if now > before + MORE_SPILLS and name in before_all:
                rows.append((name, f"spilled bytes on {architecture}", before, now, f"up to {before + MORE_SPILLS}"))
    return rows


def show(what, value):
    return f"{100 * value:.1f} %" if what == "ffma_share" else f"{value:.0f}"


def table(rows):
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in texts) for column in range(len(texts[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in texts)


def text(numbers):
    # A kernel a line, so that a difference is read at a glance.
    def lines(values):
        return ",\n".join(f"    {json.dumps(name)}: {json.dumps(value)}" for name, value in values.items())

    return f'{{\n  "kernels": {{\n{lines(numbers["kernels"])}\n  }},\n  "spills": {{\n{lines(numbers["spills"])}\n  }}\n}}\n'


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = arguments.add_mutually_exclusive_group()
    what.add_argument("--bless", action="store_true", help="write the numbers as they are now")
    what.add_argument("--show", action="store_true", help="print the numbers as they are now")
    arguments = arguments.parse_args()

    found = found_now()
    if arguments.bless:
        EXPECTED.write_text(text(found))
        print(f"{EXPECTED.relative_to(ROOT)}: {len(found['kernels'])} kernels")
        return
    if arguments.show:
        rows = ([name, *(show(what, values[what]) for what in COLUMNS)] for name, values in found["kernels"].items())
        print(table([["kernel", *COLUMNS.values()], *rows]))
        for architecture, spills in found["spills"].items():
            print(f"spilled bytes on {architecture}:", ", ".join(f"{name} {bytes}" for name, bytes in spills.items()) or "none")
        return
    try:
        expected = json.loads(EXPECTED.read_text())
    except FileNotFoundError:
        sys.exit(f"{EXPECTED.relative_to(ROOT)} isn't there: measure the kernels, then write it with .ci/sass.py --bless")
    rows = moved(expected, found)
    if rows:
        print(table([("kernel", "what", "expected", "found", "allowed"), *rows]))
        print(f"\nThe machine code for {ARCHITECTURE} isn't what was measured. Measure the kernels again (`bench`, `tune`); if they are as\n"
              "fast as before, `.ci/sass.py --bless` writes these numbers down.")
        sys.exit(1)
    print(f"{len(found['kernels'])} production kernels assemble for {ARCHITECTURE} as expected")


if __name__ == "__main__":
    main()
