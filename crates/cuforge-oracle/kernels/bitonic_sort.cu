// bitonic_sort: sorts every row of keys upwards, in place; row-major, rows x width, width at most SIZE.
//
// Schedule
//   CUFORGE_BLOCK_X  threads of a block, at most SIZE / 2
//   CUFORGE_ITEMS    pairs of a thread in each step, SIZE / 2 / CUFORGE_BLOCK_X
//   SIZE             keys that a block sorts, a power of two; what a row lacks is filled up with the largest key
// Grid
//   x = rows

struct BitonicSortUniform {
    unsigned rows;
    unsigned width;
};

static_assert((SIZE & (SIZE - 1)) == 0, "bitonic sequences are halved");
static_assert(2 * CUFORGE_BLOCK_X * CUFORGE_ITEMS == SIZE, "the threads' pairs are those of the keys");

extern "C" __global__ void __launch_bounds__(CUFORGE_BLOCK_X)
bitonic_sort(unsigned* __restrict__ keys, const BitonicSortUniform uniform)
{
    __shared__ unsigned row[SIZE];

    unsigned* __restrict__ own = keys + (unsigned long long)blockIdx.x * uniform.width;
    for (unsigned i = threadIdx.x; i < SIZE; i += CUFORGE_BLOCK_X) {
        row[i] = i < uniform.width ? own[i] : 0xffffffffu;
    }
    __syncthreads();

    // Unrolled, the steps would fill the instruction cache.
#pragma unroll 1
    for (unsigned length = 2; length <= SIZE; length *= 2) {
#pragma unroll 1
        for (unsigned stride = length / 2; stride > 0; stride /= 2) {
#pragma unroll
            for (unsigned item = 0; item < CUFORGE_ITEMS; ++item) {
                const unsigned pair = threadIdx.x + item * CUFORGE_BLOCK_X;
                // The pair's lower place: its number with a zero put in at the bit of the stride.
                const unsigned low = 2 * pair - (pair & (stride - 1));
                const unsigned high = low + stride;
                // Runs of `length` are sorted upwards and downwards in turn, so that two make a bitonic sequence.
                const bool upwards = (low & length) == 0;
                const unsigned first = row[low];
                const unsigned second = row[high];
                if ((first > second) == upwards) {
                    row[low] = second;
                    row[high] = first;
                }
            }
            __syncthreads();
        }
    }
    for (unsigned i = threadIdx.x; i < uniform.width; i += CUFORGE_BLOCK_X) {
        own[i] = row[i];
    }
}
