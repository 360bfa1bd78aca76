// class: uninitialised shared memory
// kernel: gemm
// schedule: 2
// shape: 40x50x5
// wrong: What lies beyond the edges of a and b is left as it is in shared memory instead of being zero.

struct GemmUniform {
    unsigned m;
    unsigned n;
    unsigned k;
};

static_assert(CUFORGE_BLOCK_X * MICRO_N == TILE_N, "the threads of a row must cover the tile's columns");
static_assert(CUFORGE_BLOCK_Y * MICRO_M == TILE_M, "the threads of a column must cover the tile's rows");
static_assert(CUFORGE_ITEMS == MICRO_M * MICRO_N, "a thread's items are its micro tile");

enum : unsigned { THREADS = CUFORGE_BLOCK_X * CUFORGE_BLOCK_Y };

extern "C" __global__ void __launch_bounds__(THREADS)
gemm(const float* __restrict__ a,
     const float* __restrict__ b,
     float* __restrict__ c,
     const GemmUniform uniform)
{
    __shared__ float tile_a[TILE_K][TILE_M + PAD];
    __shared__ float tile_b[TILE_K][TILE_N];

    const unsigned first_row = blockIdx.y * TILE_M;
    const unsigned first_column = blockIdx.x * TILE_N;
    const unsigned thread = threadIdx.y * CUFORGE_BLOCK_X + threadIdx.x;

    float sums[MICRO_M][MICRO_N] = {};
    for (unsigned first_k = 0; first_k < uniform.k; first_k += TILE_K) {
        for (unsigned slot = thread; slot < TILE_M * TILE_K; slot += THREADS) {
            const unsigned row = first_row + slot / TILE_K;
            const unsigned k = first_k + slot % TILE_K;
            if (row < uniform.m && k < uniform.k) {
                tile_a[slot % TILE_K][slot / TILE_K] = a[(unsigned long long)row * uniform.k + k];
            }
        }
        for (unsigned slot = thread; slot < TILE_K * TILE_N; slot += THREADS) {
            const unsigned k = first_k + slot / TILE_N;
            const unsigned column = first_column + slot % TILE_N;
            if (k < uniform.k && column < uniform.n) {
                tile_b[slot / TILE_N][slot % TILE_N] = b[(unsigned long long)k * uniform.n + column];
            }
        }
        __syncthreads();

#pragma unroll
        for (unsigned k = 0; k < TILE_K; ++k) {
            float column_of_a[MICRO_M];
            float row_of_b[MICRO_N];
#pragma unroll
            for (unsigned i = 0; i < MICRO_M; ++i) {
                column_of_a[i] = tile_a[k][threadIdx.y + i * CUFORGE_BLOCK_Y];
            }
#pragma unroll
            for (unsigned j = 0; j < MICRO_N; ++j) {
                row_of_b[j] = tile_b[k][threadIdx.x + j * CUFORGE_BLOCK_X];
            }
#pragma unroll
            for (unsigned i = 0; i < MICRO_M; ++i) {
#pragma unroll
                for (unsigned j = 0; j < MICRO_N; ++j) {
                    sums[i][j] += column_of_a[i] * row_of_b[j];
                }
            }
        }
        __syncthreads();
    }

#pragma unroll
    for (unsigned i = 0; i < MICRO_M; ++i) {
#pragma unroll
        for (unsigned j = 0; j < MICRO_N; ++j) {
            const unsigned row = first_row + threadIdx.y + i * CUFORGE_BLOCK_Y;
            const unsigned column = first_column + threadIdx.x + j * CUFORGE_BLOCK_X;
            if (row < uniform.m && column < uniform.n) {
                c[(unsigned long long)row * uniform.n + column] = sums[i][j];
            }
        }
    }
}
