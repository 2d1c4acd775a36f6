// Locks and waits: code that needs both sides of a divergent branch, and all resident blocks, to make progress.

// Every lane of every warp of every block adds to a plain counter under one lock.
extern "C" __global__ void lock_counter(int *lock, volatile int *counter) {
    bool done = false;
    while (!done) {
        if (atomicCAS(lock, 0, 1) == 0) {
            __threadfence();
            *counter = *counter + 1;
            __threadfence();
            atomicExch(lock, 0);
            done = true;
        }
    }
}

// The naive form: a lane spins until it has the lock, which another lane of its own warp may hold.
extern "C" __global__ void lock_counter_naive(int *lock, volatile int *counter) {
    while (atomicCAS(lock, 0, 1) != 0) {
    }
    __threadfence();
    *counter = *counter + 1;
    __threadfence();
    atomicExch(lock, 0);
}

// A lock in shared memory, taken by all threads of the block.
extern "C" __global__ void lock_shared(int *result) {
    __shared__ int lock;
    __shared__ volatile int counter;
    if (threadIdx.x == 0) {
        lock = 0;
        counter = 0;
    }
    __syncthreads();
    while (atomicCAS(&lock, 0, 1) != 0) {
    }
    __threadfence_block();
    counter = counter + (int)threadIdx.x;
    __threadfence_block();
    atomicExch(&lock, 0);
    __syncthreads();
    if (threadIdx.x == 0) result[blockIdx.x] = counter;
}

// One half of a warp waits for a message of the other half.
extern "C" __global__ void message_within_a_warp(int *output) {
    __shared__ volatile int mailbox;
    if (threadIdx.x == 0) mailbox = 0;
    __syncthreads();
    if (threadIdx.x % 32 < 16) {
        while (mailbox == 0) {
        }
        output[threadIdx.x] = mailbox;
    } else {
        if (threadIdx.x == 20) mailbox = 42;
        output[threadIdx.x] = -1;
    }
}

// A barrier over the whole grid, made of one counter: every block sees what all blocks wrote before it.
extern "C" __global__ void grid_barrier(unsigned *arrived, volatile unsigned *values, unsigned *sums) {
    if (threadIdx.x == 0) {
        values[blockIdx.x] = blockIdx.x * blockIdx.x + 1;
        __threadfence();
        atomicAdd(arrived, 1u);
        while (atomicAdd(arrived, 0u) < gridDim.x) {
        }
        __threadfence();
        unsigned sum = 0;
        for (unsigned block = 0; block < gridDim.x; ++block) sum += values[block];
        sums[blockIdx.x] = sum;
    }
}
