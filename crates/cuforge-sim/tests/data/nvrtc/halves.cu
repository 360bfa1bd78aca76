// 16-bit floats, alone and in pairs.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" __global__ void half_ops(__half* h, __half2* pairs) {
    int i = threadIdx.x;
    h[i] = __hfma(h[i], h[i + 1], h[i + 2]);
    h[i + 3] = __hadd(h[i], h[i + 1]);
    if (__hgt(h[i], h[i + 1])) h[i + 5] = __hneg(h[i]);
    h[i + 9] = __int2half_rn(i);
    h[i + 11] = __float2half_rz(1.5f * i);
    pairs[i] = __hfma2(pairs[i], pairs[i + 1], pairs[i + 2]);
    pairs[i + 1] = __hge2(pairs[i], pairs[i + 2]);
    atomicAdd(pairs + 20, pairs[i]);
}

extern "C" __global__ void rotate(const __nv_bfloat16* in, __nv_bfloat16* out, const float* angles, int count) {
    int i = threadIdx.x;
    if (i < count) {
        float a = __bfloat162float(in[2 * i]), b = __bfloat162float(in[2 * i + 1]);
        float c = angles[2 * i], s = angles[2 * i + 1];
        out[2 * i] = __float2bfloat16(a * c - b * s);
        out[2 * i + 1] = __float2bfloat16(a * s + b * c);
    }
}
