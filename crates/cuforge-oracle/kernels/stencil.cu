// stencil: one Jacobi step of the heat equation on a box: inside,
// output[z][y][x] = input[z][y][x] + rate * (the six neighbours' sum - 6 * input[z][y][x]); the faces stay as they are.
// Row-major, depth x height x width.
//
// Schedule
//   CUFORGE_BLOCK_X, CUFORGE_BLOCK_Y, CUFORGE_BLOCK_Z  threads of a block along x, y, z
//   CUFORGE_ITEMS                                      planes of a thread
// Grid
//   x = ceil(width / CUFORGE_BLOCK_X), y = ceil(height / CUFORGE_BLOCK_Y),
//   z = ceil(depth / (CUFORGE_BLOCK_Z * CUFORGE_ITEMS))

struct StencilUniform {
    unsigned depth;
    unsigned height;
    unsigned width;
    float rate;
};

extern "C" __global__ void __launch_bounds__(CUFORGE_BLOCK_X * CUFORGE_BLOCK_Y * CUFORGE_BLOCK_Z)
stencil(const float* __restrict__ input,
        float* __restrict__ output,
        const StencilUniform uniform)
{
    const unsigned x = blockIdx.x * CUFORGE_BLOCK_X + threadIdx.x;
    const unsigned y = blockIdx.y * CUFORGE_BLOCK_Y + threadIdx.y;
    if (x >= uniform.width || y >= uniform.height) {
        return;
    }
    const unsigned long long plane = (unsigned long long)uniform.height * uniform.width;
#pragma unroll
    for (unsigned item = 0; item < CUFORGE_ITEMS; ++item) {
        const unsigned z = (blockIdx.z * CUFORGE_ITEMS + item) * CUFORGE_BLOCK_Z + threadIdx.z;
        if (z < uniform.depth) {
            const unsigned long long i = z * plane + (unsigned long long)y * uniform.width + x;
            const float centre = input[i];
            float next = centre;
            if (x > 0 && x + 1 < uniform.width && y > 0 && y + 1 < uniform.height && z > 0 && z + 1 < uniform.depth) {
                const float neighbours = input[i - 1] + input[i + 1] + input[i - uniform.width] +
                    input[i + uniform.width] + input[i - plane] + input[i + plane];
                next = centre + uniform.rate * (neighbours - 6.0f * centre);
            }
            output[i] = next;
        }
    }
}
