// arch: compute_90
// The same arithmetic where f16x2 and bf16 instructions are native.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" __global__ void half2_all(const __half2 *a, const __half2 *b, __half2 *output, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    __half2 *out = output + i * 6;
    out[0] = __hadd2(a[i], b[i]);
    out[1] = __hmul2(a[i], b[i]);
    out[2] = __hmax2(a[i], b[i]);
    out[3] = __hmin2(a[i], b[i]);
    out[4] = __hneg2(a[i]);
    out[5] = __hfma2_relu(a[i], b[i], a[i]);
}

extern "C" __global__ void bfloat2_all(const __nv_bfloat162 *a, const __nv_bfloat162 *b, __nv_bfloat162 *output,
                                       int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    __nv_bfloat162 *out = output + i * 6;
    out[0] = __hadd2(a[i], b[i]);
    out[1] = __hmul2(a[i], b[i]);
    out[2] = __hmax2(a[i], b[i]);
    out[3] = __hmin2(a[i], b[i]);
    out[4] = __habs2(a[i]);
    out[5] = __floats2bfloat162_rn(__low2float(a[i]) * 1.5f, __high2float(b[i]) * 0.3f);
}
