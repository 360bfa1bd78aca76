// A tiled product, the same by wmma, and a softmax row.
#include <cuda_fp16.h>
#include <mma.h>

extern "C" __global__ void __launch_bounds__(64, 2)
tiled(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m, int n, int k) {
    __shared__ float left[8][9], right[8][8];
    int row = blockIdx.y * 8 + threadIdx.y, column = blockIdx.x * 8 + threadIdx.x;
    float sum = 0;
    for (int tile = 0; tile < k; tile += 8) {
        left[threadIdx.y][threadIdx.x] = row < m && tile + threadIdx.x < k ? a[row * k + tile + threadIdx.x] : 0.f;
        right[threadIdx.y][threadIdx.x] = column < n && tile + threadIdx.y < k ? b[(tile + threadIdx.y) * n + column] : 0.f;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 8; i++) sum += left[threadIdx.y][i] * right[i][threadIdx.x];
        __syncthreads();
    }
    if (row < m && column < n) c[row * n + column] = sum;
}

extern "C" __global__ void fragments(const __half* a, const __half* b, float* c) {
    using namespace nvcuda::wmma;
    fragment<matrix_a, 16, 16, 16, __half, row_major> left;
    fragment<matrix_b, 16, 16, 16, __half, col_major> right;
    fragment<accumulator, 16, 16, 16, float> sum;
    fill_fragment(sum, 0.f);
    load_matrix_sync(left, a, 16);
    load_matrix_sync(right, b, 16);
    mma_sync(sum, left, right, sum);
    store_matrix_sync(c, sum, 16, mem_row_major);
}

extern "C" __global__ void softmax_row(const float* in, float* out, int columns) {
    const float* row = in + (size_t)blockIdx.x * columns;
    float largest = row[0];
    for (int i = threadIdx.x; i < columns; i += 32) largest = fmaxf(largest, row[i]);
    for (int lane = 16; lane; lane >>= 1) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, lane));
    float sum = 0;
    for (int i = threadIdx.x; i < columns; i += 32) sum += expf(row[i] - largest);
    for (int lane = 16; lane; lane >>= 1) sum += __shfl_xor_sync(~0u, sum, lane);
    for (int i = threadIdx.x; i < columns; i += 32) out[blockIdx.x * columns + i] = expf(row[i] - largest) / sum;
}
