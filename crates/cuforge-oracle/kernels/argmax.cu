// argmax: indices[r] = the column of the largest element of row r, of equals the first; row-major, rows x width. NaN is
// no legal input.
//
// Schedule
//   CUFORGE_BLOCK_X  threads that share a row, whole warps
//   CUFORGE_BLOCK_Y  rows of a block
//   CUFORGE_ITEMS    elements a thread loads before it uses the first
// Grid
//   x = ceil(rows / CUFORGE_BLOCK_Y)

struct ArgmaxUniform {
    unsigned rows;
    unsigned width;
};

// Enumerators, because NVRTC gives every constexpr variable of this scope a word of global memory.
enum : unsigned {
    WARP = 32,
    WARPS = CUFORGE_BLOCK_X / WARP,
    STEP = CUFORGE_BLOCK_X * CUFORGE_ITEMS,
};

static_assert(CUFORGE_BLOCK_X % WARP == 0, "shuffles name all lanes");

struct Best {
    float value;
    unsigned column;
};

// The larger one; of equals the one that stands first.
__device__ __forceinline__ Best better(Best left, Best right)
{
    const bool takes_right =
        right.value > left.value || (right.value == left.value && right.column < left.column);
    return takes_right ? right : left;
}

extern "C" __global__ void __launch_bounds__(CUFORGE_BLOCK_X * CUFORGE_BLOCK_Y)
argmax(const float* __restrict__ input,
       unsigned* __restrict__ indices,
       const ArgmaxUniform uniform)
{
    __shared__ float values[CUFORGE_BLOCK_Y][WARPS];
    __shared__ unsigned columns[CUFORGE_BLOCK_Y][WARPS];

    const unsigned row = blockIdx.x * CUFORGE_BLOCK_Y + threadIdx.y;
    // A row beyond the last is empty instead of leaving early: all threads must reach the barrier.
    const unsigned width = row < uniform.rows ? uniform.width : 0;
    const float* __restrict__ x = input + (unsigned long long)row * uniform.width;

    // -infinity behind all columns: any element is better, -infinity itself included.
    Best best = {__uint_as_float(0xff800000u), 0xffffffffu};
    for (unsigned base = threadIdx.x; base < width; base += STEP) {
#pragma unroll
        for (unsigned item = 0; item < CUFORGE_ITEMS; ++item) {
            const unsigned column = base + item * CUFORGE_BLOCK_X;
            if (column < width) {
                best = better(best, Best{x[column], column});
            }
        }
    }
#pragma unroll
    for (unsigned offset = WARP / 2; offset > 0; offset /= 2) {
        const float value = __shfl_xor_sync(0xffffffffu, best.value, offset);
        const unsigned column = __shfl_xor_sync(0xffffffffu, best.column, offset);
        best = better(best, Best{value, column});
    }
    if (threadIdx.x % WARP == 0) {
        values[threadIdx.y][threadIdx.x / WARP] = best.value;
        columns[threadIdx.y][threadIdx.x / WARP] = best.column;
    }
    __syncthreads();
    if (threadIdx.x == 0 && row < uniform.rows) {
#pragma unroll
        for (unsigned warp = 1; warp < WARPS; ++warp) {
            best = better(best, Best{values[threadIdx.y][warp], columns[threadIdx.y][warp]});
        }
        indices[row] = best.column;
    }
}
