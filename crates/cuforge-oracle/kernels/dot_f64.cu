// dot_f64: output[r] = the dot product of row r of a and row r of b, in double precision; row-major, rows x width.
//
// Schedule
//   CUFORGE_BLOCK_X  threads that share a row, whole warps
//   CUFORGE_ITEMS    sums a thread keeps apart
// Grid
//   x = rows

struct DotUniform {
    unsigned rows;
    unsigned width;
};

// Enumerators, because NVRTC gives every constexpr variable of this scope a word of global memory.
enum : unsigned {
    WARP = 32,
    WARPS = CUFORGE_BLOCK_X / WARP,
    STEP = CUFORGE_BLOCK_X * CUFORGE_ITEMS,
};

static_assert(CUFORGE_BLOCK_X % WARP == 0, "shuffles name all lanes");

extern "C" __global__ void __launch_bounds__(CUFORGE_BLOCK_X)
dot_f64(const double* __restrict__ a,
        const double* __restrict__ b,
        double* __restrict__ output,
        const DotUniform uniform)
{
    __shared__ double partials[WARPS];

    const unsigned long long start = (unsigned long long)blockIdx.x * uniform.width;
    double sums[CUFORGE_ITEMS] = {};
    for (unsigned base = threadIdx.x; base < uniform.width; base += STEP) {
#pragma unroll
        for (unsigned item = 0; item < CUFORGE_ITEMS; ++item) {
            const unsigned column = base + item * CUFORGE_BLOCK_X;
            if (column < uniform.width) {
                sums[item] += a[start + column] * b[start + column];
            }
        }
    }
#pragma unroll
    for (unsigned item = 1; item < CUFORGE_ITEMS; ++item) {
        sums[0] += sums[item];
    }
    double sum = sums[0];
#pragma unroll
    for (unsigned offset = WARP / 2; offset > 0; offset /= 2) {
        sum += __shfl_down_sync(0xffffffffu, sum, offset);
    }
    if (threadIdx.x % WARP == 0) {
        partials[threadIdx.x / WARP] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        double total = 0.0;
#pragma unroll
        for (unsigned warp = 0; warp < WARPS; ++warp) {
            total += partials[warp];
        }
        output[blockIdx.x] = total;
    }
}
