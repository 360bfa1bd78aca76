// gather: output[i] = table[ids[i]], rows of 16-bit numbers of any kind, as embeddings are looked up; an id beyond the
// table gives a row of zeros. Row-major: table is entries x width, output is n x width.
//
// Schedule
//   CUFORGE_BLOCK_X  threads along a row
//   CUFORGE_BLOCK_Y  rows of a block
//   CUFORGE_ITEMS    elements of a thread
// Grid
//   x = ceil(width / (CUFORGE_BLOCK_X * CUFORGE_ITEMS)), y = ceil(n / CUFORGE_BLOCK_Y)

struct GatherUniform {
    unsigned n;
    unsigned entries;
    unsigned width;
};

extern "C" __global__ void __launch_bounds__(CUFORGE_BLOCK_X * CUFORGE_BLOCK_Y)
gather(const unsigned short* __restrict__ table,
       const unsigned* __restrict__ ids,
       unsigned short* __restrict__ output,
       const GatherUniform uniform)
{
    const unsigned i = blockIdx.y * CUFORGE_BLOCK_Y + threadIdx.y;
    if (i >= uniform.n) {
        return;
    }
    const unsigned id = ids[i];
    const unsigned short* __restrict__ from = table + (unsigned long long)id * uniform.width;
    unsigned short* __restrict__ to = output + (unsigned long long)i * uniform.width;
#pragma unroll
    for (unsigned item = 0; item < CUFORGE_ITEMS; ++item) {
        const unsigned column = (blockIdx.x * CUFORGE_ITEMS + item) * CUFORGE_BLOCK_X + threadIdx.x;
        if (column < uniform.width) {
            to[column] = id < uniform.entries ? from[column] : (unsigned short)0;
        }
    }
}
