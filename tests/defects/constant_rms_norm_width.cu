// class: wrong constant
// kernel: rms_norm
// schedule: 0
// shape: 3x700
// wrong: The mean is taken over the width rounded up to whole warps.

struct RmsNormUniform {
    unsigned rows;
    unsigned width;
    float epsilon;
};

enum : unsigned {
    WARP = 32,
    WARPS = (CUFORGE_BLOCK_X + WARP - 1) / WARP,
    STEP = CUFORGE_BLOCK_X * CUFORGE_ITEMS,
};

static_assert(CUFORGE_BLOCK_Y == 1 || CUFORGE_BLOCK_X % WARP == 0, "a warp must not straddle two rows");

__device__ __forceinline__ float sum_row(float value)
{
    __shared__ float partials[CUFORGE_BLOCK_Y][WARPS];

    const unsigned left = CUFORGE_BLOCK_X - threadIdx.x / WARP * WARP;
    const unsigned lanes = left < WARP ? left : WARP;
    const unsigned mask = lanes == WARP ? 0xffffffffu : (1u << lanes) - 1u;
    const unsigned lane = threadIdx.x % WARP;
#pragma unroll
    for (unsigned offset = WARP / 2; offset > 0; offset /= 2) {
        const float other = __shfl_down_sync(mask, value, offset);
        if (lane + offset < lanes) {
            value += other;
        }
    }
    if (lane == 0) {
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
rms_norm(const float* __restrict__ input,
         const float* __restrict__ weight,
         float* __restrict__ output,
         const RmsNormUniform uniform)
{
    const unsigned row = blockIdx.x * CUFORGE_BLOCK_Y + threadIdx.y;
    const unsigned width = row < uniform.rows ? uniform.width : 0;
    const unsigned long long start = (unsigned long long)row * uniform.width;
    const float* __restrict__ x = input + start;
    float* __restrict__ y = output + start;

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
    const float mean = sum_row(squares[0]) / (float)((uniform.width + WARP - 1) / WARP * WARP);
    const float inverse = rsqrtf(mean + uniform.epsilon);

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
