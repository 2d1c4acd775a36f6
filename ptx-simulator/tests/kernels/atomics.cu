// Histograms and every atomic operation of CUDA C++, on shared and on global memory.

extern "C" __global__ void histogram(const unsigned char *input, unsigned *bins, unsigned count) {
    __shared__ unsigned local_bins[256];
    for (unsigned i = threadIdx.x; i < 256; i += blockDim.x) local_bins[i] = 0;
    __syncthreads();
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        atomicAdd(&local_bins[input[i]], 1u);
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < 256; i += blockDim.x) {
        if (local_bins[i]) atomicAdd(&bins[i], local_bins[i]);
    }
}

// Whole numbers in float, so that every order of additions gives the same sum.
extern "C" __global__ void weighted_histogram(const unsigned char *input, const float *weights, float *bins,
                                              unsigned count) {
    __shared__ float local_bins[64];
    if (threadIdx.x < 64) local_bins[threadIdx.x] = 0.0f;
    __syncthreads();
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        atomicAdd(&local_bins[input[i] & 63], weights[i]);
    }
    __syncthreads();
    if (threadIdx.x < 64) atomicAdd(&bins[threadIdx.x], local_bins[threadIdx.x]);
}

// A double-precision maximum built from compare-and-swap.
extern "C" __global__ void maximum_by_cas(const double *input, double *result, unsigned count) {
    unsigned long long *bits = reinterpret_cast<unsigned long long *>(result);
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        const double value = input[i];
        unsigned long long seen = *bits;
        while (value > __longlong_as_double(seen)) {
            const unsigned long long before = seen;
            seen = atomicCAS(bits, before, (unsigned long long)__double_as_longlong(value));
            if (seen == before) break;
        }
    }
}

extern "C" __global__ void double_sum(const double *input, double *result, unsigned count) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) atomicAdd(result, input[i]);
}

// results: add, sub, max, min, umax, umin, and, or, xor, inc, dec; then the same ones from shared memory.
extern "C" __global__ void all_integer_atomics(const int *input, int *results, unsigned count) {
    __shared__ int shared[11];
    if (threadIdx.x < 11) shared[threadIdx.x] = results[11 + threadIdx.x];
    __syncthreads();
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        const int value = input[i];
        unsigned *words = reinterpret_cast<unsigned *>(results);
        atomicAdd(&results[0], value);
        atomicSub(&results[1], value);
        atomicMax(&results[2], value);
        atomicMin(&results[3], value);
        atomicMax(&words[4], (unsigned)value);
        atomicMin(&words[5], (unsigned)value);
        atomicAnd(&words[6], (unsigned)value | 0x0ff0u);
        atomicOr(&words[7], (unsigned)value & 0xf0f0f0f0u);
        atomicXor(&words[8], (unsigned)value);
        atomicInc(&words[9], 12u);
        atomicDec(&words[10], 9u);
        unsigned *shared_words = reinterpret_cast<unsigned *>(shared);
        atomicAdd(&shared[0], value);
        atomicSub(&shared[1], value);
        atomicMax(&shared[2], value);
        atomicMin(&shared[3], value);
        atomicMax(&shared_words[4], (unsigned)value);
        atomicMin(&shared_words[5], (unsigned)value);
        atomicAnd(&shared_words[6], (unsigned)value | 0x0ff0u);
        atomicOr(&shared_words[7], (unsigned)value & 0xf0f0f0f0u);
        atomicXor(&shared_words[8], (unsigned)value);
        atomicInc(&shared_words[9], 12u);
        atomicDec(&shared_words[10], 9u);
    }
    __syncthreads();
    if (threadIdx.x < 11 && blockIdx.x == 0) results[11 + threadIdx.x] = shared[threadIdx.x];
}

// 64-bit: add, max, min, umax, umin, and, or, xor.
extern "C" __global__ void all_long_atomics(const long long *input, long long *results, unsigned count) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const long long value = input[i];
    unsigned long long *words = reinterpret_cast<unsigned long long *>(results);
    atomicAdd(&words[0], (unsigned long long)value);
    atomicMax(&results[1], value);
    atomicMin(&results[2], value);
    atomicMax(&words[3], (unsigned long long)value);
    atomicMin(&words[4], (unsigned long long)value);
    atomicAnd(&words[5], (unsigned long long)value | 0xffff0000ull);
    atomicOr(&words[6], (unsigned long long)value & 0xf0f0f0f0f0f0f0f0ull);
    atomicXor(&words[7], (unsigned long long)value);
}

// Every thread takes a ticket and leaves its own number; the tickets are a permutation, the exchange chain loses nothing.
extern "C" __global__ void tickets_and_exchange(unsigned *counter, unsigned *tickets, unsigned *slot,
                                                unsigned *received) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    tickets[i] = atomicAdd(counter, 1u);
    received[i] = atomicExch(slot, i + 1);
}
