// Inclusive prefix sums.

// One block: shuffles inside each warp, then a scan over the warps' sums.
extern "C" __global__ void scan_block(const int *input, int *output, int count) {
    __shared__ int warp_sums[32];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    int value = (int)threadIdx.x < count ? input[threadIdx.x] : 0;
    for (int offset = 1; offset < 32; offset *= 2) {
        const int other = __shfl_up_sync(0xffffffffu, value, offset);
        if (lane >= offset) value += other;
    }
    if (lane == 31) warp_sums[warp] = value;
    __syncthreads();
    if (warp == 0) {
        int sum = lane < (int)(blockDim.x + 31) / 32 ? warp_sums[lane] : 0;
        for (int offset = 1; offset < 32; offset *= 2) {
            const int other = __shfl_up_sync(0xffffffffu, sum, offset);
            if (lane >= offset) sum += other;
        }
        warp_sums[lane] = sum;
    }
    __syncthreads();
    if (warp > 0) value += warp_sums[warp - 1];
    if ((int)threadIdx.x < count) output[threadIdx.x] = value;
}

// Many blocks in one launch: each block waits for the running total of the block before it (state 0: not yet there).
extern "C" __global__ void scan_chained(const unsigned *input, unsigned *output, volatile unsigned *state,
                                        volatile unsigned *totals, unsigned count) {
    __shared__ unsigned values[128];
    __shared__ unsigned before;
    const unsigned i = blockIdx.x * 128 + threadIdx.x;
    values[threadIdx.x] = i < count ? input[i] : 0;
    __syncthreads();
    for (unsigned offset = 1; offset < 128; offset *= 2) {
        const unsigned other = threadIdx.x >= offset ? values[threadIdx.x - offset] : 0;
        __syncthreads();
        values[threadIdx.x] += other;
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        unsigned sum = 0;
        if (blockIdx.x > 0) {
            while (state[blockIdx.x - 1] == 0) {
            }
            __threadfence();
            sum = totals[blockIdx.x - 1];
        }
        before = sum;
        totals[blockIdx.x] = sum + values[127];
        __threadfence();
        state[blockIdx.x] = 1;
    }
    __syncthreads();
    if (i < count) output[i] = before + values[threadIdx.x];
}

// The same wait in the other direction: every block waits for the one after it, so blocks must progress together.
extern "C" __global__ void chain_backwards(volatile unsigned *flags, unsigned *order) {
    if (threadIdx.x == 0) {
        if (blockIdx.x + 1 < gridDim.x) {
            while (flags[blockIdx.x + 1] == 0) {
            }
        }
        __threadfence();
        order[blockIdx.x] = atomicAdd(&order[gridDim.x], 1u);
        __threadfence();
        flags[blockIdx.x] = 1;
    }
}
