// matvec_q4: y = w * x, w quantised to 4 bits. A row of w is cut into groups of 32 columns; a group has one scale in
// half precision and 32 unsigned nibbles, element (r, c) is scale * (nibble - 8). Row-major: nibbles are
// rows x width / 8 words of eight, the first column lowest; scales are rows x width / 32; width is a multiple of 32.
//
// Schedule
//   CUFORGE_BLOCK_X  threads that share a row, whole warps
//   CUFORGE_BLOCK_Y  rows of a block
//   CUFORGE_ITEMS    words of nibbles that a thread loads before it uses the first
// Grid
//   x = ceil(rows / CUFORGE_BLOCK_Y)

struct MatvecQ4Uniform {
    unsigned rows;
    unsigned width;
};

// Enumerators, because NVRTC gives every constexpr variable of this scope a word of global memory.
enum : unsigned {
    WARP = 32,
    WARPS = CUFORGE_BLOCK_X / WARP,
    NIBBLES = 8,
    WORDS_OF_GROUP = 4,
    STEP = CUFORGE_BLOCK_X * CUFORGE_ITEMS,
};

static_assert(CUFORGE_BLOCK_X % WARP == 0, "shuffles name all lanes");

__device__ __forceinline__ float from_half(unsigned short bits)
{
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
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
matvec_q4(const unsigned* __restrict__ nibbles,
          const unsigned short* __restrict__ scales,
          const float* __restrict__ x,
          float* __restrict__ y,
          const MatvecQ4Uniform uniform)
{
    const unsigned row = blockIdx.x * CUFORGE_BLOCK_Y + threadIdx.y;
    // A row beyond the last is empty instead of leaving early: all threads must reach the barrier.
    const unsigned words = row < uniform.rows ? uniform.width / NIBBLES : 0;
    const unsigned* __restrict__ packed = nibbles + (unsigned long long)row * (uniform.width / NIBBLES);
    const unsigned short* __restrict__ scale =
        scales + (unsigned long long)row * (uniform.width / NIBBLES / WORDS_OF_GROUP);

    float sum = 0.0f;
    for (unsigned base = threadIdx.x; base < words; base += STEP) {
        unsigned loaded[CUFORGE_ITEMS];
#pragma unroll
        for (unsigned item = 0; item < CUFORGE_ITEMS; ++item) {
            const unsigned word = base + item * CUFORGE_BLOCK_X;
            loaded[item] = word < words ? packed[word] : 0u;
        }
#pragma unroll
        for (unsigned item = 0; item < CUFORGE_ITEMS; ++item) {
            const unsigned word = base + item * CUFORGE_BLOCK_X;
            if (word < words) {
                float partial = 0.0f;
#pragma unroll
                for (unsigned nibble = 0; nibble < NIBBLES; ++nibble) {
                    const int weight = (int)(loaded[item] >> 4 * nibble & 0xfu) - 8;
                    partial += (float)weight * x[word * NIBBLES + nibble];
                }
                sum += from_half(scale[word / WORDS_OF_GROUP]) * partial;
            }
        }
    }
    sum = sum_row(sum);
    if (threadIdx.x == 0 && row < uniform.rows) {
        y[row] = sum;
    }
}
