// Data movement: padded transpose, vectorised copies of every width, 3-D grids.

extern "C" __global__ void transpose_padded(const float *input, float *output, int width, int height) {
    __shared__ float tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x;
    int y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += blockDim.y) {
        if (x < width && y + j < height) tile[threadIdx.y + j][threadIdx.x] = input[(y + j) * width + x];
    }
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += blockDim.y) {
        if (x < height && y + j < width) output[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
    }
}

extern "C" __global__ void scale_float4(const float4 *input, float4 *output, float factor, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        float4 value = input[i];
        value.x *= factor;
        value.y *= factor;
        value.z *= factor;
        value.w *= factor;
        output[i] = value;
    }
}

extern "C" __global__ void swap_double2(const double2 *input, double2 *output, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) output[i] = make_double2(input[i].y, input[i].x);
}

extern "C" __global__ void reverse_char4(const char4 *input, char4 *output, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) output[i] = make_char4(input[i].w, input[i].z, input[i].y, input[i].x);
}

extern "C" __global__ void sum_short2(const short2 *input, int *output, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) output[i] = (int)input[i].x + input[i].y;
}

extern "C" __global__ void widen_bytes(const signed char *narrow, const unsigned char *wide, long long *output,
                                       int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) output[i] = (long long)narrow[i] * 1000 + wide[i];
}

// One number per thread that says where it stands in a 3-D grid of 3-D blocks.
extern "C" __global__ void where_am_i(unsigned long long *output) {
    const unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned y = blockIdx.y * blockDim.y + threadIdx.y;
    const unsigned z = blockIdx.z * blockDim.z + threadIdx.z;
    const unsigned long long width = gridDim.x * blockDim.x, height = gridDim.y * blockDim.y;
    unsigned long long code = threadIdx.x | threadIdx.y << 8 | threadIdx.z << 16;
    code |= (unsigned long long)(blockIdx.x | blockIdx.y << 8 | blockIdx.z << 16) << 32;
    output[(z * height + y) * width + x] = code;
}
