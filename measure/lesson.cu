// The lesson's two kernels in CUDA C++, to measure the Rust kernels against: square matrices whose size is a multiple of the tile,
// 32-bit indices, no zero-filled edges.
constexpr int kTile = 16;

extern "C" __global__ void lesson_naive(const float* a, const float* b, float* c, int n) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= n || column >= n) return;
    float sum = 0.0f;
    for (int i = 0; i < n; ++i) sum += a[row * n + i] * b[i * n + column];
    c[row * n + column] = sum;
}

extern "C" __global__ void lesson_tiled(const float* a, const float* b, float* c, int n) {
    __shared__ float tile_a[kTile][kTile];
    __shared__ float tile_b[kTile][kTile];
    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * kTile + y;
    const int column = blockIdx.x * kTile + x;
    float sum = 0.0f;
    for (int step = 0; step < n / kTile; ++step) {
        tile_a[y][x] = a[row * n + step * kTile + x];
        tile_b[y][x] = b[(step * kTile + y) * n + column];
        __syncthreads();
        for (int i = 0; i < kTile; ++i) sum += tile_a[y][i] * tile_b[i][x];
        __syncthreads();
    }
    if (row < n && column < n) c[row * n + column] = sum;
}
