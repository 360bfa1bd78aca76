// histogram: counts[b] += the number of keys that equal b, for b < bins; other keys are left out. Counts wrap at 2^32.
//
// Schedule
//   CUFORGE_BLOCK_X  threads of a block
//   CUFORGE_ITEMS    keys of a thread
//   COPIES           histograms of a block, which neighbouring threads take in turn: the more, the seldomer they meet
// Grid
//   x = ceil(n / (CUFORGE_BLOCK_X * CUFORGE_ITEMS))
// Dynamic shared memory
//   COPIES * bins words

struct HistogramUniform {
    unsigned n;
    unsigned bins;
};

extern __shared__ unsigned local[];

extern "C" __global__ void __launch_bounds__(CUFORGE_BLOCK_X)
histogram(const unsigned* __restrict__ keys,
          unsigned* __restrict__ counts,
          const HistogramUniform uniform)
{
    for (unsigned slot = threadIdx.x; slot < COPIES * uniform.bins; slot += CUFORGE_BLOCK_X) {
        local[slot] = 0;
    }
    __syncthreads();

    unsigned* own = local + threadIdx.x % COPIES * uniform.bins;
    const unsigned long long tile = (unsigned long long)blockIdx.x * (CUFORGE_BLOCK_X * CUFORGE_ITEMS);
#pragma unroll
    for (unsigned item = 0; item < CUFORGE_ITEMS; ++item) {
        const unsigned long long i = tile + item * CUFORGE_BLOCK_X + threadIdx.x;
        if (i < uniform.n) {
            const unsigned key = keys[i];
            if (key < uniform.bins) {
                atomicAdd(&own[key], 1u);
            }
        }
    }
    __syncthreads();

    for (unsigned bin = threadIdx.x; bin < uniform.bins; bin += CUFORGE_BLOCK_X) {
        unsigned count = 0;
#pragma unroll
        for (unsigned copy = 0; copy < COPIES; ++copy) {
            count += local[copy * uniform.bins + bin];
        }
        // Most bins of a block are empty, and an atomic addition of nothing is not free.
        if (count != 0) {
            atomicAdd(&counts[bin], count);
        }
    }
}
