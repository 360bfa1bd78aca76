// top_k: the eight largest elements of every row, largest first, as values and column indices; of equal elements the
// one with the lowest index comes first. Row-major, rows x width; values and indices are rows x 8. A row of fewer than
// eight elements is filled up with -infinity and the index behind its last, width. NaN is no legal input.
//
// Schedule
//   CUFORGE_BLOCK_X  threads that share a row
//   CUFORGE_ITEMS    elements a thread loads before it uses the first
//   FILTER           1: a thread skips the insertion of what is below its eighth best; 0: it always inserts.
//                    A branch that mostly skips against straight code without divergence.
// Grid
//   x = rows
//
// One launch and one block a row, without scratch memory: threads keep their best eight in registers while the block
// strides over the row, warps merge their threads' lists by shuffles, and the first warp merges the warps' lists. The
// result depends on no order of execution, because no two candidates compare equal.

struct TopKUniform {
    unsigned rows;
    unsigned width;
};

typedef unsigned long long Key;

// Enumerators, because NVRTC gives every constexpr variable of this scope a word of global memory.
enum : unsigned {
    TOP = 8,
    WARP = 32,
    WARPS = (CUFORGE_BLOCK_X + WARP - 1) / WARP,
    STEP = CUFORGE_BLOCK_X * CUFORGE_ITEMS,
};
// Below every key of a number: what an empty slot of a list holds.
enum : Key { EMPTY = 0 };

// Value and index in one integer whose order is the order wanted: larger values first, then lower indices.
__device__ __forceinline__ Key key_of(float value, unsigned index)
{
    unsigned bits = __float_as_uint(value);
    // The two zeros are equal, so that only the index may decide between them.
    bits = bits == 0x80000000u ? 0u : bits;
    // Floats order like sign and magnitude: negative ones are turned round, positive ones put above them.
    const unsigned order = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
    return (Key)order << 32 | ~index;
}

// The largest key of the calling warp, handed to all its lanes.
__device__ __forceinline__ Key warp_best(Key key, unsigned lane, unsigned lanes)
{
    // The last warp of a block may be partial. A mask may name only lanes that exist, or the shuffle waits for threads
    // that never come.
    const unsigned mask = lanes == WARP ? 0xffffffffu : (1u << lanes) - 1u;
#pragma unroll
    for (unsigned offset = WARP / 2; offset > 0; offset /= 2) {
        const Key other = __shfl_down_sync(mask, key, offset);
        // What comes from beyond the last lane is undefined and must not win.
        if (lane + offset < lanes && other > key) {
            key = other;
        }
    }
    return __shfl_sync(mask, key, 0);
}

extern "C" __global__ void __launch_bounds__(CUFORGE_BLOCK_X)
top_k(const float* __restrict__ input,
      float* __restrict__ values,
      unsigned* __restrict__ indices,
      const TopKUniform uniform)
{
    __shared__ Key lists[WARPS][TOP];

    // The same for the whole block, so nobody is missed at the barrier.
    const unsigned row = blockIdx.x;
    if (row >= uniform.rows) {
        return;
    }
    const float* __restrict__ x = input + (unsigned long long)row * uniform.width;

    // Sorted, largest first. Every index is known at compile time, so the list lives in registers.
    Key best[TOP];
#pragma unroll
    for (unsigned rank = 0; rank < TOP; ++rank) {
        best[rank] = EMPTY;
    }
    for (unsigned base = threadIdx.x; base < uniform.width; base += STEP) {
        Key candidates[CUFORGE_ITEMS];
#pragma unroll
        for (unsigned item = 0; item < CUFORGE_ITEMS; ++item) {
            const unsigned column = base + item * CUFORGE_BLOCK_X;
            candidates[item] = column < uniform.width ? key_of(x[column], column) : EMPTY;
        }
#pragma unroll
        for (unsigned item = 0; item < CUFORGE_ITEMS; ++item) {
            Key key = candidates[item];
            if (!FILTER || key > best[TOP - 1]) {
                // The candidate sinks to its rank; what it pushes out sinks on.
#pragma unroll
                for (unsigned rank = 0; rank < TOP; ++rank) {
                    const Key upper = key > best[rank] ? key : best[rank];
                    key = key > best[rank] ? best[rank] : key;
                    best[rank] = upper;
                }
            }
        }
    }

    const unsigned warp = threadIdx.x / WARP;
    const unsigned lane = threadIdx.x % WARP;
    const unsigned left = CUFORGE_BLOCK_X - warp * WARP;
    const unsigned lanes = left < WARP ? left : WARP;
    for (unsigned rank = 0; rank < TOP; ++rank) {
        const Key winner = warp_best(best[0], lane, lanes);
        // Keys are unique, so exactly one lane gives its head away (or all of them drop an empty slot).
        if (best[0] == winner) {
#pragma unroll
            for (unsigned slot = 0; slot + 1 < TOP; ++slot) {
                best[slot] = best[slot + 1];
            }
            best[TOP - 1] = EMPTY;
        }
        if (lane == 0) {
            lists[warp][rank] = winner;
        }
    }
    __syncthreads();

    // Lane w holds the head of warp w's list: there are at most 32 warps, and with more than one the first is whole.
    if (warp == 0) {
        unsigned head = 0;
        for (unsigned rank = 0; rank < TOP; ++rank) {
            const Key key = lane < WARPS && head < TOP ? lists[lane][head] : EMPTY;
            const Key winner = warp_best(key, lane, lanes);
            if (key == winner) {
                ++head;
            }
            if (lane == 0) {
                const unsigned index = winner == EMPTY ? uniform.width : ~(unsigned)winner;
                const unsigned long long slot = (unsigned long long)row * TOP + rank;
                // The value is fetched again, bit for bit: the key has lost the sign of zero.
                values[slot] = winner == EMPTY ? __uint_as_float(0xff800000u) : x[index];
                indices[slot] = index;
            }
        }
    }
}
