// matvec_ternary: y = w * x with weights of -1, 0 and 1 and inputs of 8 bits, summed as integers: exact. A weight is
// two bits that hold weight + 1; a word holds the weights of sixteen columns, weight i at bit 8 * (i % 4) + 2 * (i / 4),
// so that a shift and a mask give four bytes at a time. Row-major: w is rows x words words, x is 16 * words signed
// bytes, y is rows 32-bit integers.
//
// Schedule
//   CUFORGE_BLOCK_X  threads that share a row, whole warps
//   CUFORGE_BLOCK_Y  rows of a block
//   CUFORGE_ITEMS    words of a thread in flight together
// Grid
//   x = ceil(rows / CUFORGE_BLOCK_Y)

struct MatvecTernaryUniform {
    unsigned rows;
    unsigned words;
};

// Enumerators, because NVRTC gives every constexpr variable of this scope a word of global memory.
enum : unsigned {
    WARP = 32,
    WARPS = CUFORGE_BLOCK_X / WARP,
    STEP = CUFORGE_BLOCK_X * CUFORGE_ITEMS,
};

static_assert(CUFORGE_BLOCK_X % WARP == 0, "shuffles name all lanes");

// Four products of signed bytes, added to `sum`.
__device__ __forceinline__ int dot(int a, int b, int sum)
{
    asm("dp4a.s32.s32 %0, %1, %2, %0;" : "+r"(sum) : "r"(a), "r"(b));
    return sum;
}

extern "C" __global__ void __launch_bounds__(CUFORGE_BLOCK_X * CUFORGE_BLOCK_Y)
matvec_ternary(const unsigned* __restrict__ w,
               const int* __restrict__ x,
               int* __restrict__ y,
               const MatvecTernaryUniform uniform)
{
    __shared__ int partials[CUFORGE_BLOCK_Y][WARPS];

    const unsigned row = blockIdx.x * CUFORGE_BLOCK_Y + threadIdx.y;
    // A row beyond the last is empty instead of leaving early: all threads must reach the barrier.
    const unsigned words = row < uniform.rows ? uniform.words : 0;
    const unsigned* __restrict__ weights = w + (unsigned long long)row * uniform.words;

    int sum = 0;
    for (unsigned base = threadIdx.x; base < words; base += STEP) {
#pragma unroll
        for (unsigned item = 0; item < CUFORGE_ITEMS; ++item) {
            const unsigned word = base + item * CUFORGE_BLOCK_X;
            if (word < words) {
                const unsigned packed = weights[word];
#pragma unroll
                for (unsigned quarter = 0; quarter < 4; ++quarter) {
                    const int inputs = x[word * 4 + quarter];
                    // The stored weights are one too large; four bytes of -1 take that off.
                    sum = dot((int)(packed >> 2 * quarter & 0x03030303u), inputs, sum);
                    sum = dot((int)0xffffffffu, inputs, sum);
                }
            }
        }
    }
#pragma unroll
    for (unsigned offset = WARP / 2; offset > 0; offset /= 2) {
        sum += __shfl_down_sync(0xffffffffu, sum, offset);
    }
    if (threadIdx.x % WARP == 0) {
        partials[threadIdx.y][threadIdx.x / WARP] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0 && row < uniform.rows) {
        int total = 0;
#pragma unroll
        for (unsigned warp = 0; warp < WARPS; ++warp) {
            total += partials[threadIdx.y][warp];
        }
        y[row] = total;
    }
}
