"""Times the Rust kernels beside the lesson's CUDA C++ kernels in one process: same buffers, same stream, batches taken in turn, medians.

Usage: compare.py RUST_PTX LESSON_CUBIN [N ...]
"""

import statistics
import sys

import cupy as cp

BATCHES = 9
TILE = 16


def batch_seconds(launch, launches):
    start, end = cp.cuda.Event(), cp.cuda.Event()
    start.record()
    for _ in range(launches):
        launch()
    end.record()
    end.synchronize()
    return cp.cuda.get_elapsed_time(start, end) / 1e3 / launches


def main():
    rust = cp.RawModule(path=sys.argv[1])
    lesson = cp.RawModule(path=sys.argv[2])
    sizes = [int(size) for size in sys.argv[3:]] or [1024, 2048, 4096]
    attributes = lambda module, name: module.get_function(name).num_regs
    print("registers:", {name: attributes(rust, name) for name in ("naive", "tiled")}, {name: attributes(lesson, name) for name in ("lesson_naive", "lesson_tiled")})
    rows = []
    for n in sizes:
        generator = cp.random.default_rng(42)
        a = generator.standard_normal((n, n), dtype=cp.float32)
        b = generator.standard_normal((n, n), dtype=cp.float32)
        c = cp.empty((n, n), dtype=cp.float32)
        exact = a.astype(cp.float64) @ b.astype(cp.float64)
        grid, block = (n // TILE, n // TILE, 1), (TILE, TILE, 1)
        kernels = {}
        for name in ("naive", "tiled"):
            ours, theirs = rust.get_function(name), lesson.get_function("lesson_" + name)
            size = cp.uint64(n)
            kernels[name] = lambda f=ours: f(grid, block, (a, b, c, size, size, size))
            kernels["lesson_" + name] = lambda f=theirs: f(grid, block, (a, b, c, cp.int32(n)))
        errors = {}
        for name, launch in kernels.items():
            c.fill(cp.nan)
            launch()
            errors[name] = float(cp.abs(c - exact).max())
            assert errors[name] < 1e-2, (name, n, errors[name])
        seconds = {name: [] for name in kernels}
        launches = max(3, int(2e11 / n**3))
        for launch in kernels.values():
            batch_seconds(launch, launches)
        for _ in range(BATCHES):
            for name, launch in kernels.items():
                seconds[name].append(batch_seconds(launch, launches))
        median = {name: statistics.median(times) for name, times in seconds.items()}
        rows.append((n, median, errors))
        spread = {name: (max(times) - min(times)) / median[name] for name, times in seconds.items()}
        print(n, "spread", {name: f"{value:.2%}" for name, value in spread.items()})
    print(f"{'N':>6} {'kernel':>14} {'ms':>10} {'TFLOP/s':>8} {'max error':>10}")
    for n, median, errors in rows:
        for name, time in median.items():
            print(f"{n:>6} {name:>14} {time * 1e3:>10.4f} {2 * n**3 / time / 1e12:>8.3f} {errors[name]:>10.2e}")
        print(f"{n:>6} Rust / lesson speed: tiled {median['lesson_tiled'] / median['tiled']:.4f}, naive {median['lesson_naive'] / median['naive']:.4f};"
              f" tiled / naive in Rust: {median['naive'] / median['tiled']:.3f}")


main()
