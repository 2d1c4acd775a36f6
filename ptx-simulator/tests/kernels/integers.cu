// Whole numbers: division by variables, 64-bit and 128-bit products, intrinsics, and hashes that lose no bit.

extern "C" __global__ void divide_32(const int *a, const int *b, int *output, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    int *out = output + i * 4;
    out[0] = a[i] / b[i];
    out[1] = a[i] % b[i];
    out[2] = (int)((unsigned)a[i] / (unsigned)b[i]);
    out[3] = (int)((unsigned)a[i] % (unsigned)b[i]);
}

extern "C" __global__ void divide_64(const long long *a, const long long *b, long long *output, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    long long *out = output + i * 6;
    out[0] = a[i] / b[i];
    out[1] = a[i] % b[i];
    out[2] = (long long)((unsigned long long)a[i] / (unsigned long long)b[i]);
    out[3] = (long long)((unsigned long long)a[i] % (unsigned long long)b[i]);
    out[4] = __mul64hi(a[i], b[i]);
    out[5] = (long long)__umul64hi((unsigned long long)a[i], (unsigned long long)b[i]);
}

extern "C" __global__ void multiply_128(const unsigned long long *a, const unsigned long long *b,
                                        unsigned long long *output, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    unsigned __int128 product = (unsigned __int128)a[i] * b[i];
    product += ((unsigned __int128)b[i] << 64) | a[i];
    product -= (unsigned __int128)a[i] << 17;
    output[2 * i] = (unsigned long long)product;
    output[2 * i + 1] = (unsigned long long)(product >> 64);
}

// Twenty-four words per thread.
extern "C" __global__ void intrinsics(const unsigned *a, const unsigned *b, const unsigned *c, unsigned *output,
                                      int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const unsigned x = a[i], y = b[i], z = c[i];
    unsigned *out = output + i * 24;
    out[0] = __popc(x);
    out[1] = __clz((int)x);
    out[2] = __brev(x);
    out[3] = __ffs((int)x);
    out[4] = __byte_perm(x, y, z);
    out[5] = (unsigned)__dp4a((int)x, (int)y, (int)z);
    out[6] = __dp4a(x, y, z);
    out[7] = __funnelshift_l(x, y, z);
    out[8] = __funnelshift_r(x, y, z);
    out[9] = __funnelshift_lc(x, y, z);
    out[10] = __funnelshift_rc(x, y, z);
    out[11] = __umulhi(x, y);
    out[12] = (unsigned)__mulhi((int)x, (int)y);
    out[13] = (unsigned)__mul24((int)x, (int)y);
    out[14] = __umul24(x, y);
    out[15] = __sad((int)x, (int)y, z);
    out[16] = __usad(x, y, z);
    out[17] = (unsigned)__hadd((int)x, (int)y);
    out[18] = __urhadd(x, y);
    const unsigned long long wide = (unsigned long long)x << 32 | y;
    out[19] = __popcll(wide) * 65536 + __clzll((long long)wide) * 256 + __ffsll((long long)wide);
    out[20] = (unsigned)(__brevll(wide) >> 16);
    out[21] = (unsigned)__dp2a_lo((int)x, (int)y, (int)z);
    out[22] = __dp2a_hi(x, y, z);
    out[23] = (unsigned)min((int)x, max((int)y, (int)z)) ^ (x << (z & 31)) ^ (unsigned)((int)y >> (z & 31));
}

__device__ __forceinline__ unsigned rotate(unsigned x, int n) { return (x >> n) | (x << (32 - n)); }

__constant__ unsigned round_keys[16] = {0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
                                        0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
                                        0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174};

// A compression loop in the manner of SHA-256: 64 rounds over a rolling 16-word message that lives in a local array.
extern "C" __global__ void mix(const unsigned *messages, unsigned *digests, unsigned count) {
    for (unsigned m = blockIdx.x * blockDim.x + threadIdx.x; m < count; m += gridDim.x * blockDim.x) {
        unsigned w[16];
        for (int k = 0; k < 16; ++k) w[k] = messages[m * 16 + k];
        unsigned a = 0x6a09e667, b = 0xbb67ae85, c = 0x3c6ef372, d = 0xa54ff53a;
        unsigned e = 0x510e527f, f = 0x9b05688c, g = 0x1f83d9ab, h = 0x5be0cd19;
        for (int round = 0; round < 64; ++round) {
            const int k = round & 15;
            if (round >= 16) {
                const unsigned w15 = w[(k + 1) & 15], w2 = w[(k + 14) & 15];
                const unsigned s0 = rotate(w15, 7) ^ rotate(w15, 18) ^ (w15 >> 3);
                const unsigned s1 = rotate(w2, 17) ^ rotate(w2, 19) ^ (w2 >> 10);
                w[k] = w[k] + s0 + w[(k + 9) & 15] + s1;
            }
            const unsigned s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
            const unsigned t1 = h + s1 + ((e & f) ^ (~e & g)) + round_keys[k] + w[k];
            const unsigned s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
            const unsigned t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
            h = g;
            g = f;
            f = e;
            e = d + t1;
            d = c;
            c = b;
            b = a;
            a = t1 + t2;
        }
        unsigned *out = digests + m * 8;
        out[0] = a;
        out[1] = b;
        out[2] = c;
        out[3] = d;
        out[4] = e;
        out[5] = f;
        out[6] = g;
        out[7] = h;
    }
}

// A 64-bit hash over a byte string of odd length.
extern "C" __global__ void hash_bytes(const unsigned char *bytes, unsigned length, unsigned long long *output) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned long long hash = 0xcbf29ce484222325ull ^ i;
    for (unsigned k = 0; k < length; ++k) {
        hash ^= bytes[(k + i) % length];
        hash *= 0x100000001b3ull;
        hash ^= hash >> 29;
    }
    output[i] = hash;
}
