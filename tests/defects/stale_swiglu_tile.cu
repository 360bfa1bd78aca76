// class: stale read
// kernel: swiglu
// schedule: 0
// shape: 5x150x40
// wrong: Only the first part of x is staged: later steps read the words of the first again.

struct SwigluUniform {
    unsigned rows;
    unsigned inner;
    unsigned columns;
};

extern "C" __global__ void __launch_bounds__(CUFORGE_BLOCK_X)
swiglu(const float* __restrict__ x,
       const float* __restrict__ w_gate,
       const float* __restrict__ w_up,
       float* __restrict__ output,
       const SwigluUniform uniform)
{
    __shared__ float tile[TILE_ROWS][TILE_K];

    const unsigned first_row = blockIdx.y * TILE_ROWS;
    const unsigned first_column = blockIdx.x * (CUFORGE_BLOCK_X * CUFORGE_ITEMS) + threadIdx.x;

    unsigned columns[CUFORGE_ITEMS];
#pragma unroll
    for (unsigned item = 0; item < CUFORGE_ITEMS; ++item) {
        const unsigned column = first_column + item * CUFORGE_BLOCK_X;
        columns[item] = column < uniform.columns ? column : uniform.columns - 1;
    }

    float gate[TILE_ROWS][CUFORGE_ITEMS] = {};
    float up[TILE_ROWS][CUFORGE_ITEMS] = {};
    for (unsigned first_k = 0; first_k < uniform.inner; first_k += TILE_K) {
        for (unsigned slot = threadIdx.x; first_k == 0 && slot < TILE_ROWS * TILE_K; slot += CUFORGE_BLOCK_X) {
            const unsigned row = first_row + slot / TILE_K;
            const unsigned k = first_k + slot % TILE_K;
            tile[slot / TILE_K][slot % TILE_K] =
                row < uniform.rows && k < uniform.inner ? x[(unsigned long long)row * uniform.inner + k] : 0.0f;
        }
        __syncthreads();

        const unsigned left = uniform.inner - first_k;
        const unsigned depth = left < TILE_K ? left : TILE_K;
        for (unsigned k = 0; k < depth; ++k) {
            const unsigned long long weight_row = (unsigned long long)(first_k + k) * uniform.columns;
#pragma unroll
            for (unsigned item = 0; item < CUFORGE_ITEMS; ++item) {
                const float weight_gate = w_gate[weight_row + columns[item]];
                const float weight_up = w_up[weight_row + columns[item]];
#pragma unroll
                for (unsigned row = 0; row < TILE_ROWS; ++row) {
                    gate[row][item] += tile[row][k] * weight_gate;
                    up[row][item] += tile[row][k] * weight_up;
                }
            }
        }
        __syncthreads();
    }

#pragma unroll
    for (unsigned row = 0; row < TILE_ROWS; ++row) {
#pragma unroll
        for (unsigned item = 0; item < CUFORGE_ITEMS; ++item) {
            const unsigned column = first_column + item * CUFORGE_BLOCK_X;
            if (first_row + row < uniform.rows && column < uniform.columns) {
                const float g = gate[row][item];
                output[(unsigned long long)(first_row + row) * uniform.columns + column] =
                    g / (1.0f + expf(-g)) * up[row][item];
            }
        }
    }
}
