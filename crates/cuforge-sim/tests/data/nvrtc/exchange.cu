// Votes, matches, fences, every atomic, clocks, and inline assembly with scopes of its own.
extern "C" __global__ void votes(int* y, unsigned* z) {
    int t = threadIdx.x;
    z[t] = __ballot_sync(~0u, y[t] > 3);
    y[t] = __any_sync(~0u, y[t]) + __all_sync(~0u, y[t + 1]) + __activemask();
    z[t + 1] = __match_any_sync(~0u, y[t]);
    int all;
    z[t + 2] = __match_all_sync(~0u, y[t], &all) + all;
#if __CUDA_ARCH__ >= 800
    z[t + 3] = __reduce_add_sync(~0u, z[t]) + __reduce_max_sync(~0u, z[t]);
#endif
    __threadfence();
    __threadfence_block();
    __threadfence_system();
    __syncwarp();
    z[t + 4] = __syncthreads_count(y[t]) + __syncthreads_or(y[t]) + __syncthreads_and(y[t]);
}

extern "C" __global__ void atomics(int* y, unsigned* z, unsigned long long* w, double* d) {
    atomicCAS(y, 1, 2);
    atomicExch(y + 1, 3);
    atomicMax(y + 2, 4);
    atomicMin(z, 3u);
    atomicAnd(z, 5u);
    atomicOr(z, 6u);
    atomicXor(z, 7u);
    atomicInc(z, 9u);
    atomicDec(z, 10u);
    atomicAdd(w, 5ull);
    atomicCAS(w, 1ull, 2ull);
    z[3] = atomicSub(z, 3u);
    atomicAdd_block(y, 3);
    atomicAdd_system(y, 3);
    atomicAdd(d, 0.5);
    volatile int* v = y;
    v[4] = v[5] + 1;
}

extern "C" __global__ void clocks(long long* y, float* f) {
    unsigned long long now;
    unsigned lane;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    y[0] = now + clock64() + clock() + lane;
    asm volatile("{ .reg .pred p; .reg .b32 t<2>; setp.ne.b32 p, %0, 0; @p bra DONE_%=; st.global.f32 [%1], %2;\n"
                 "mov.b32 t0, %0; add.u32 t1, t0, WARP_SZ; DONE_%=: }" ::"r"(lane), "l"(f), "f"(1.5f));
    __nanosleep(10);
}
