// class: precision
// kernel: gemm
// schedule: 2
// shape: 40x50x24
// wrong: The sums are kept in half precision.

struct GemmUniform {
    unsigned m;
    unsigned n;
    unsigned k;
};

static_assert(CUFORGE_BLOCK_X * MICRO_N == TILE_N, "the threads of a row must cover the tile's columns");
static_assert(CUFORGE_BLOCK_Y * MICRO_M == TILE_M, "the threads of a column must cover the tile's rows");
static_assert(CUFORGE_ITEMS == MICRO_M * MICRO_N, "a thread's items are its micro tile");

enum : unsigned { THREADS = CUFORGE_BLOCK_X * CUFORGE_BLOCK_Y };

__device__ __forceinline__ float to_half(float value)
{
    asm("{ .reg .b16 h; cvt.rn.f16.f32 h, %0; cvt.f32.f16 %0, h; }" : "+f"(value));
    return value;
}

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
            tile_a[slot % TILE_K][slot / TILE_K] =
                row < uniform.m && k < uniform.k ? a[(unsigned long long)row * uniform.k + k] : 0.0f;
        }
        for (unsigned slot = thread; slot < TILE_K * TILE_N; slot += THREADS) {
            const unsigned k = first_k + slot / TILE_N;
            const unsigned column = first_column + slot % TILE_N;
            tile_b[slot / TILE_N][slot % TILE_N] =
                k < uniform.k && column < uniform.n ? b[(unsigned long long)k * uniform.n + column] : 0.0f;
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
                    sums[i][j] = to_half(sums[i][j] + column_of_a[i] * row_of_b[j]);
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
