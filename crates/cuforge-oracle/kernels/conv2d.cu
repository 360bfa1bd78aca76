// conv2d: a convolution of 3 x 3 with zeros around the image:
// output[k][y][x] = bias[k] + sum over c, i, j of input[c][y + i - 1][x + j - 1] * weights[k][c][i][j]; row-major, input is
// channels x height x width, output filters x height x width.
//
// Schedule
//   CUFORGE_BLOCK_X  columns of the part of the image that a block computes
//   CUFORGE_BLOCK_Y  rows of it
//   CUFORGE_ITEMS    filters of a thread: each staged word feeds as many products
// Grid
//   x = ceil(width / CUFORGE_BLOCK_X), y = ceil(height / CUFORGE_BLOCK_Y), z = ceil(filters / CUFORGE_ITEMS)

struct Conv2dUniform {
    unsigned channels;
    unsigned filters;
    unsigned height;
    unsigned width;
};

// Enumerators, because NVRTC gives every constexpr variable of this scope a word of global memory.
enum : unsigned {
    TAPS = 3,
    HALO = TAPS - 1,
    TILE_X = CUFORGE_BLOCK_X + HALO,
    TILE_Y = CUFORGE_BLOCK_Y + HALO,
    THREADS = CUFORGE_BLOCK_X * CUFORGE_BLOCK_Y,
};

extern "C" __global__ void __launch_bounds__(THREADS)
conv2d(const float* __restrict__ input,
       const float* __restrict__ weights,
       const float* __restrict__ bias,
       float* __restrict__ output,
       const Conv2dUniform uniform)
{
    __shared__ float tile[TILE_Y][TILE_X];
    __shared__ float taps[CUFORGE_ITEMS][TAPS * TAPS];

    const unsigned x = blockIdx.x * CUFORGE_BLOCK_X + threadIdx.x;
    const unsigned y = blockIdx.y * CUFORGE_BLOCK_Y + threadIdx.y;
    const unsigned first_filter = blockIdx.z * CUFORGE_ITEMS;
    const unsigned thread = threadIdx.y * CUFORGE_BLOCK_X + threadIdx.x;
    const unsigned long long image = (unsigned long long)uniform.height * uniform.width;

    float sums[CUFORGE_ITEMS] = {};
    for (unsigned channel = 0; channel < uniform.channels; ++channel) {
        for (unsigned slot = thread; slot < TILE_Y * TILE_X; slot += THREADS) {
            // Above and left of the image the difference wraps and is no coordinate either.
            const unsigned row = blockIdx.y * CUFORGE_BLOCK_Y + slot / TILE_X - HALO / 2;
            const unsigned column = blockIdx.x * CUFORGE_BLOCK_X + slot % TILE_X - HALO / 2;
            tile[slot / TILE_X][slot % TILE_X] = row < uniform.height && column < uniform.width
                ? input[channel * image + (unsigned long long)row * uniform.width + column]
                : 0.0f;
        }
        for (unsigned slot = thread; slot < CUFORGE_ITEMS * TAPS * TAPS; slot += THREADS) {
            const unsigned filter = first_filter + slot / (TAPS * TAPS);
            const unsigned long long of_channel = (unsigned long long)filter * uniform.channels + channel;
            taps[slot / (TAPS * TAPS)][slot % (TAPS * TAPS)] =
                filter < uniform.filters ? weights[of_channel * (TAPS * TAPS) + slot % (TAPS * TAPS)] : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (unsigned i = 0; i < TAPS; ++i) {
#pragma unroll
            for (unsigned j = 0; j < TAPS; ++j) {
                const float value = tile[threadIdx.y + i][threadIdx.x + j];
#pragma unroll
                for (unsigned item = 0; item < CUFORGE_ITEMS; ++item) {
                    sums[item] += value * taps[item][i * TAPS + j];
                }
            }
        }
        // The tiles may be overwritten only when nobody reads them any more.
        __syncthreads();
    }
#pragma unroll
    for (unsigned item = 0; item < CUFORGE_ITEMS; ++item) {
        const unsigned filter = first_filter + item;
        if (filter < uniform.filters && y < uniform.height && x < uniform.width) {
            output[filter * image + (unsigned long long)y * uniform.width + x] = sums[item] + bias[filter];
        }
    }
}
