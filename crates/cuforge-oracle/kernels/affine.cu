// affine: output[i] = input[i] * scale + bias, for i < n.
//
// Schedule
//   CUFORGE_BLOCK_X  threads of a block; the block is one-dimensional
//   CUFORGE_ITEMS    elements of a thread
// Grid
//   x = ceil(n / (CUFORGE_BLOCK_X * CUFORGE_ITEMS))

struct AffineUniform {
    unsigned long long n;
    float scale;
    float bias;
};

extern "C" __global__ void __launch_bounds__(CUFORGE_BLOCK_X)
affine(const float* __restrict__ input,
       float* __restrict__ output,
       const AffineUniform uniform)
{
    // A block owns one contiguous tile and walks it in strides of its width: neighbouring threads touch neighbouring
    // words in every step, so each warp's access is one full memory transaction whatever the item count.
    const unsigned long long tile = (unsigned long long)CUFORGE_BLOCK_X * CUFORGE_ITEMS;
    // 64 bits from the first product on: 2^32 elements and more are legal.
    const unsigned long long first = blockIdx.x * tile + threadIdx.x;

    // Unrolled, the loads of all items are in flight before the first result is needed.
#pragma unroll
    for (unsigned item = 0; item < CUFORGE_ITEMS; ++item) {
        const unsigned long long i = first + item * CUFORGE_BLOCK_X;
        if (i < uniform.n) {
            output[i] = input[i] * uniform.scale + uniform.bias;
        }
    }
}
