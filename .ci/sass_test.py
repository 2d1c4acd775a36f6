"""What .ci/sass.py makes of disassembled code. Run: python3 .ci/sass_test.py"""

import json
import unittest

import sass

# A spinning wait whose loop ptxas has put behind the end of the kernel, inside a main loop inside an outer loop.
LISTING = """
.text.kernel:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
.L_x_outer:
        /*0010*/                   MOV R2, RZ ;
.L_x_main:
        /*0020*/                   FFMA R3, R4, R5, R3 ;
        /*0030*/                   FFMA R3, R4.reuse, R5, R3 ;
        /*0040*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P1, [UR4], R6 ;
        /*0050*/              @!P1 BRA `(.L_x_spin) ;
.L_x_ready:
        /*0060*/                   FFMA R3, R4, R5, R3 ;
        /*0070*/               @P0 BRA P2, `(.L_x_main) ;
        /*0080*/                   FFMA R3, R4, R5, R3 ;
        /*0090*/               @P3 BRA `(.L_x_outer) ;
        /*00a0*/                   EXIT ;
.L_x_spin:
        /*00b0*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P1, [UR4], R6 ;
        /*00c0*/              @!P1 BRA `(.L_x_spin) ;
        /*00d0*/                   BRA `(.L_x_ready) ;
.L_x_end:
        /*00e0*/                   BRA `(.L_x_end);
        /*00f0*/                   NOP;
"""
def with_bits(listing, stall):
    """A listing as nvdisasm writes it with -hex: an instruction's first 8 bytes behind it, the other 8 in the next line."""
    lines = (f"{line} /* 0x0000000000000000 */\n{' ' * 60}/* {stall << 41:#018x} */" if ";" in line else line for line in listing.split("\n"))
    return "\n".join(lines)


REPORT = """ptxas info    : Function properties for kernel
    8 bytes stack frame, 4 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 235 registers, used 1 barriers, 16640 bytes smem
"""


class Sass(unittest.TestCase):
    def test_the_main_loop_is_the_innermost_with_most_of_the_multiply_adds_and_has_what_lies_behind_the_end(self):
        numbers = sass.loop_numbers(with_bits(LISTING, 2))
        self.assertEqual(numbers["loop_ffma"], 3)
        self.assertEqual(numbers["loop_instructions"], 9)
        self.assertEqual(numbers["ffma_share"], 0.3333)
        self.assertEqual(numbers["loop_cycles"], 18)

    def test_registers_stack_and_spills_are_the_assemblers(self):
        of = {"registers": 235, "stack_bytes": 8, "spill_bytes": 20}
        self.assertEqual(sass.resources(REPORT + REPORT.replace("kernel", "other")), {"kernel": of, "other": of})

    def test_a_kernel_without_loops_has_no_main_loop(self):
        self.assertEqual(sass.loop_numbers(with_bits("        /*0000*/   EXIT ;\n", 1))["loop_instructions"], 0)

    def test_a_listing_without_the_instructions_bits_is_refused(self):
        with self.assertRaises(SystemExit):
            sass.loop_numbers(LISTING)

    def test_what_moves_within_the_tolerances_is_let_be_and_the_rest_is_named(self):
        before = {"registers": 128, "stack_bytes": 0, "spill_bytes": 0, "loop_instructions": 2000, "loop_ffma": 1900, "ffma_share": 0.95, "loop_cycles": 2100}
        def moved(now, spills={}):
            one = {"kernels": {"a": before}, "spills": {"sm_80": {"a": 40}}}
            return sass.moved(one, {"kernels": now, "spills": {"sm_80": spills}})

        self.assertEqual(moved({"a": {**before, "registers": 134, "loop_instructions": 2040, "ffma_share": 0.94}}), [])
        now = {**before, "registers": 121, "spill_bytes": 4, "loop_instructions": 2041, "loop_cycles": 2143}
        self.assertEqual([row[1] for row in moved({"a": now})],
                         ["registers", "spilled bytes", "instructions of the main loop", "cycles to issue the main loop"])
        self.assertEqual([row[3] for row in moved({"b": before})], ["is gone", "is new"])
        self.assertEqual(moved({"a": before}, {"a": 72}), [])
        self.assertEqual([row[1] for row in moved({"a": before}, {"a": 73})], ["spilled bytes on sm_80"])

    def test_a_disassembly_is_split_into_its_kernels(self):
        heading = "//--------------------- .text.{} --------------------------\n"
        self.assertEqual(sass.listings("\t.target\n" + heading.format("a") + "A\n" + heading.format("b") + "B\n"), {"a": "A\n", "b": "B\n"})

    def test_what_is_written_is_read_again(self):
        numbers = {"kernels": {"a": {"registers": 1}, "b": {"registers": 2}}, "spills": {"sm_80": {}, "sm_89": {"a": 4}}}
        self.assertEqual(json.loads(sass.text(numbers)), numbers)


if __name__ == "__main__":
    unittest.main()
