// 16-bit floating point through cuda_fp16.h and cuda_bf16.h.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// Eight results per thread.
extern "C" __global__ void half_arithmetic(const __half *a, const __half *b, const __half *c, __half *output,
                                           int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const __half x = a[i], y = b[i], z = c[i];
    __half *out = output + i * 8;
    out[0] = __hadd(x, y);
    out[1] = __hsub(x, y);
    out[2] = __hmul(x, y);
    out[3] = __hfma(x, y, z);
    out[4] = __hneg(x);
    out[5] = __habs(y);
    out[6] = __hlt(x, y) ? x : y;
    out[7] = __float2half_rn(__half2float(x) * 3.0f + (float)__half2int_rn(y));
}

extern "C" __global__ void half2_axpy(__half2 factor, const __half2 *x, __half2 *y, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] = __hfma2(factor, x[i], y[i]);
}

// Products of halves summed in float.
extern "C" __global__ void half_dot(const __half2 *a, const __half2 *b, float *output, int pairs) {
    float sum = 0.0f;
    for (int k = threadIdx.x; k < pairs; k += blockDim.x) {
        const float2 x = __half22float2(a[blockIdx.x * pairs + k]), y = __half22float2(b[blockIdx.x * pairs + k]);
        sum = fmaf(x.x, y.x, sum);
        sum = fmaf(x.y, y.y, sum);
    }
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    if (threadIdx.x == 0) output[blockIdx.x] = sum;
}

extern "C" __global__ void half2_compare(const __half2 *a, const __half2 *b, unsigned *output, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    output[i * 3] = __hgt2_mask(a[i], b[i]);
    output[i * 3 + 1] = __hbeq2(a[i], b[i]);
    const __half2 swapped = __lowhigh2highlow(a[i]);
    output[i * 3 + 2] = *reinterpret_cast<const unsigned *>(&swapped);
}

// To bfloat16 and back: rounding to nearest even, also where the target has no native instruction for it.
extern "C" __global__ void bfloat_round_trip(const float *input, __nv_bfloat16 *rounded, float *widened, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const __nv_bfloat16 value = __float2bfloat16_rn(input[i]);
    rounded[i] = value;
    widened[i] = __bfloat162float(value);
}

extern "C" __global__ void bfloat_arithmetic(const __nv_bfloat16 *a, const __nv_bfloat16 *b, __nv_bfloat16 *output,
                                             int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    output[i * 3] = __hadd(a[i], b[i]);
    output[i * 3 + 1] = __hmul(a[i], b[i]);
    output[i * 3 + 2] = __hmax(a[i], b[i]);
}
