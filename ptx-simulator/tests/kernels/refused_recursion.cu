// The simulator gives every function one frame: recursion is refused when the module is loaded.

__device__ __noinline__ unsigned ackermann(unsigned m, unsigned n) {
    if (m == 0) return n + 1;
    if (n == 0) return ackermann(m - 1, 1);
    return ackermann(m - 1, ackermann(m, n - 1));
}

extern "C" __global__ void recursive(unsigned *output) { output[threadIdx.x] = ackermann(2, threadIdx.x); }
