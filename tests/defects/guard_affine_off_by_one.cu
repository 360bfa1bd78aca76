// class: guard
// kernel: affine
// schedule: 0
// shape: 1000
// wrong: The guard admits i == n: one element is read and written behind the end.

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
        if (i <= uniform.n) {
            output[i] = input[i] * uniform.scale + uniform.bias;
        }
    }
}
