// transpose: output[c][r] = input[r][c]. Row-major: input is rows x columns, output columns x rows.
//
// Schedule
//   CUFORGE_BLOCK_X  side of the tile that a block moves
//   CUFORGE_BLOCK_Y  rows of the tile that are moved at a time
//   CUFORGE_ITEMS    rows of a thread, CUFORGE_BLOCK_X / CUFORGE_BLOCK_Y
//   PAD              words added to each row of the tile: with an odd row length a column lies in as many banks as it
//                    has words
// Grid
//   x = ceil(columns / CUFORGE_BLOCK_X), y = ceil(rows / CUFORGE_BLOCK_X)

struct TransposeUniform {
    unsigned rows;
    unsigned columns;
};

// An enumerator, because NVRTC gives every constexpr variable of this scope a word of global memory.
enum : unsigned { SIDE = CUFORGE_BLOCK_X };

static_assert(CUFORGE_BLOCK_Y * CUFORGE_ITEMS == SIDE, "the threads' rows are those of the tile");

extern "C" __global__ void __launch_bounds__(CUFORGE_BLOCK_X * CUFORGE_BLOCK_Y)
transpose(const float* __restrict__ input,
          float* __restrict__ output,
          const TransposeUniform uniform)
{
    // Read along rows and written along rows: what crosses is in shared memory.
    __shared__ float tile[SIDE][SIDE + PAD];

    const unsigned first_row = blockIdx.y * SIDE;
    const unsigned first_column = blockIdx.x * SIDE;
#pragma unroll
    for (unsigned item = 0; item < CUFORGE_ITEMS; ++item) {
        const unsigned y = threadIdx.y + item * CUFORGE_BLOCK_Y;
        const unsigned row = first_row + y;
        const unsigned column = first_column + threadIdx.x;
        if (row < uniform.rows && column < uniform.columns) {
            tile[y][threadIdx.x] = input[(unsigned long long)row * uniform.columns + column];
        }
    }
    __syncthreads();
#pragma unroll
    for (unsigned item = 0; item < CUFORGE_ITEMS; ++item) {
        const unsigned y = threadIdx.y + item * CUFORGE_BLOCK_Y;
        const unsigned row = first_column + y;
        const unsigned column = first_row + threadIdx.x;
        if (row < uniform.columns && column < uniform.rows) {
            output[(unsigned long long)row * uniform.rows + column] = tile[threadIdx.x][y];
        }
    }
}
