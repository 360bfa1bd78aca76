// class: tail
// kernel: affine
// schedule: 0
// shape: 2500
// wrong: Only whole tiles are computed: the rest behind the last one is never written.

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
    const unsigned long long tile = (unsigned long long)CUFORGE_BLOCK_X * CUFORGE_ITEMS;
    const unsigned long long first = blockIdx.x * tile + threadIdx.x;

#pragma unroll
    for (unsigned item = 0; item < CUFORGE_ITEMS; ++item) {
        const unsigned long long i = first + item * CUFORGE_BLOCK_X;
        if ((blockIdx.x + 1) * tile <= uniform.n) {
            output[i] = input[i] * uniform.scale + uniform.bias;
        }
    }
}
