// gemm_wmma: c = a * b on tensor cores, a and b in half precision, sums and c in single. Row-major: a is m x k, b is
// k x n, c is m x n.
//
// Schedule
//   CUFORGE_BLOCK_X           threads of a block, WARPS_M * WARPS_N warps
//   CUFORGE_ITEMS             fragments of c of a warp, FRAGMENTS_M * FRAGMENTS_N
//   WARPS_M, WARPS_N          warps down and across the tile of c that a block computes
//   FRAGMENTS_M, FRAGMENTS_N  fragments of 16 x 16 elements down and across a warp's part of it
//   TILE_K                    depth of the tiles that are staged in shared memory at a time, a multiple of 16
//   PAD                       halves added to each staged row, a multiple of 8: without them the rows of a fragment
//                             begin in the same banks
// Grid
//   x = ceil(n / (WARPS_N * FRAGMENTS_N * 16)), y = ceil(m / (WARPS_M * FRAGMENTS_M * 16))

#include <mma.h>

struct GemmWmmaUniform {
    unsigned m;
    unsigned n;
    unsigned k;
};

// Enumerators, because NVRTC gives every constexpr variable of this scope a word of global memory.
enum : unsigned {
    WARP = 32,
    SIDE = 16,
    WARP_ROWS = FRAGMENTS_M * SIDE,
    WARP_COLUMNS = FRAGMENTS_N * SIDE,
    TILE_M = WARPS_M * WARP_ROWS,
    TILE_N = WARPS_N * WARP_COLUMNS,
};

static_assert(CUFORGE_BLOCK_X == WARPS_M * WARPS_N * WARP, "each part of the tile has a warp");
static_assert(CUFORGE_ITEMS == FRAGMENTS_M * FRAGMENTS_N, "a warp's items are its fragments");
static_assert(TILE_K % SIDE == 0, "a fragment is 16 deep");
static_assert(PAD % 8 == 0, "the rows of a fragment lie a multiple of 16 bytes apart");

extern "C" __global__ void __launch_bounds__(CUFORGE_BLOCK_X)
gemm_wmma(const __half* __restrict__ a,
          const __half* __restrict__ b,
          float* __restrict__ c,
          const GemmWmmaUniform uniform)
{
    using namespace nvcuda;
    // Fragments are loaded from addresses that are multiples of 32 bytes.
    __shared__ __align__(32) __half tile_a[TILE_M][TILE_K + PAD];
    __shared__ __align__(32) __half tile_b[TILE_K][TILE_N + PAD];
    __shared__ __align__(32) float tile_c[TILE_M][TILE_N];

    const unsigned first_row = blockIdx.y * TILE_M;
    const unsigned first_column = blockIdx.x * TILE_N;
    const unsigned warp_row = threadIdx.x / WARP / WARPS_N * WARP_ROWS;
    const unsigned warp_column = threadIdx.x / WARP % WARPS_N * WARP_COLUMNS;

    wmma::fragment<wmma::accumulator, SIDE, SIDE, SIDE, float> sums[FRAGMENTS_M][FRAGMENTS_N];
#pragma unroll
    for (unsigned i = 0; i < FRAGMENTS_M; ++i) {
#pragma unroll
        for (unsigned j = 0; j < FRAGMENTS_N; ++j) {
            wmma::fill_fragment(sums[i][j], 0.0f);
        }
    }

    for (unsigned first_k = 0; first_k < uniform.k; first_k += TILE_K) {
        // Zero outside of the matrices: what lies beyond an edge adds nothing.
        for (unsigned slot = threadIdx.x; slot < TILE_M * TILE_K; slot += CUFORGE_BLOCK_X) {
            const unsigned row = first_row + slot / TILE_K;
            const unsigned k = first_k + slot % TILE_K;
            tile_a[slot / TILE_K][slot % TILE_K] = row < uniform.m && k < uniform.k
                ? a[(unsigned long long)row * uniform.k + k]
                : __ushort_as_half(0);
        }
        for (unsigned slot = threadIdx.x; slot < TILE_K * TILE_N; slot += CUFORGE_BLOCK_X) {
            const unsigned k = first_k + slot / TILE_N;
            const unsigned column = first_column + slot % TILE_N;
            tile_b[slot / TILE_N][slot % TILE_N] = k < uniform.k && column < uniform.n
                ? b[(unsigned long long)k * uniform.n + column]
                : __ushort_as_half(0);
        }
        __syncthreads();

#pragma unroll
        for (unsigned k = 0; k < TILE_K; k += SIDE) {
            wmma::fragment<wmma::matrix_a, SIDE, SIDE, SIDE, __half, wmma::row_major> rows[FRAGMENTS_M];
            wmma::fragment<wmma::matrix_b, SIDE, SIDE, SIDE, __half, wmma::row_major> columns[FRAGMENTS_N];
#pragma unroll
            for (unsigned i = 0; i < FRAGMENTS_M; ++i) {
                wmma::load_matrix_sync(rows[i], &tile_a[warp_row + i * SIDE][k], TILE_K + PAD);
            }
#pragma unroll
            for (unsigned j = 0; j < FRAGMENTS_N; ++j) {
                wmma::load_matrix_sync(columns[j], &tile_b[k][warp_column + j * SIDE], TILE_N + PAD);
            }
#pragma unroll
            for (unsigned i = 0; i < FRAGMENTS_M; ++i) {
#pragma unroll
                for (unsigned j = 0; j < FRAGMENTS_N; ++j) {
                    wmma::mma_sync(sums[i][j], rows[i], columns[j], sums[i][j]);
                }
            }
        }
        // The tiles may be overwritten only when nobody reads them any more.
        __syncthreads();
    }

    // Which element of a fragment a lane holds is not specified, so the edges of c are cut in shared memory.
#pragma unroll
    for (unsigned i = 0; i < FRAGMENTS_M; ++i) {
#pragma unroll
        for (unsigned j = 0; j < FRAGMENTS_N; ++j) {
            wmma::store_matrix_sync(&tile_c[warp_row + i * SIDE][warp_column + j * SIDE], sums[i][j], TILE_N,
                                    wmma::mem_row_major);
        }
    }
    __syncthreads();
    for (unsigned slot = threadIdx.x; slot < TILE_M * TILE_N; slot += CUFORGE_BLOCK_X) {
        const unsigned row = first_row + slot / TILE_N;
        const unsigned column = first_column + slot % TILE_N;
        if (row < uniform.m && column < uniform.n) {
            c[(unsigned long long)row * uniform.n + column] = tile_c[slot / TILE_N][slot % TILE_N];
        }
    }
}
