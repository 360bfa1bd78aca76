// class: reduction identity
// kernel: softmax
// schedule: 0
// shape: 8x200
// wrong: The maximum starts at 0: in a row far below it all exponentials vanish, and the sum is 0.

struct SoftmaxUniform {
    unsigned rows;
    unsigned width;
};

enum : unsigned {
    WARP = 32,
    WARPS = (CUFORGE_BLOCK_X + WARP - 1) / WARP,
    STEP = CUFORGE_BLOCK_X * CUFORGE_ITEMS,
};

static_assert(CUFORGE_BLOCK_Y == 1 || CUFORGE_BLOCK_X % WARP == 0, "a warp must not straddle two rows");

__device__ __forceinline__ unsigned lanes_of_warp()
{
    const unsigned left = CUFORGE_BLOCK_X - threadIdx.x / WARP * WARP;
    return left < WARP ? left : WARP;
}

template <bool MAX>
__device__ __forceinline__ float fold_row(float value, float (&partials)[CUFORGE_BLOCK_Y][WARPS])
{
    const unsigned lanes = lanes_of_warp();
    const unsigned mask = lanes == WARP ? 0xffffffffu : (1u << lanes) - 1u;
    const unsigned lane = threadIdx.x % WARP;
#pragma unroll
    for (unsigned offset = WARP / 2; offset > 0; offset /= 2) {
        const float other = __shfl_down_sync(mask, value, offset);
        if (lane + offset < lanes) {
            value = MAX ? fmaxf(value, other) : value + other;
        }
    }
    if (lane == 0) {
        partials[threadIdx.y][threadIdx.x / WARP] = value;
    }
    __syncthreads();
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
    const unsigned width = row < uniform.rows ? uniform.width : 0;
    const unsigned long long start = (unsigned long long)row * uniform.width;
    const float* __restrict__ x = input + start;
    float* __restrict__ y = output + start;

    float peak = 0.0f;
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
                const float power = RECOMPUTE ? expf(x[column] - peak) : y[column];
                y[column] = power * inverse;
            }
        }
    }
}
