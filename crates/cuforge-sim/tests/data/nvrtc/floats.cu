// Directed rounding, approximations, conversions, doubles.
extern "C" __global__ void singles(const float* in, float* out, int* whole, int n) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i >= n) return;
    float v = in[i];
    out[i] = v / (1.f + expf(-v)) + sqrtf(v) + 1.f / v + rsqrtf(v);
    out[i + n] = truncf(v) + floorf(v) + ceilf(v) + rintf(v) + copysignf(v, -1.f) + fabsf(v);
    out[i + 2 * n] = exp2f(v) + fminf(v, 2.f) + __saturatef(v) + __fdividef(v, 3.f);
    out[i + 3 * n] = __frcp_rz(v) + __fsqrt_ru(v) + __fmaf_rd(v, v, v) + __fadd_rz(v, v) + __fmul_rn(v, 3.f);
    whole[i] = (int)v + __float2int_ru(v) + __float2uint_rn(v) + (isnan(v) ? 1 : 0) + (v >= out[i] ? 2 : 3);
}

extern "C" __global__ void doubles(const double* in, double* out, long long* whole) {
    int i = threadIdx.x;
    double v = in[i];
    out[i] = sqrt(v) / v + fma(v, v, v) + floor(v) + fabs(v);
    whole[i] = (long long)v + __double2ll_ru(v);
    out[i + 2] = (double)whole[i + 3] / 7.0 + __dadd_rd(v, v) + __drcp_ru(v) + (float)v;
}
