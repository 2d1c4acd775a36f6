// Matrix products as a first CUDA course writes them: C = A * B, row-major, A is rows x inner, B is inner x columns.

constexpr int TILE = 16;

// One thread per element, static shared tiles, zero padding at the edges.
extern "C" __global__ void gemm_tiled(const float *a, const float *b, float *c, int rows, int columns, int inner) {
    __shared__ float tile_a[TILE][TILE];
    __shared__ float tile_b[TILE][TILE];
    const int row = blockIdx.y * TILE + threadIdx.y;
    const int column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0.0f;
    for (int start = 0; start < inner; start += TILE) {
        const int ka = start + threadIdx.x;
        const int kb = start + threadIdx.y;
        tile_a[threadIdx.y][threadIdx.x] = row < rows && ka < inner ? a[row * inner + ka] : 0.0f;
        tile_b[threadIdx.y][threadIdx.x] = kb < inner && column < columns ? b[kb * columns + column] : 0.0f;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TILE; ++k) sum = fmaf(tile_a[threadIdx.y][k], tile_b[k][threadIdx.x], sum);
        __syncthreads();
    }
    if (row < rows && column < columns) c[row * columns + column] = sum;
}

// The same product with the tile width chosen at launch: both tiles lie in one dynamic shared array.
extern "C" __global__ void gemm_dynamic_shared(const float *a, const float *b, float *c, int rows, int columns,
                                               int inner) {
    extern __shared__ float tiles[];
    const int tile = blockDim.x;
    float *tile_a = tiles;
    float *tile_b = tiles + tile * tile;
    const int row = blockIdx.y * tile + threadIdx.y;
    const int column = blockIdx.x * tile + threadIdx.x;
    float sum = 0.0f;
    for (int start = 0; start < inner; start += tile) {
        const int ka = start + threadIdx.x;
        const int kb = start + threadIdx.y;
        tile_a[threadIdx.y * tile + threadIdx.x] = row < rows && ka < inner ? a[row * inner + ka] : 0.0f;
        tile_b[threadIdx.y * tile + threadIdx.x] = kb < inner && column < columns ? b[kb * columns + column] : 0.0f;
        __syncthreads();
        for (int k = 0; k < tile; ++k) {
            sum = fmaf(tile_a[threadIdx.y * tile + k], tile_b[k * tile + threadIdx.x], sum);
        }
        __syncthreads();
    }
    if (row < rows && column < columns) c[row * columns + column] = sum;
}

// Four by four elements per thread, float4 loads and stores, double precision sums: sizes are multiples of 64, 256 threads.
extern "C" __global__ void gemm_register_tile(const float *__restrict__ a, const float *__restrict__ b,
                                              float *__restrict__ c, int columns, int inner) {
    constexpr int BLOCK = 64, DEPTH = 16;
    __shared__ float tile_a[DEPTH][BLOCK + 4];
    __shared__ __align__(16) float tile_b[DEPTH][BLOCK];
    const int thread = threadIdx.x;
    const int x = thread % 16, y = thread / 16;
    const float *block_a = a + blockIdx.y * BLOCK * inner;
    const float *block_b = b + blockIdx.x * BLOCK;
    double sum[4][4] = {};
    for (int start = 0; start < inner; start += DEPTH) {
        const float4 va = *reinterpret_cast<const float4 *>(block_a + (thread / 4) * inner + start + (thread % 4) * 4);
        tile_a[(thread % 4) * 4 + 0][thread / 4] = va.x;
        tile_a[(thread % 4) * 4 + 1][thread / 4] = va.y;
        tile_a[(thread % 4) * 4 + 2][thread / 4] = va.z;
        tile_a[(thread % 4) * 4 + 3][thread / 4] = va.w;
        *reinterpret_cast<float4 *>(&tile_b[y][x * 4]) =
            *reinterpret_cast<const float4 *>(block_b + (start + y) * columns + x * 4);
        __syncthreads();
        for (int k = 0; k < DEPTH; ++k) {
            const float4 row = *reinterpret_cast<const float4 *>(&tile_a[k][y * 4]);
            const float4 column = *reinterpret_cast<const float4 *>(&tile_b[k][x * 4]);
            const float rows4[4] = {row.x, row.y, row.z, row.w};
            const float columns4[4] = {column.x, column.y, column.z, column.w};
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) sum[i][j] = fma((double)rows4[i], (double)columns4[j], sum[i][j]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        float4 out = make_float4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]);
        *reinterpret_cast<float4 *>(c + (blockIdx.y * BLOCK + y * 4 + i) * columns + blockIdx.x * BLOCK + x * 4) = out;
    }
}
