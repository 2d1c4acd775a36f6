// arch: compute_80
// Warp reductions in one instruction, asynchronous copies' plain neighbours, native bfloat16: from sm_80 on.
#include <cuda_bf16.h>

extern "C" __global__ void warp_reductions(const int *input, int *output) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    const int value = input[i];
    int *out = output + i * 8;
    out[0] = __reduce_add_sync(0xffffffffu, value);
    out[1] = __reduce_min_sync(0xffffffffu, value);
    out[2] = __reduce_max_sync(0xffffffffu, value);
    out[3] = (int)__reduce_min_sync(0xffffffffu, (unsigned)value);
    out[4] = (int)__reduce_max_sync(0xffffffffu, (unsigned)value);
    out[5] = (int)__reduce_and_sync(0xffffffffu, (unsigned)value);
    out[6] = (int)__reduce_or_sync(0xffffffffu, (unsigned)value);
    out[7] = (int)__reduce_xor_sync(0xffffffffu, (unsigned)value);
}

extern "C" __global__ void bfloat_fma(const __nv_bfloat16 *a, const __nv_bfloat16 *b, __nv_bfloat16 *c, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) c[i] = __hfma(a[i], b[i], c[i]);
}

extern "C" __global__ void bfloat2_fma_relu(const __nv_bfloat162 *a, const __nv_bfloat162 *b, __nv_bfloat162 *c,
                                            int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) c[i] = __hfma2_relu(a[i], b[i], c[i]);
}
