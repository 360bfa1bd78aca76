// axpy_f64: y[i] = factor * x[i] + y[i] in place, in double precision, for i < n.
//
// Schedule
//   CUFORGE_BLOCK_X  threads of a block; the block is one-dimensional
//   CUFORGE_ITEMS    elements of a thread
// Grid
//   x = ceil(n / (CUFORGE_BLOCK_X * CUFORGE_ITEMS))

struct AxpyUniform {
    unsigned long long n;
    double factor;
};

extern "C" __global__ void __launch_bounds__(CUFORGE_BLOCK_X)
axpy_f64(const double* __restrict__ x,
         double* __restrict__ y,
         const AxpyUniform uniform)
{
    const unsigned long long tile = (unsigned long long)CUFORGE_BLOCK_X * CUFORGE_ITEMS;
    const unsigned long long first = blockIdx.x * tile + threadIdx.x;
#pragma unroll
    for (unsigned item = 0; item < CUFORGE_ITEMS; ++item) {
        const unsigned long long i = first + item * CUFORGE_BLOCK_X;
        if (i < uniform.n) {
            y[i] = uniform.factor * x[i] + y[i];
        }
    }
}
