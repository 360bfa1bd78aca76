// Kernels of the graph tests and the graph bench. graph.ptx is what NVRTC 12.9 makes of this file with
// --gpu-architecture=compute_75, its .version lowered to 7.8; graph_sm90.ptx with compute_90. From 9.0 on every kernel
// waits for the one before it and lets the next begin.

typedef unsigned int u32;
typedef unsigned long long u64;

#if __CUDA_ARCH__ >= 900
#define BEGIN                                                      \
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); \
    asm volatile("griddepcontrol.wait;" ::: "memory")
#else
#define BEGIN
#endif

// Adds one to each word.
extern "C" __global__ void increment(u32 *out, u32 n)
{
    BEGIN;
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] += 1;
    }
}

// Sets each word to a value.
extern "C" __global__ void set(u32 *out, u32 value, u32 n)
{
    BEGIN;
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = value;
    }
}

// One step of a chain: each word from the one before it, so that neither a lost nor a doubled step goes unseen.
extern "C" __global__ void step(u32 *out, u32 n)
{
    BEGIN;
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = out[i] * 1664525u + 1013904223u;
    }
}

// Takes a word to where it is written twice more than it was read: `to[i] = from[i]`.
extern "C" __global__ void move(u32 *to, const u32 *from, u32 n)
{
    BEGIN;
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        to[i] = from[i];
    }
}

// Puts a value at the place that the word `at` names.
extern "C" __global__ void append(u32 *list, const u32 *at, u32 capacity)
{
    BEGIN;
    const u32 place = *at;
    if (place < capacity) {
        list[place] = place * 2654435761u + 1;
    }
}

// Counts a word down to 0.
extern "C" __global__ void count_down(u32 *word)
{
    BEGIN;
    if (threadIdx.x == 0 && *word > 0) {
        *word -= 1;
    }
}

// Waits on the device for so many nanoseconds, then adds one.
extern "C" __global__ void late(u32 *out, u64 nanoseconds)
{
    BEGIN;
    u64 start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (now - start < nanoseconds);
    *out += 1;
}

// Adds one to the first word and to the second, and tells the host both in one store: how often, and the value.
extern "C" __global__ void finish(u32 *out, u64 report)
{
    BEGIN;
    const u32 value = out[0] + 1, turn = out[1] + 1;
    out[0] = value;
    out[1] = turn;
    *(volatile u64 *)report = (u64)turn << 32 | value;
}

// Takes the first word from where the host put it in mapped memory.
extern "C" __global__ void fetch(u32 *out, u64 from)
{
    BEGIN;
    out[0] = (u32) * (volatile u64 *)from;
}

// Waits until the host has put the word of this turn into mapped memory, the turn in its upper half, and takes its lower
// half; after so many nanoseconds it takes what is there. The second word counts the turns, as `finish` does.
extern "C" __global__ void await(u32 *out, u64 from, u64 patience)
{
    BEGIN;
    const u32 turn = out[1] + 1;
    u64 start, now, word;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do {
        word = *(volatile u64 *)from;
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while ((u32)(word >> 32) != turn && now - start < patience);
    out[0] = (u32)word;
}
