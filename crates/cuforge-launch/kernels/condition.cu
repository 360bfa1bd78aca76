// Kernels that set the conditions of graphs. condition.ptx is what NVRTC 12.9 makes of this
// file with --gpu-architecture=compute_75 and condition_sm90.ptx with compute_90, the .version of both lowered to 7.8 so
// that older drivers take them. From 9.0 on each kernel waits for the one before it, so that its edges may be
// programmatic.

typedef unsigned int u32;
typedef unsigned long long u64;

extern "C" __device__ __cudart_builtin__ void CUDARTAPI cudaGraphSetConditional(cudaGraphConditionalHandle, unsigned int);

__device__ __forceinline__ void wait_for_predecessor()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// After an iteration: goes on while the word is not 0 and fewer than `most` iterations have run. At the end it adds them
// to what the host can see, and is ready for the next run. `counter` holds this run's iterations, and at 8 all of them.
extern "C" __global__ void cuforge_loop(const u32 *word, u64 counter, u64 report, cudaGraphConditionalHandle handle, u32 most)
{
    wait_for_predecessor();
    u32 *const count = (u32 *)counter;
    u64 *const total = (u64 *)(counter + 8);
    const u32 done = *count + 1;
    const u32 go = *word != 0 && done < most;
    *count = go ? done : 0;
    if (!go) {
        *total += done;
        *(volatile u64 *)report = *total;
    }
    cudaGraphSetConditional(handle, go);
}

// Hands the word to the conditional node that follows.
extern "C" __global__ void cuforge_condition(const u32 *word, cudaGraphConditionalHandle handle)
{
    wait_for_predecessor();
    cudaGraphSetConditional(handle, *word);
}
