// column_sum: output[c] = the sum over r of input[r][c], as a gradient of a bias is; row-major, rows x columns.
//
// Schedule
//   CUFORGE_BLOCK_X  columns of a block
//   CUFORGE_BLOCK_Y  threads that share a column
//   CUFORGE_ITEMS    rows a thread loads before it uses the first
// Grid
//   x = ceil(columns / CUFORGE_BLOCK_X)

struct ColumnSumUniform {
    unsigned rows;
    unsigned columns;
};

// An enumerator, because NVRTC gives every constexpr variable of this scope a word of global memory.
enum : unsigned { STEP = CUFORGE_BLOCK_Y * CUFORGE_ITEMS };

extern "C" __global__ void __launch_bounds__(CUFORGE_BLOCK_X * CUFORGE_BLOCK_Y)
column_sum(const float* __restrict__ input,
           float* __restrict__ output,
           const ColumnSumUniform uniform)
{
    __shared__ float partials[CUFORGE_BLOCK_Y][CUFORGE_BLOCK_X];

    const unsigned column = blockIdx.x * CUFORGE_BLOCK_X + threadIdx.x;
    // A column beyond the last is empty instead of leaving early: all threads must reach the barrier.
    const unsigned rows = column < uniform.columns ? uniform.rows : 0;

    float sum = 0.0f;
    for (unsigned base = threadIdx.y; base < rows; base += STEP) {
        float loaded[CUFORGE_ITEMS];
#pragma unroll
        for (unsigned item = 0; item < CUFORGE_ITEMS; ++item) {
            const unsigned row = base + item * CUFORGE_BLOCK_Y;
            loaded[item] = row < rows ? input[(unsigned long long)row * uniform.columns + column] : 0.0f;
        }
#pragma unroll
        for (unsigned item = 0; item < CUFORGE_ITEMS; ++item) {
            sum += loaded[item];
        }
    }
    partials[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && column < uniform.columns) {
        float total = 0.0f;
#pragma unroll
        for (unsigned y = 0; y < CUFORGE_BLOCK_Y; ++y) {
            total += partials[y][threadIdx.x];
        }
        output[column] = total;
    }
}
