// printf needs the driver's vprintf: refused by name when the module is loaded.
#include <cstdio>

extern "C" __global__ void prints(int value) { printf("thread %d: %d\n", (int)threadIdx.x, value); }
