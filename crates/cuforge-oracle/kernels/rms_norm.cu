// rms_norm: output[r][c] = input[r][c] / sqrt(mean over c of input[r][c]^2 + epsilon) * weight[c]; row-major,
// rows x width.
//
// Schedule
//   CUFORGE_BLOCK_X  threads that share a row
//   CUFORGE_BLOCK_Y  rows of a block; above 1 a row must be made of whole warps
//   CUFORGE_ITEMS    elements a thread loads before it uses the first, each with a sum of its own
// Grid
//   x = ceil(rows / CUFORGE_BLOCK_Y)

struct RmsNormUniform {
    unsigned rows;
    unsigned width;
    float epsilon;
};

// Enumerators, because NVRTC gives every constexpr variable of this scope a word of global memory.
enum : unsigned {
    WARP = 32,
    WARPS = (CUFORGE_BLOCK_X + WARP - 1) / WARP,
    STEP = CUFORGE_BLOCK_X * CUFORGE_ITEMS,
};

static_assert(CUFORGE_BLOCK_Y == 1 || CUFORGE_BLOCK_X % WARP == 0, "a warp must not straddle two rows");

// The sum of `value` over the threads of a row, handed to all of them. Calls of the whole block only: it holds a
// barrier.
__device__ __forceinline__ float sum_row(float value)
{
    __shared__ float partials[CUFORGE_BLOCK_Y][WARPS];

    // The last warp of a block may be partial. A mask may name only lanes that exist, or the shuffle waits for threads
    // that never come.
    const unsigned left = CUFORGE_BLOCK_X - threadIdx.x / WARP * WARP;
    const unsigned lanes = left < WARP ? left : WARP;
    const unsigned mask = lanes == WARP ? 0xffffffffu : (1u << lanes) - 1u;
    const unsigned lane = threadIdx.x % WARP;
#pragma unroll
    for (unsigned offset = WARP / 2; offset > 0; offset /= 2) {
        const float other = __shfl_down_sync(mask, value, offset);
        // What comes from beyond the last lane is undefined and must not enter the sum.
        if (lane + offset < lanes) {
            value += other;
        }
    }
    if (lane == 0) {
        partials[threadIdx.y][threadIdx.x / WARP] = value;
    }
    __syncthreads();
    // At most 32 partials, read by every thread at the same address: a broadcast, cheaper than a second round trip
    // through shuffles and one more barrier. All threads add in the same order, so all hold the same bits.
    float sum = 0.0f;
#pragma unroll
    for (unsigned warp = 0; warp < WARPS; ++warp) {
        sum += partials[threadIdx.y][warp];
    }
    return sum;
}

extern "C" __global__ void __launch_bounds__(CUFORGE_BLOCK_X * CUFORGE_BLOCK_Y)
rms_norm(const float* __restrict__ input,
         const float* __restrict__ weight,
         float* __restrict__ output,
         const RmsNormUniform uniform)
{
    const unsigned row = blockIdx.x * CUFORGE_BLOCK_Y + threadIdx.y;
    // A row beyond the last is empty instead of leaving early: all threads must reach the barrier.
    const unsigned width = row < uniform.rows ? uniform.width : 0;
    const unsigned long long start = (unsigned long long)row * uniform.width;
    const float* __restrict__ x = input + start;
    float* __restrict__ y = output + start;

    // One sum per item: the additions do not wait for each other, and the rounding error grows with the shorter chain.
    float squares[CUFORGE_ITEMS] = {};
    for (unsigned base = threadIdx.x; base < width; base += STEP) {
#pragma unroll
        for (unsigned item = 0; item < CUFORGE_ITEMS; ++item) {
            const unsigned column = base + item * CUFORGE_BLOCK_X;
            if (column < width) {
                squares[item] += x[column] * x[column];
            }
        }
    }
#pragma unroll
    for (unsigned item = 1; item < CUFORGE_ITEMS; ++item) {
        squares[0] += squares[item];
    }
    const float mean = sum_row(squares[0]) / (float)uniform.width;
    const float inverse = rsqrtf(mean + uniform.epsilon);

    // The row was read a moment ago and comes from the cache this time.
    for (unsigned base = threadIdx.x; base < width; base += STEP) {
#pragma unroll
        for (unsigned item = 0; item < CUFORGE_ITEMS; ++item) {
            const unsigned column = base + item * CUFORGE_BLOCK_X;
            if (column < width) {
                y[column] = x[column] * inverse * weight[column];
            }
        }
    }
}
