// rms_norm_heads: normalises each head of an activation in place, as is done to queries and keys before attention:
// x[b][t][h][c] becomes x[b][t][h][c] / sqrt(mean over c of x[b][t][h][c]^2 + epsilon) * weight[c]; row-major,
// batch x tokens x heads x width.
//
// Schedule
//   CUFORGE_BLOCK_X  threads that share a head, whole warps
//   CUFORGE_BLOCK_Y  heads of a block
//   CUFORGE_ITEMS    elements a thread loads before it uses the first
// Grid
//   x = ceil(heads / CUFORGE_BLOCK_Y), y = tokens, z = batch
// Dynamic shared memory
//   CUFORGE_BLOCK_Y * (width + CUFORGE_BLOCK_X / 32) floats: each head, read once from global memory, then one sum a
//   warp

struct RmsNormHeadsUniform {
    unsigned tokens;
    unsigned heads;
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

extern __shared__ float shared[];

extern "C" __global__ void __launch_bounds__(CUFORGE_BLOCK_X * CUFORGE_BLOCK_Y)
rms_norm_heads(float* __restrict__ x,
               const float* __restrict__ weight,
               const RmsNormHeadsUniform uniform)
{
    const unsigned head = blockIdx.x * CUFORGE_BLOCK_Y + threadIdx.y;
    // A head beyond the last is empty instead of leaving early: all threads must reach the barrier.
    const unsigned width = head < uniform.heads ? uniform.width : 0;
    const unsigned long long token = (unsigned long long)blockIdx.z * uniform.tokens + blockIdx.y;
    float* __restrict__ values = x + (token * uniform.heads + head) * uniform.width;
    float* staged = shared + threadIdx.y * uniform.width;
    float* partials = shared + CUFORGE_BLOCK_Y * uniform.width + threadIdx.y * WARPS;

    float sum = 0.0f;
    for (unsigned base = threadIdx.x; base < width; base += STEP) {
        float loaded[CUFORGE_ITEMS];
#pragma unroll
        for (unsigned item = 0; item < CUFORGE_ITEMS; ++item) {
            const unsigned column = base + item * CUFORGE_BLOCK_X;
            loaded[item] = column < width ? values[column] : 0.0f;
        }
#pragma unroll
        for (unsigned item = 0; item < CUFORGE_ITEMS; ++item) {
            const unsigned column = base + item * CUFORGE_BLOCK_X;
            if (column < width) {
                staged[column] = loaded[item];
                sum += loaded[item] * loaded[item];
            }
        }
    }
#pragma unroll
    for (unsigned offset = WARP / 2; offset > 0; offset /= 2) {
        sum += __shfl_down_sync(0xffffffffu, sum, offset);
    }
    if (threadIdx.x % WARP == 0) {
        partials[threadIdx.x / WARP] = sum;
    }
    __syncthreads();
    sum = 0.0f;
#pragma unroll
    for (unsigned warp = 0; warp < WARPS; ++warp) {
        sum += partials[warp];
    }
    const float inverse = rsqrtf(sum / (float)uniform.width + uniform.epsilon);

    // Each thread takes back what it staged itself.
    for (unsigned column = threadIdx.x; column < width; column += CUFORGE_BLOCK_X) {
        values[column] = staged[column] * inverse * weight[column];
    }
}
