// class: index
// kernel: top_k
// schedule: 0
// shape: 3x1200
// wrong: A key carries the column of the thread's first item instead of the column that the value came from.

struct TopKUniform {
    unsigned rows;
    unsigned width;
};

typedef unsigned long long Key;

enum : unsigned {
    TOP = 8,
    WARP = 32,
    WARPS = (CUFORGE_BLOCK_X + WARP - 1) / WARP,
    STEP = CUFORGE_BLOCK_X * CUFORGE_ITEMS,
};
enum : Key { EMPTY = 0 };

__device__ __forceinline__ Key key_of(float value, unsigned index)
{
    unsigned bits = __float_as_uint(value);
    bits = bits == 0x80000000u ? 0u : bits;
    const unsigned order = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
    return (Key)order << 32 | ~index;
}

__device__ __forceinline__ Key warp_best(Key key, unsigned lane, unsigned lanes)
{
    const unsigned mask = lanes == WARP ? 0xffffffffu : (1u << lanes) - 1u;
#pragma unroll
    for (unsigned offset = WARP / 2; offset > 0; offset /= 2) {
        const Key other = __shfl_down_sync(mask, key, offset);
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

    const unsigned row = blockIdx.x;
    if (row >= uniform.rows) {
        return;
    }
    const float* __restrict__ x = input + (unsigned long long)row * uniform.width;

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
            candidates[item] = column < uniform.width ? key_of(x[column], base) : EMPTY;
        }
#pragma unroll
        for (unsigned item = 0; item < CUFORGE_ITEMS; ++item) {
            Key key = candidates[item];
            if (!FILTER || key > best[TOP - 1]) {
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
                values[slot] = winner == EMPTY ? __uint_as_float(0xff800000u) : x[index];
                indices[slot] = index;
            }
        }
    }
}
