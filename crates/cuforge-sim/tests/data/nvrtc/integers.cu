// Integer arithmetic of every width, bit tricks, packed lanes, 64-bit keys.
extern "C" __global__ void words(int* y, unsigned* u, short* s, unsigned char* c, long long* l) {
    int i = threadIdx.x;
    y[i] = __mulhi(y[i], y[i + 1]) + __mul24(y[i], 3) + __sad(y[i], y[i + 1], 5u) + abs(y[i]) + min(y[i], y[i + 1]);
    y[i] += __funnelshift_l(u[i], u[i + 1], i) + __rhadd(y[i], y[i + 2]) + __popc(u[i]) + __clz(y[i]) + __ffs(y[i]);
    u[i] = u[i] / 10 + u[i] % 7 + __umulhi(u[i], 3u) + (u[i] >> i) + (u[i] << (i & 3)) + __brev(u[i]);
    s[i] = s[i] * s[i + 1] + (s[i] >> 2);
    c[i] = c[i + 1] - c[i + 2];
    l[i] = l[i] * l[i + 1] + (l[i] >> i) + llabs(l[i + 1]) + __popcll(l[i]) + __clzll(l[i]) + l[i] / l[i + 2];
    y[i + 5] = __vadd4(y[i], y[i + 1]) + __vabsdiffu4(y[i], u[i]) + __byte_perm(y[i], u[i], 0x3210);
    y[i + 6] = __float2int_rn(__int_as_float(y[i])) + __dp4a(y[i], y[i + 1], y[i + 2]);
    if (i == 3 || (y[i] > 3 && u[i] < 9u)) y[i] = i & 1 ? ~y[i] : -y[i];
}

extern "C" __global__ void largest(const float* in, unsigned* index, int count) {
    extern __shared__ unsigned long long keys[];
    unsigned long long best = 0;
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
        unsigned bits = __float_as_uint(in[i]);
        bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
        unsigned long long key = (unsigned long long)bits << 32 | (0xffffffffu - i);
        if (key > best) best = key;
    }
    keys[threadIdx.x] = best;
    __syncthreads();
    for (int width = blockDim.x / 2; width; width >>= 1) {
        if (threadIdx.x < width && keys[threadIdx.x + width] > keys[threadIdx.x]) {
            keys[threadIdx.x] = keys[threadIdx.x + width];
        }
        __syncthreads();
    }
    if (!threadIdx.x) *index = 0xffffffffu - (unsigned)keys[0];
}
