// bias_gelu: output[r][c] = gelu(input[r][c] + bias[c]) with
// gelu(x) = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))); row-major, rows x columns.
//
// Schedule
//   CUFORGE_BLOCK_X  threads of a block; the block is one-dimensional
//   CUFORGE_ITEMS    elements of a thread
// Grid
//   x = ceil(rows * columns / (CUFORGE_BLOCK_X * CUFORGE_ITEMS))

struct BiasGeluUniform {
    unsigned rows;
    unsigned columns;
};

__device__ __forceinline__ float gelu(float x)
{
    const float inner = 0.7978845608028654f * (x + 0.044715f * (x * x * x));
    return 0.5f * x * (1.0f + tanhf(inner));
}

extern "C" __global__ void __launch_bounds__(CUFORGE_BLOCK_X)
bias_gelu(const float* __restrict__ input,
          const float* __restrict__ bias,
          float* __restrict__ output,
          const BiasGeluUniform uniform)
{
    const unsigned long long n = (unsigned long long)uniform.rows * uniform.columns;
    const unsigned long long tile = (unsigned long long)CUFORGE_BLOCK_X * CUFORGE_ITEMS;
    const unsigned long long first = blockIdx.x * tile + threadIdx.x;
#pragma unroll
    for (unsigned item = 0; item < CUFORGE_ITEMS; ++item) {
        const unsigned long long i = first + item * CUFORGE_BLOCK_X;
        if (i < n) {
            output[i] = gelu(input[i] + bias[i % uniform.columns]);
        }
    }
}
