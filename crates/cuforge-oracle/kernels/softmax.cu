// softmax: every row of output is exp(x - max(x)) / sum(exp(x - max(x))) of the same row of input; row-major,
// rows x width. A row that holds only -infinity has no softmax and comes out as NaN.
//
// Schedule
//   CUFORGE_BLOCK_X  threads that share a row
//   CUFORGE_BLOCK_Y  rows of a block; above 1 a row must be made of whole warps
//   CUFORGE_ITEMS    elements a thread loads before it uses the first
//   RECOMPUTE        1: the last sweep computes the exponentials again; 0: the second sweep parks them in output.
//                    One more exponential per element against one more write and read of the row.
// Grid
//   x = ceil(rows / CUFORGE_BLOCK_Y)

struct SoftmaxUniform {
    unsigned rows;
    unsigned width;
};

// Enumerators, because NVRTC gives every constexpr variable of this scope a word of global memory.
enum : unsigned {
    WARP = 32,
    WARPS = (CUFORGE_BLOCK_X + WARP - 1) / WARP,
    STEP = CUFORGE_BLOCK_X * CUFORGE_ITEMS,
};

static_assert(CUFORGE_BLOCK_Y == 1 || CUFORGE_BLOCK_X % WARP == 0, "a warp must not straddle two rows");

// Lanes of the calling thread's warp that exist: the last warp of a block may be partial.
__device__ __forceinline__ unsigned lanes_of_warp()
{
    const unsigned left = CUFORGE_BLOCK_X - threadIdx.x / WARP * WARP;
    return left < WARP ? left : WARP;
}

// Folds `value` over the threads of a row, and hands the result to all of them. Max or sum is chosen at compile time.
// Calls of the whole block only: it holds a barrier. Each call takes an array of its own, so that nobody has to wait
// until the one before has been read.
template <bool MAX>
__device__ __forceinline__ float fold_row(float value, float (&partials)[CUFORGE_BLOCK_Y][WARPS])
{
    const unsigned lanes = lanes_of_warp();
    // A mask may name only lanes that exist, or the shuffle waits for threads that never come.
    const unsigned mask = lanes == WARP ? 0xffffffffu : (1u << lanes) - 1u;
    const unsigned lane = threadIdx.x % WARP;
#pragma unroll
    for (unsigned offset = WARP / 2; offset > 0; offset /= 2) {
        const float other = __shfl_down_sync(mask, value, offset);
        // What comes from beyond the last lane is undefined and must not enter the result.
        if (lane + offset < lanes) {
            value = MAX ? fmaxf(value, other) : value + other;
        }
    }
    if (lane == 0) {
        partials[threadIdx.y][threadIdx.x / WARP] = value;
    }
    __syncthreads();
    // At most 32 partials, read by every thread at the same address: a broadcast, cheaper than a second round trip
    // through shuffles and one more barrier. All threads fold in the same order, so all hold the same bits.
    float result = partials[threadIdx.y][0];
#pragma unroll
    for (unsigned warp = 1; warp < WARPS; ++warp) {
        const float other = partials[threadIdx.y][warp];
        result = MAX ? fmaxf(result, other) : result + other;
    }
    return result;
}

extern "C" __global__ void __launch_bounds__(CUFORGE_BLOCK_X * CUFORGE_BLOCK_Y)
softmax(const float* __restrict__ input,
        float* __restrict__ output,
        const SoftmaxUniform uniform)
{
    __shared__ float peaks[CUFORGE_BLOCK_Y][WARPS];
    __shared__ float sums[CUFORGE_BLOCK_Y][WARPS];

    const unsigned row = blockIdx.x * CUFORGE_BLOCK_Y + threadIdx.y;
    // A row beyond the last is empty instead of leaving early: all threads must reach every barrier.
    const unsigned width = row < uniform.rows ? uniform.width : 0;
    const unsigned long long start = (unsigned long long)row * uniform.width;
    const float* __restrict__ x = input + start;
    float* __restrict__ y = output + start;

    // Subtracting the row's maximum keeps every exponential in [0, 1]: no overflow whatever the offset of the row.
    // The lowest finite float is as good a start as -infinity, and differences from it are never NaN.
    float peak = -3.402823466e+38f;
    for (unsigned base = threadIdx.x; base < width; base += STEP) {
#pragma unroll
        for (unsigned item = 0; item < CUFORGE_ITEMS; ++item) {
            const unsigned column = base + item * CUFORGE_BLOCK_X;
            if (column < width) {
                peak = fmaxf(peak, x[column]);
            }
        }
    }
    peak = fold_row<true>(peak, peaks);

    float sum = 0.0f;
    for (unsigned base = threadIdx.x; base < width; base += STEP) {
#pragma unroll
        for (unsigned item = 0; item < CUFORGE_ITEMS; ++item) {
            const unsigned column = base + item * CUFORGE_BLOCK_X;
            if (column < width) {
                const float power = expf(x[column] - peak);
                sum += power;
                if (!RECOMPUTE) {
                    y[column] = power;
                }
            }
        }
    }
    sum = fold_row<false>(sum, sums);

    const float inverse = 1.0f / sum;
    for (unsigned base = threadIdx.x; base < width; base += STEP) {
#pragma unroll
        for (unsigned item = 0; item < CUFORGE_ITEMS; ++item) {
            const unsigned column = base + item * CUFORGE_BLOCK_X;
            if (column < width) {
                // Parked values are read back by the thread that wrote them, so no barrier is due.
                const float power = RECOMPUTE ? expf(x[column] - peak) : y[column];
                y[column] = power * inverse;
            }
        }
    }
}
