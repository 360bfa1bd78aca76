// Strided loops, vectors, tails: the plainest kernels.
extern "C" __global__ void affine(const float* __restrict__ in, float* __restrict__ out, float scale, float bias,
                                  unsigned count) {
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        out[i] = in[i] * scale + bias;
    }
}

extern "C" __global__ void axpy4(const float4* __restrict__ x, float4* __restrict__ y, float a, unsigned count) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        float4 left = x[i], sum = y[i];
        sum.x += a * left.x;
        sum.y += a * left.y;
        sum.z += a * left.z;
        sum.w += a * left.w;
        y[i] = sum;
    }
}
