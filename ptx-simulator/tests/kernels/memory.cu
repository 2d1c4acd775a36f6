// Module variables, local arrays, generic pointers.

__constant__ float coefficients[4] = {1.0f, -0.5f, 0.25f, 2.0f};
__constant__ int offsets[3] = {10, 20, 30};
__device__ int table[8] = {3, 1, 4, 1, 5, 9, 2, 6};
__device__ double scale = 1.5;
__device__ unsigned char text[] = "PTX runs here";
__device__ int *pointer_into_table = &table[2];
__device__ unsigned launches;

extern "C" __global__ void polynomial(const float *input, float *output, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float value = 0.0f;
#pragma unroll 1
    for (int k = 3; k >= 0; --k) value = fmaf(value, input[i], coefficients[k]);
    output[i] = value + (float)offsets[i % 3];
}

extern "C" __global__ void read_globals(int *output) {
    const int i = threadIdx.x;
    output[i] = table[i % 8] + (int)(scale * 2.0) + text[i % 13] + pointer_into_table[i % 4];
    if (i == 0) launches += 1;
    if (i == 1) output[blockDim.x] = launches;
}

extern "C" __global__ void write_globals(int value) {
    if (threadIdx.x < 8) table[threadIdx.x] = value + threadIdx.x;
}

// Insertion sort in a local array with indices known only at run time.
extern "C" __global__ void sort_local(const int *input, int *output, int length) {
    int values[24];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < length; ++k) values[k] = input[i * length + k];
    for (int k = 1; k < length; ++k) {
        const int value = values[k];
        int place = k;
        while (place > 0 && values[place - 1] > value) {
            values[place] = values[place - 1];
            --place;
        }
        values[place] = value;
    }
    for (int k = 0; k < length; ++k) output[i * length + k] = values[k];
}

__device__ __noinline__ int sum_anywhere(const int *numbers, int count) {
    int sum = 0;
    for (int k = 0; k < count; ++k) sum += numbers[k];
    return sum;
}

// The same function reads global, shared and local memory through generic pointers.
extern "C" __global__ void generic_pointers(const int *input, int *output) {
    __shared__ int shared[32];
    int local[5];
    shared[threadIdx.x] = input[threadIdx.x] * 2;
    for (int k = 0; k < 5; ++k) local[(k + threadIdx.x) % 5] = input[threadIdx.x] + k;
    __syncthreads();
    const int *places[3] = {input, shared, local};
    const int which = threadIdx.x % 3;
    output[threadIdx.x] = sum_anywhere(places[which], which == 2 ? 5 : 1 + threadIdx.x % 7) + (__isShared(places[which]) ? 1000 : 0) +
                          (__isLocal(places[which]) ? 2000 : 0) + (__isGlobal(places[which]) ? 3000 : 0);
}
