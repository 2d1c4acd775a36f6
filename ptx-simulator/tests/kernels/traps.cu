// Kernels that stop on purpose.

extern "C" __global__ void trap_on_negative(const int *input, int *output) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int value = input[i];
    if (value < 0) __trap();
    output[i] = value + 1;
}

extern "C" __global__ void never_ends(volatile int *flag) {
    while (*flag == 0) {
    }
}
