// Floating point: what IEEE 754 fixes to the bit, and the math library within its documented error.

// Rounding modes and exact operations: ten results per thread.
extern "C" __global__ void exact_floats(const float *a, const float *b, const float *c, float *output, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const float x = a[i], y = b[i], z = c[i];
    float *out = output + i * 10;
    out[0] = __fadd_rn(x, y);
    out[1] = __fmul_rn(x, y);
    out[2] = fmaf(x, y, z);
    out[3] = __fdiv_rn(x, y);
    out[4] = sqrtf(x);
    out[5] = __frcp_rn(y);
    out[6] = fminf(x, y);
    out[7] = fmaxf(y, z);
    out[8] = rintf(x) + truncf(y) + floorf(z) + ceilf(x);
    out[9] = copysignf(x, y) * fabsf(z);
}

extern "C" __global__ void directed_rounding(const float *a, const float *b, float *output, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const float x = a[i], y = b[i];
    float *out = output + i * 9;
    out[0] = __fadd_rz(x, y);
    out[1] = __fadd_ru(x, y);
    out[2] = __fadd_rd(x, y);
    out[3] = __fmul_rz(x, y);
    out[4] = __fmul_ru(x, y);
    out[5] = __fmul_rd(x, y);
    out[6] = __fmaf_rz(x, y, x);
    out[7] = __fdiv_ru(x, y);
    out[8] = __fsqrt_rd(x);
}

extern "C" __global__ void exact_doubles(const double *a, const double *b, double *output, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const double x = a[i], y = b[i];
    double *out = output + i * 8;
    out[0] = x + y;
    out[1] = x * y;
    out[2] = fma(x, y, x);
    out[3] = x / y;
    out[4] = sqrt(x);
    out[5] = (double)(long long)x;
    out[6] = (double)(float)y;
    out[7] = fmin(x, y) - fmax(x, y);
}

extern "C" __global__ void conversions(const float *input, long long *output, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const float x = input[i];
    long long *out = output + i * 8;
    out[0] = __float2int_rn(x);
    out[1] = __float2int_rz(x);
    out[2] = __float2int_ru(x);
    out[3] = __float2int_rd(x);
    out[4] = __float2uint_rz(x);
    out[5] = __float2ll_rn(x);
    out[6] = (long long)__float2ull_rz(x);
    out[7] = __float_as_int((float)(int)__float_as_uint(x));
}

// sqrtf, expf, logf, sinf, cosf, powf, tanhf, erff, cbrtf, atan2f: ten results per thread.
extern "C" __global__ void math_library(const float *a, const float *b, float *output, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const float x = a[i], y = b[i];
    float *out = output + i * 10;
    out[0] = rsqrtf(fabsf(x));
    out[1] = expf(y);
    out[2] = logf(fabsf(x));
    out[3] = sinf(x);
    out[4] = cosf(x);
    out[5] = powf(fabsf(x), y);
    out[6] = tanhf(y);
    out[7] = erff(y);
    out[8] = cbrtf(x);
    out[9] = atan2f(x, y);
}

extern "C" __global__ void fast_math(const float *a, float *output, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const float x = a[i];
    float *out = output + i * 7;
    out[0] = __expf(x);
    out[1] = __logf(fabsf(x) + 1.0f);
    out[2] = __sinf(x);
    out[3] = __cosf(x);
    out[4] = __fdividef(x, 3.7f);
    out[5] = __powf(fabsf(x) + 0.5f, 1.5f);
    out[6] = __saturatef(x);
}

extern "C" __global__ void math_double(const double *a, double *output, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const double x = a[i];
    double *out = output + i * 6;
    out[0] = exp(x);
    out[1] = log(fabs(x));
    out[2] = sin(x);
    out[3] = pow(fabs(x), 1.25);
    out[4] = 1.0 / x;
    out[5] = rsqrt(fabs(x));
}

// Many bodies: rsqrtf and fused multiply-adds over shared memory.
extern "C" __global__ void gravity(const float4 *bodies, float4 *forces, int count) {
    __shared__ float4 tile[64];
    const int i = blockIdx.x * 64 + threadIdx.x;
    const float4 me = i < count ? bodies[i] : make_float4(0, 0, 0, 0);
    float x = 0, y = 0, z = 0;
    for (int start = 0; start < count; start += 64) {
        tile[threadIdx.x] = start + (int)threadIdx.x < count ? bodies[start + threadIdx.x] : make_float4(0, 0, 0, 0);
        __syncthreads();
        for (int k = 0; k < 64; ++k) {
            const float dx = tile[k].x - me.x, dy = tile[k].y - me.y, dz = tile[k].z - me.z;
            const float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f);
            const float s = tile[k].w * inverse * inverse * inverse;
            x += s * dx;
            y += s * dy;
            z += s * dz;
        }
        __syncthreads();
    }
    if (i < count) forces[i] = make_float4(x, y, z, 0);
}
