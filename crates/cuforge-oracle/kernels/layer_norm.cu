// layer_norm: output[r][c] = (input[r][c] - mean_r) / sqrt(variance_r + epsilon) * weight[c] + bias[c], mean and variance
// over the row; row-major, rows x width.
//
// Schedule
//   CUFORGE_BLOCK_X  threads that share a row, whole warps
//   CUFORGE_BLOCK_Y  rows of a block
//   CUFORGE_ITEMS    elements a thread loads before it uses the first
// Grid
//   x = ceil(rows / CUFORGE_BLOCK_Y)
//
// The variance is taken from the differences to the mean, in a sweep of its own: the difference of two sums of squares
// loses all its digits in a row far from zero.

struct LayerNormUniform {
    unsigned rows;
    unsigned width;
    float epsilon;
};

// Enumerators, because NVRTC gives every constexpr variable of this scope a word of global memory.
enum : unsigned {
    WARP = 32,
    WARPS = CUFORGE_BLOCK_X / WARP,
    STEP = CUFORGE_BLOCK_X * CUFORGE_ITEMS,
};

static_assert(CUFORGE_BLOCK_X % WARP == 0, "shuffles name all lanes");

// The sum of `value` over the threads of a row, handed to all of them. Calls of the whole block only: it holds a
// barrier. Each call takes an array of its own, so that nobody has to wait until the one before has been read.
__device__ __forceinline__ float sum_row(float value, float (&partials)[CUFORGE_BLOCK_Y][WARPS])
{
#pragma unroll
    for (unsigned offset = WARP / 2; offset > 0; offset /= 2) {
        value += __shfl_down_sync(0xffffffffu, value, offset);
    }
    if (threadIdx.x % WARP == 0) {
        partials[threadIdx.y][threadIdx.x / WARP] = value;
    }
    __syncthreads();
    float sum = 0.0f;
#pragma unroll
    for (unsigned warp = 0; warp < WARPS; ++warp) {
        sum += partials[threadIdx.y][warp];
    }
    return sum;
}

extern "C" __global__ void __launch_bounds__(CUFORGE_BLOCK_X * CUFORGE_BLOCK_Y)
layer_norm(const float* __restrict__ input,
           const float* __restrict__ weight,
           const float* __restrict__ bias,
           float* __restrict__ output,
           const LayerNormUniform uniform)
{
    __shared__ float sums[CUFORGE_BLOCK_Y][WARPS];
    __shared__ float squares[CUFORGE_BLOCK_Y][WARPS];

    const unsigned row = blockIdx.x * CUFORGE_BLOCK_Y + threadIdx.y;
    // A row beyond the last is empty instead of leaving early: all threads must reach every barrier.
    const unsigned width = row < uniform.rows ? uniform.width : 0;
    const unsigned long long start = (unsigned long long)row * uniform.width;
    const float* __restrict__ x = input + start;
    float* __restrict__ y = output + start;

    float sum = 0.0f;
    for (unsigned base = threadIdx.x; base < width; base += STEP) {
#pragma unroll
        for (unsigned item = 0; item < CUFORGE_ITEMS; ++item) {
            const unsigned column = base + item * CUFORGE_BLOCK_X;
            if (column < width) {
                sum += x[column];
            }
        }
    }
    const float mean = sum_row(sum, sums) / (float)uniform.width;

    float square = 0.0f;
    for (unsigned base = threadIdx.x; base < width; base += STEP) {
#pragma unroll
        for (unsigned item = 0; item < CUFORGE_ITEMS; ++item) {
            const unsigned column = base + item * CUFORGE_BLOCK_X;
            if (column < width) {
                const float difference = x[column] - mean;
                square += difference * difference;
            }
        }
    }
    const float variance = sum_row(square, squares) / (float)uniform.width;
    const float inverse = rsqrtf(variance + uniform.epsilon);

    for (unsigned base = threadIdx.x; base < width; base += STEP) {
#pragma unroll
        for (unsigned item = 0; item < CUFORGE_ITEMS; ++item) {
            const unsigned column = base + item * CUFORGE_BLOCK_X;
            if (column < width) {
                y[column] = (x[column] - mean) * inverse * weight[column] + bias[column];
            }
        }
    }
}
