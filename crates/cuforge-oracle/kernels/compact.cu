// compact: the elements of every row that are at least `threshold`, in their order, moved to the front of the row; behind
// them zeros. counts[r] is how many there are. Row-major, rows x width. NaN is no legal input.
//
// Schedule
//   CUFORGE_BLOCK_X  threads of a block, whole warps
//   CUFORGE_ITEMS    tiles whose elements are in flight together
// Grid
//   x = rows

struct CompactUniform {
    unsigned rows;
    unsigned width;
    float threshold;
};

// Enumerators, because NVRTC gives every constexpr variable of this scope a word of global memory.
enum : unsigned {
    WARP = 32,
    WARPS = CUFORGE_BLOCK_X / WARP,
    STEP = CUFORGE_BLOCK_X * CUFORGE_ITEMS,
};

static_assert(CUFORGE_BLOCK_X % WARP == 0, "votes name all lanes");

extern "C" __global__ void __launch_bounds__(CUFORGE_BLOCK_X)
compact(const float* __restrict__ input,
        float* __restrict__ output,
        unsigned* __restrict__ counts,
        const CompactUniform uniform)
{
    __shared__ unsigned kept_of_warp[CUFORGE_ITEMS][WARPS];

    const unsigned long long start = (unsigned long long)blockIdx.x * uniform.width;
    const unsigned lane = threadIdx.x % WARP;
    const unsigned warp = threadIdx.x / WARP;
    const unsigned lower_lanes = (1u << lane) - 1u;

    unsigned kept = 0;
    for (unsigned tile = 0; tile < uniform.width; tile += STEP) {
        float values[CUFORGE_ITEMS];
        unsigned votes[CUFORGE_ITEMS];
#pragma unroll
        for (unsigned item = 0; item < CUFORGE_ITEMS; ++item) {
            const unsigned column = tile + item * CUFORGE_BLOCK_X + threadIdx.x;
            values[item] = column < uniform.width ? input[start + column] : 0.0f;
            votes[item] =
                __ballot_sync(0xffffffffu, column < uniform.width && values[item] >= uniform.threshold);
            if (lane == 0) {
                kept_of_warp[item][warp] = __popc(votes[item]);
            }
        }
        __syncthreads();
#pragma unroll
        for (unsigned item = 0; item < CUFORGE_ITEMS; ++item) {
            unsigned place = kept + __popc(votes[item] & lower_lanes);
#pragma unroll
            for (unsigned other = 0; other < WARPS; ++other) {
                place += other < warp ? kept_of_warp[item][other] : 0;
                kept += kept_of_warp[item][other];
            }
            if (votes[item] >> lane & 1u) {
                output[start + place] = values[item];
            }
        }
        // The counts may be overwritten only when nobody reads them any more.
        __syncthreads();
    }
    for (unsigned column = kept + threadIdx.x; column < uniform.width; column += CUFORGE_BLOCK_X) {
        output[start + column] = 0.0f;
    }
    if (threadIdx.x == 0) {
        counts[blockIdx.x] = kept;
    }
}
