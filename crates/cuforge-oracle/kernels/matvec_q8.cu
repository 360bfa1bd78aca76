// matvec_q8: y = w * x, both quantised to 8 bits in groups of 32 columns with a scale each. Within a group products are
// summed as integers, exactly. Row-major: w is rows x width signed bytes, four to a word, its scales rows x width / 32;
// x is width bytes, its scales width / 32; width is a multiple of 32.
//
// Schedule
//   CUFORGE_BLOCK_X  threads that share a row, whole warps
//   CUFORGE_BLOCK_Y  rows of a block
//   CUFORGE_ITEMS    groups of a thread in flight together
// Grid
//   x = ceil(rows / CUFORGE_BLOCK_Y)

struct MatvecQ8Uniform {
    unsigned rows;
    unsigned groups;
};

// Enumerators, because NVRTC gives every constexpr variable of this scope a word of global memory.
enum : unsigned {
    WARP = 32,
    WARPS = CUFORGE_BLOCK_X / WARP,
    // A group is two vectors of four words of four bytes.
    VECTORS = 2,
    STEP = CUFORGE_BLOCK_X * CUFORGE_ITEMS,
};

static_assert(CUFORGE_BLOCK_X % WARP == 0, "shuffles name all lanes");

// Four products of signed bytes, added to `sum`.
__device__ __forceinline__ int dot(int a, int b, int sum)
{
    asm("dp4a.s32.s32 %0, %1, %2, %0;" : "+r"(sum) : "r"(a), "r"(b));
    return sum;
}

// The sum of `value` over the threads of a row, in its first thread. Calls of the whole block only: it holds a barrier.
__device__ __forceinline__ float sum_row(float value)
{
    __shared__ float partials[CUFORGE_BLOCK_Y][WARPS];
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
matvec_q8(const int4* __restrict__ w,
          const float* __restrict__ w_scales,
          const int4* __restrict__ x,
          const float* __restrict__ x_scales,
          float* __restrict__ y,
          const MatvecQ8Uniform uniform)
{
    const unsigned row = blockIdx.x * CUFORGE_BLOCK_Y + threadIdx.y;
    // A row beyond the last is empty instead of leaving early: all threads must reach the barrier.
    const unsigned groups = row < uniform.rows ? uniform.groups : 0;
    const unsigned long long start = (unsigned long long)row * uniform.groups;

    float sum = 0.0f;
    for (unsigned base = threadIdx.x; base < groups; base += STEP) {
#pragma unroll
        for (unsigned item = 0; item < CUFORGE_ITEMS; ++item) {
            const unsigned group = base + item * CUFORGE_BLOCK_X;
            if (group < groups) {
                int products = 0;
#pragma unroll
                for (unsigned vector = 0; vector < VECTORS; ++vector) {
                    const int4 weights = w[(start + group) * VECTORS + vector];
                    const int4 inputs = x[group * VECTORS + vector];
                    products = dot(weights.x, inputs.x, products);
                    products = dot(weights.y, inputs.y, products);
                    products = dot(weights.z, inputs.z, products);
                    products = dot(weights.w, inputs.w, products);
                }
                sum += w_scales[start + group] * x_scales[group] * (float)products;
            }
        }
    }
    sum = sum_row(sum);
    if (threadIdx.x == 0 && row < uniform.rows) {
        y[row] = sum;
    }
}
