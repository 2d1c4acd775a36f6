// Sums over a block and over a grid: shared-memory trees, warp shuffles, cooperative groups, the last block finishes.
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

// Tree in dynamic shared memory; one partial sum per block. The block size is a power of two.
extern "C" __global__ void reduce_shared_tree(const unsigned *input, unsigned *partial, unsigned count) {
    extern __shared__ unsigned scratch[];
    unsigned sum = 0;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) sum += input[i];
    scratch[threadIdx.x] = sum;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half >>= 1) {
        if (threadIdx.x < half) scratch[threadIdx.x] += scratch[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) partial[blockIdx.x] = scratch[0];
}

__device__ __forceinline__ float warp_sum(float value) {
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down_sync(0xffffffffu, value, offset);
    return value;
}

// Shuffles inside a warp, one shared slot per warp, the first warp adds the slots. Block size is a multiple of 32.
extern "C" __global__ void reduce_shuffle(const float *input, float *partial, unsigned count) {
    __shared__ float slots[32];
    float sum = 0.0f;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) sum += input[i];
    sum = warp_sum(sum);
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (lane == 0) slots[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        sum = lane < blockDim.x / 32 ? slots[lane] : 0.0f;
        sum = warp_sum(sum);
        if (lane == 0) partial[blockIdx.x] = sum;
    }
}

__device__ unsigned blocks_done = 0;

// The whole sum in one launch: the block that finishes last adds the partial sums and resets the counter.
extern "C" __global__ void reduce_last_block(const unsigned long long *input, volatile unsigned long long *partial,
                                             unsigned long long *total, unsigned count) {
    __shared__ unsigned long long scratch[256];
    __shared__ bool is_last;
    unsigned long long sum = 0;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) sum += input[i];
    scratch[threadIdx.x] = sum;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) scratch[threadIdx.x] += scratch[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = scratch[0];
        __threadfence();
        is_last = atomicInc(&blocks_done, gridDim.x) == gridDim.x - 1;
    }
    __syncthreads();
    if (is_last && threadIdx.x == 0) {
        sum = 0;
        for (unsigned block = 0; block < gridDim.x; ++block) sum += partial[block];
        *total = sum;
        blocks_done = 0;
    }
}

// Cooperative groups: tiles of eight lanes, each adds its own elements and writes one sum.
extern "C" __global__ void reduce_tiles_of_eight(const int *input, int *sums, unsigned count) {
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<8> tile = cg::tiled_partition<8>(block);
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    int value = i < count ? input[i] : 0;
    for (unsigned offset = tile.size() / 2; offset > 0; offset /= 2) value += tile.shfl_xor(value, offset);
    block.sync();
    if (tile.thread_rank() == 0) sums[i / 8] = value;
}

// Threads that took the branch form a group among themselves; one of them does a single atomic for all.
extern "C" __global__ void count_even_aggregated(const int *input, unsigned *count_even, unsigned count) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count && input[i] % 2 == 0) {
        cg::coalesced_group active = cg::coalesced_threads();
        if (active.thread_rank() == 0) atomicAdd(count_even, active.size());
    }
}

// __syncthreads_count, _and, _or.
extern "C" __global__ void barrier_reductions(const int *input, int *output) {
    const int value = input[blockIdx.x * blockDim.x + threadIdx.x];
    const int above = __syncthreads_count(value > 0);
    const int all = __syncthreads_and(value > -100);
    const int any = __syncthreads_or(value > 90);
    output[blockIdx.x * blockDim.x + threadIdx.x] = above * 4 + all * 2 + any;
}
