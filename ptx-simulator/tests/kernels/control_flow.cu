// Divergence: lanes of a warp part and meet again.

extern "C" __global__ void collatz_steps(const unsigned *input, unsigned *steps, unsigned count) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    unsigned long long n = input[i];
    unsigned taken = 0;
    while (n != 1) {
        if (n % 2 == 0) {
            n /= 2;
        } else {
            n = 3 * n + 1;
        }
        ++taken;
        if (taken > 1000) break;
    }
    steps[i] = taken;
}

// A little machine: a dense switch in a loop, with break and continue, becomes a branch table.
extern "C" __global__ void interpreter(const unsigned char *programs, int *results, int length, unsigned count) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const unsigned char *program = programs + i * length;
    int a = (int)i, b = 7;
    for (int pc = 0, budget = 4 * length; pc < length && budget > 0; ++pc, --budget) {
        const unsigned char code = program[pc];
        switch (code & 15) {
        case 0: a += b; break;
        case 1: a -= 3 * b; break;
        case 2: a ^= b << 3; break;
        case 3: b = a - b; break;
        case 4: a = a * 31 + 17; break;
        case 5: b = (b >> 1) | 1; break;
        case 6:
            for (int k = 0; k < (code >> 4); ++k) {
                if (k == 9) continue;
                if ((a & 0xff) == 0x55) break;
                a = a * 5 + k;
            }
            break;
        case 7:
            if (a > b) continue;
            b ^= a;
            break;
        case 8: a = max(a, b); break;
        case 9: b = min(a, b); break;
        case 10:
            if (budget % 3 == 0) pc -= 2;
            if (pc < -1) pc = -1;
            break;
        case 11: a = abs(a) % 1000; break;
        case 12: b += pc; break;
        case 13: goto done;
        case 14: a = ~a; break;
        default: b = a / ((code >> 4) + 1); break;
        }
    }
done:
    results[2 * i] = a;
    results[2 * i + 1] = b;
}

// Nested loops whose bounds differ from lane to lane.
extern "C" __global__ void triangle_sums(unsigned *output, unsigned count) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    unsigned sum = 0;
    for (unsigned x = 0; x <= i % 37; ++x) {
        for (unsigned y = x; y < i % 11; ++y) {
            if ((x ^ y) % 5 == 0) continue;
            if (x * y > 40) break;
            sum += x * y + 1;
        }
        if (sum > 300) {
            sum += 100000;
            break;
        }
    }
    output[i] = sum;
}

// Threads that leave early must not hold the others up: half a warp returns, the rest goes on through shuffles.
extern "C" __global__ void early_exit(int *output) {
    const int lane = threadIdx.x % 32;
    if (lane % 2) return;
    int value = lane;
    value += __shfl_xor_sync(0x55555555u, value, 2);
    value += __shfl_xor_sync(0x55555555u, value, 4);
    output[blockIdx.x * blockDim.x + threadIdx.x] = value;
}
