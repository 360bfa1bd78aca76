// Kernels of the GPU tests and the launch bench, for any device from compute capability 7.5 on. plain.ptx is what
// NVRTC 12.9 makes of this file with --gpu-architecture=compute_75, its .version lowered to 8.1 (what parameters beyond 4 KiB need) so that older drivers
// take it.

typedef unsigned int u32;
typedef unsigned long long u64;

extern "C" __global__ void saxpy(float *y, const float *x, float a, u32 n)
{
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = fmaf(a, x[i], y[i]);
    }
}

// Five arguments, hardly any work: what a launch costs is what is measured.
extern "C" __global__ void five(u32 *out, const u32 *a, const u32 *b, u32 add, u32 n)
{
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = a[i] + b[i] + add;
    }
}

// Fills `out` with a sequence that names its seed.
extern "C" __global__ void fill(u32 *out, u32 seed, u32 n)
{
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = seed * 2654435761u + i;
    }
}

// Counts the words of `in` that are not of the sequence of `seed`.
extern "C" __global__ void check(const u32 *in, u32 *wrong, u32 seed, u32 n)
{
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && in[i] != seed * 2654435761u + i) {
        atomicAdd(wrong, 1u);
    }
}

// Keeps one multiprocessor busy for so many nanoseconds of the device's timer, then adds one.
extern "C" __global__ void spin(u32 *out, u64 nanoseconds)
{
    u64 start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (now - start < nanoseconds);
    *out += 1;
}

// Writes where nothing is.
extern "C" __global__ void stray(u32 *out)
{
    *(volatile u32 *)((u64)out + (1ull << 46)) = 1;
}

// Sums so many words of dynamic shared memory, each written by another thread.
extern "C" __global__ void shared_sum(u32 *out, u32 words)
{
    extern __shared__ u32 scratch[];
    for (u32 i = threadIdx.x; i < words; i += blockDim.x) {
        scratch[i] = i;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        u32 sum = 0;
        for (u32 i = 0; i < words; i++) {
            sum += scratch[i];
        }
        *out = sum;
    }
}

struct Uniform {
    u32 words[2000];
};

// Eight thousand bytes by value behind a pointer, then a byte, a double and a half word: sums them all.
extern "C" __global__ void wide(double *out, Uniform uniform, unsigned char small, double d, unsigned short half)
{
    double sum = small + d + half;
    for (u32 i = 0; i < 2000; i++) {
        sum += uniform.words[i];
    }
    *out = sum;
}

// Every block adds one, waits until all have, and writes what it then sees: right only if all run at once.
extern "C" __global__ void together(u32 *arrived, u32 *seen)
{
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(arrived, 1u);
        while (atomicAdd(arrived, 0u) < gridDim.x) {
        }
        seen[blockIdx.x] = atomicAdd(arrived, 0u);
    }
}

// As `check`, but late: every block first lets so many nanoseconds pass.
extern "C" __global__ void late_check(const u32 *in, u32 *wrong, u32 seed, u32 n, u64 nanoseconds)
{
    u64 start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (now - start < nanoseconds);
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && in[i] != seed * 2654435761u + i) {
        atomicAdd(wrong, 1u);
    }
}

// Some arithmetic over every word, as long as wanted: compute for a copy to hide behind.
extern "C" __global__ void grind(u32 *data, u32 n, u32 rounds)
{
    for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        u32 x = data[i];
        for (u32 round = 0; round < rounds; round++) {
            x = x * 1664525u + 1013904223u;
        }
        data[i] = x;
    }
}
