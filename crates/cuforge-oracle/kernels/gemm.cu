// gemm: c = a * b. Row-major: a is m x k, b is k x n, c is m x n.
//
// Schedule
//   CUFORGE_BLOCK_X    threads across a tile, TILE_N / MICRO_N
//   CUFORGE_BLOCK_Y    threads down a tile, TILE_M / MICRO_M
//   CUFORGE_ITEMS      elements of c of a thread, MICRO_M * MICRO_N
//   TILE_M, TILE_N     the part of c that a block computes
//   TILE_K             depth of the tiles that are staged in shared memory at a time
//   MICRO_M, MICRO_N   the part of c that a thread keeps in registers: MICRO_M + MICRO_N shared loads feed
//                      MICRO_M * MICRO_N multiply-adds
//   PAD                words added to each row of the staged a. Its columns are stored by threads that stand TILE_M
//                      words apart; an odd row length puts them into different banks.
// Grid
//   x = ceil(n / TILE_N), y = ceil(m / TILE_M)

struct GemmUniform {
    unsigned m;
    unsigned n;
    unsigned k;
};

static_assert(CUFORGE_BLOCK_X * MICRO_N == TILE_N, "the threads of a row must cover the tile's columns");
static_assert(CUFORGE_BLOCK_Y * MICRO_M == TILE_M, "the threads of a column must cover the tile's rows");
static_assert(CUFORGE_ITEMS == MICRO_M * MICRO_N, "a thread's items are its micro tile");

// An enumerator, because NVRTC gives every constexpr variable of this scope a word of global memory.
enum : unsigned { THREADS = CUFORGE_BLOCK_X * CUFORGE_BLOCK_Y };

extern "C" __global__ void __launch_bounds__(THREADS)
gemm(const float* __restrict__ a,
     const float* __restrict__ b,
     float* __restrict__ c,
     const GemmUniform uniform)
{
    // a is staged transposed: in the inner loop both tiles are read along a row.
    __shared__ float tile_a[TILE_K][TILE_M + PAD];
    __shared__ float tile_b[TILE_K][TILE_N];

    const unsigned first_row = blockIdx.y * TILE_M;
    const unsigned first_column = blockIdx.x * TILE_N;
    const unsigned thread = threadIdx.y * CUFORGE_BLOCK_X + threadIdx.x;

    float sums[MICRO_M][MICRO_N] = {};
    for (unsigned first_k = 0; first_k < uniform.k; first_k += TILE_K) {
        // Neighbouring threads load neighbouring words of global memory. Zero outside of the matrices: what lies
        // beyond an edge adds nothing, so the inner loop needs no guard.
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
            // A thread's rows and columns lie CUFORGE_BLOCK_Y and CUFORGE_BLOCK_X apart: a warp then reads neighbouring
            // words of tile_b (no bank conflict) and few distinct words of tile_a (broadcasts).
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
        // The tiles may be overwritten only when nobody reads them any more.
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
