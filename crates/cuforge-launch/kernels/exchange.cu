// Kernels that graphs carry: parameters in, results out. exchange.ptx is what NVRTC 12.9 makes of this
// file with --gpu-architecture=compute_75 and exchange_sm90.ptx with compute_90, the .version of both lowered to 7.8 so
// that older drivers take them. From 9.0 on each kernel waits for the one before it, so that its edges may be
// programmatic.

typedef unsigned int u32;
typedef unsigned long long u64;

__device__ __forceinline__ void wait_for_predecessor()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ __forceinline__ void let_successor_begin()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Copies the values of this replay out of their slot in mapped memory, and says that the slot is free.
extern "C" __global__ void cuforge_feed(u32 *out, u64 page, u64 counter, u64 taken, u32 words, u32 stride, u32 slots)
{
    let_successor_begin();
    wait_for_predecessor();
    u64 *const count = (u64 *)counter;
    const u64 turn = *count;
    const volatile u32 *slot = (const volatile u32 *)(page + (turn % slots) * stride);
    for (u32 i = threadIdx.x; i < words; i += blockDim.x) {
        out[i] = slot[i];
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        *count = turn + 1;
        *(volatile u64 *)taken = turn + 1;
    }
}

// Copies the values of this replay into the next slot in mapped memory, then marks the slot with its turn.
extern "C" __global__ void cuforge_post(const u32 *in, u64 page, u64 counter, u32 words, u32 stride, u32 slots)
{
    let_successor_begin();
    wait_for_predecessor();
    u64 *const count = (u64 *)counter;
    const u64 turn = *count;
    const u64 slot = page + (turn % slots) * stride;
    volatile u32 *values = (volatile u32 *)(slot + 8);
    for (u32 i = threadIdx.x; i < words; i += blockDim.x) {
        values[i] = in[i];
    }
    __threadfence_system();
    __syncthreads();
    if (threadIdx.x == 0) {
        *(volatile u64 *)slot = turn + 1;
        *count = turn + 1;
    }
}
