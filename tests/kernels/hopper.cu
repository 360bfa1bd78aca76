// Kernels of the GPU tests that need compute capability 9.0. hopper.ptx is what NVRTC 12.9 makes of this file with
// --gpu-architecture=compute_90, its .version lowered to 7.8 so that older drivers take it.

typedef unsigned int u32;

// Each block's rank in its cluster, and the cluster's size.
extern "C" __global__ void ranks(u32 *rank, u32 *size)
{
    if (threadIdx.x == 0) {
        u32 r, s;
        asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
        asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(s));
        rank[blockIdx.x] = r;
        size[blockIdx.x] = s;
    }
}

// Waits for the kernel before it, then adds one to every word.
extern "C" __global__ void after(u32 *out, u32 n)
{
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    asm volatile("griddepcontrol.wait;" ::: "memory");
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] += 1;
    }
}
