// Shared memory, barriers, shuffles, shared and global atomics, dynamic shared memory.
extern "C" __global__ void block_sum(const float* in, float* out, unsigned count) {
    __shared__ float partial[256];
    float sum = 0;
    for (unsigned i = threadIdx.x + blockIdx.x * blockDim.x; i < count; i += blockDim.x * gridDim.x) sum += in[i];
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (unsigned width = 128; width > 0; width >>= 1) {
        if (threadIdx.x < width) partial[threadIdx.x] += partial[threadIdx.x + width];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(out, partial[0]);
}

extern "C" __global__ void warp_sums(const float* in, float* out) {
    float value = in[threadIdx.x];
    for (int lane = 16; lane; lane >>= 1) value += __shfl_xor_sync(~0u, value, lane);
    float below = __shfl_down_sync(~0u, value, 4);
    int above = __shfl_up_sync(~0u, (int)threadIdx.x, 1);
    int third = __shfl_sync(~0u, above, 3);
    if (threadIdx.x == 0) out[blockIdx.x] = value + below + above + third;
}

extern "C" __global__ void histogram(const unsigned char* in, unsigned* bins, unsigned count) {
    __shared__ unsigned local[256];
    local[threadIdx.x] = 0;
    __syncthreads();
    for (unsigned i = threadIdx.x + blockIdx.x * blockDim.x; i < count; i += blockDim.x * gridDim.x) {
        atomicAdd(&local[in[i]], 1u);
    }
    __syncthreads();
    if (local[threadIdx.x]) atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}

extern "C" __global__ void scan(const int* in, int* out, unsigned count) {
    extern __shared__ int line[];
    int i = threadIdx.x;
    line[i] = i < count ? in[i] : 0;
    __syncthreads();
    for (int step = 1; step < blockDim.x; step <<= 1) {
        int left = i >= step ? line[i - step] : 0;
        __syncthreads();
        line[i] += left;
        __syncthreads();
    }
    if (i < count) out[i] = line[i];
}
