// A call through a table of function pointers.

__device__ int twice(int x) { return 2 * x; }
__device__ int square(int x) { return x * x; }
__device__ int (*operations[2])(int) = {twice, square};

extern "C" __global__ void indirect(int *output) { output[threadIdx.x] = operations[threadIdx.x % 2](threadIdx.x); }
