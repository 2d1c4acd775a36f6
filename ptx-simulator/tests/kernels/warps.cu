// Votes, matches and shuffles.

// Per thread ten words: ballot, any, all, match_any, match_all, its predicate, active mask in a branch, lane masks.
extern "C" __global__ void votes(const int *input, unsigned *output) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    const int value = input[i];
    unsigned *out = output + i * 10;
    out[0] = __ballot_sync(0xffffffffu, value > 3);
    out[1] = __any_sync(0xffffffffu, value == 5);
    out[2] = __all_sync(0xffffffffu, value < 8);
    out[3] = __match_any_sync(0xffffffffu, value);
    int same = -1;
    out[4] = __match_all_sync(0xffffffffu, value / 8, &same);
    out[5] = same;
    out[6] = 0;
    if (value % 3 == 0) {
        out[6] = __activemask();
        __syncwarp(__activemask());
    }
    __syncwarp();
    out[7] = __match_any_sync(0xffffffffu, (unsigned long long)(value % 2) << 40);
    unsigned below;
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
    out[8] = below;
    out[9] = __popc(out[0] & below);
}

// Every shuffle, with widths smaller than a warp: eight words per thread.
extern "C" __global__ void shuffles(const int *input, int *output, int source, int width_log2) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    const int value = input[i];
    const int width = 1 << width_log2;
    int *out = output + i * 8;
    out[0] = __shfl_sync(0xffffffffu, value, source);
    out[1] = __shfl_sync(0xffffffffu, value, threadIdx.x * 7 + source);
    out[2] = __shfl_up_sync(0xffffffffu, value, 3, width);
    out[3] = __shfl_down_sync(0xffffffffu, value, source & 7, width);
    out[4] = __shfl_xor_sync(0xffffffffu, value, source & 15, width);
    out[5] = __shfl_sync(0xffffffffu, value, source, width);
    out[6] = (int)__shfl_xor_sync(0xffffffffu, (double)value * 0.5, 1);
    out[7] = (int)(__shfl_up_sync(0xffffffffu, (long long)value << 33, 1) >> 32);
}

// Odd-even transposition sort of 32 keys per warp, in registers.
extern "C" __global__ void sort_warp(int *keys) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int lane = threadIdx.x & 31;
    int key = keys[i];
    for (int size = 2; size <= 32; size *= 2) {
        for (int stride = size / 2; stride > 0; stride /= 2) {
            const int other = __shfl_xor_sync(0xffffffffu, key, stride);
            const bool ascending = (lane & size) == 0;
            const bool lower = (lane & stride) == 0;
            key = (ascending == lower) == (key < other) ? key : other;
        }
    }
    keys[i] = key;
}
