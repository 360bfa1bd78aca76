// scan: output[r][c] = the sum of input[r][0 .. c), the exclusive prefix sums of every row, modulo 2^32; totals[r] is the
// sum of the row. Row-major, rows x width.
//
// Schedule
//   CUFORGE_BLOCK_X  threads of a block, whole warps
//   CUFORGE_ITEMS    neighbouring elements of a thread
// Grid
//   x = rows
//
// A block walks its row tile by tile. Within a tile threads scan their own elements, warps their threads' sums by
// shuffles, and every thread adds up the warps before its own.

struct ScanUniform {
    unsigned rows;
    unsigned width;
};

// Enumerators, because NVRTC gives every constexpr variable of this scope a word of global memory.
enum : unsigned {
    WARP = 32,
    WARPS = CUFORGE_BLOCK_X / WARP,
    TILE = CUFORGE_BLOCK_X * CUFORGE_ITEMS,
};

static_assert(CUFORGE_BLOCK_X % WARP == 0, "shuffles name all lanes");

extern "C" __global__ void __launch_bounds__(CUFORGE_BLOCK_X)
scan(const unsigned* __restrict__ input,
     unsigned* __restrict__ output,
     unsigned* __restrict__ totals,
     const ScanUniform uniform)
{
    __shared__ unsigned sums[WARPS];

    const unsigned long long start = (unsigned long long)blockIdx.x * uniform.width;
    const unsigned lane = threadIdx.x % WARP;
    const unsigned warp = threadIdx.x / WARP;

    unsigned before = 0;
    for (unsigned tile = 0; tile < uniform.width; tile += TILE) {
        const unsigned first = tile + threadIdx.x * CUFORGE_ITEMS;
        unsigned values[CUFORGE_ITEMS];
        unsigned own = 0;
#pragma unroll
        for (unsigned item = 0; item < CUFORGE_ITEMS; ++item) {
            values[item] = first + item < uniform.width ? input[start + first + item] : 0;
            own += values[item];
        }
        unsigned inclusive = own;
#pragma unroll
        for (unsigned offset = 1; offset < WARP; offset *= 2) {
            const unsigned other = __shfl_up_sync(0xffffffffu, inclusive, offset);
            inclusive += lane >= offset ? other : 0;
        }
        if (lane == WARP - 1) {
            sums[warp] = inclusive;
        }
        __syncthreads();
        unsigned running = before + inclusive - own;
#pragma unroll
        for (unsigned other = 0; other < WARPS; ++other) {
            running += other < warp ? sums[other] : 0;
            before += sums[other];
        }
#pragma unroll
        for (unsigned item = 0; item < CUFORGE_ITEMS; ++item) {
            if (first + item < uniform.width) {
                output[start + first + item] = running;
            }
            running += values[item];
        }
        // The sums may be overwritten only when nobody reads them any more.
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        totals[blockIdx.x] = before;
    }
}
