// segmented_sum: sums[s] = the sum of values[offsets[s] .. offsets[s + 1]), for segments of any length, none included:
// the rows of a sparse matrix, the tokens of a sequence, the edges of a node.
//
// Schedule
//   CUFORGE_BLOCK_X  lanes that share a segment, a power of two of at most 32
//   CUFORGE_BLOCK_Y  segments of a block; CUFORGE_BLOCK_X * CUFORGE_BLOCK_Y must be whole warps
//   CUFORGE_ITEMS    sums a lane keeps apart
// Grid
//   x = ceil(segments / CUFORGE_BLOCK_Y)

struct SegmentedSumUniform {
    unsigned segments;
    unsigned n;
};

// Enumerators, because NVRTC gives every constexpr variable of this scope a word of global memory.
enum : unsigned {
    WARP = 32,
    STEP = CUFORGE_BLOCK_X * CUFORGE_ITEMS,
};

static_assert(CUFORGE_BLOCK_X <= WARP && WARP % CUFORGE_BLOCK_X == 0, "a warp holds whole segments");
static_assert(CUFORGE_BLOCK_X * CUFORGE_BLOCK_Y % WARP == 0, "shuffles name all lanes");

extern "C" __global__ void __launch_bounds__(CUFORGE_BLOCK_X * CUFORGE_BLOCK_Y)
segmented_sum(const float* __restrict__ values,
              const unsigned* __restrict__ offsets,
              float* __restrict__ sums,
              const SegmentedSumUniform uniform)
{
    const unsigned segment = blockIdx.x * CUFORGE_BLOCK_Y + threadIdx.y;
    const bool present = segment < uniform.segments;
    // A segment beyond the last is empty instead of leaving early: all lanes take part in the shuffles. Offsets beyond
    // the values must not lead out of them.
    const unsigned start = present ? offsets[segment] : 0;
    const unsigned end = present ? min(offsets[segment + 1], uniform.n) : 0;

    float partial[CUFORGE_ITEMS] = {};
    for (unsigned base = start + threadIdx.x; base < end; base += STEP) {
#pragma unroll
        for (unsigned item = 0; item < CUFORGE_ITEMS; ++item) {
            const unsigned i = base + item * CUFORGE_BLOCK_X;
            if (i < end) {
                partial[item] += values[i];
            }
        }
    }
#pragma unroll
    for (unsigned item = 1; item < CUFORGE_ITEMS; ++item) {
        partial[0] += partial[item];
    }
    float sum = partial[0];
#pragma unroll
    for (unsigned offset = CUFORGE_BLOCK_X / 2; offset > 0; offset /= 2) {
        sum += __shfl_down_sync(0xffffffffu, sum, offset, CUFORGE_BLOCK_X);
    }
    if (threadIdx.x == 0 && present) {
        sums[segment] = sum;
    }
}
