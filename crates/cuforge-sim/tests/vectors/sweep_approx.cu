// Every input of the approximate single-precision instructions of a GPU against the double-precision function: prints, for
// each instruction, the largest distance in units of the last place of the correctly rounded single, the largest absolute
// and relative error, and the input of the first. `nvcc -O3 -arch=sm_90 sweep_approx.cu -o sweep && ./sweep`
//
// Results that are not finite, or that the instruction flushes, are counted apart where the other side differs.
#include <cstdio>
#include <cmath>
#include <cstring>

struct Worst {
    unsigned long long ulps, input;
    unsigned long long absolute, relative;
    unsigned long long special;
};

__device__ long long key(float value) {
    int bits = __float_as_int(value);
    return bits < 0 ? -(long long)(bits & 0x7fffffff) : bits;
}

template <int FORM> __device__ float instruction(float x) {
    float y;
    if (FORM == 0) asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    if (FORM == 1) asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    if (FORM == 2) asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    if (FORM == 3) asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    if (FORM == 4) asm("rcp.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    if (FORM == 5) asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    if (FORM == 6) asm("rsqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    if (FORM == 7) asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    if (FORM == 8) asm("sqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    if (FORM == 9) asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    if (FORM == 10) asm("sin.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    if (FORM == 11) asm("cos.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    if (FORM == 12) asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    if (FORM == 13) asm("div.approx.f32 %0, %1, %2;" : "=f"(y) : "f"(1.7f), "f"(x));
    if (FORM == 14) asm("div.full.f32 %0, %1, %2;" : "=f"(y) : "f"(1.7f), "f"(x));
    return y;
}

template <int FORM> __device__ double exact(double x) {
    if (FORM <= 1) return exp2(x);
    if (FORM <= 3) return log2(x);
    if (FORM <= 5) return 1.0 / x;
    if (FORM <= 7) return 1.0 / sqrt(x);
    if (FORM <= 9) return sqrt(x);
    if (FORM == 10) return sin(x);
    if (FORM == 11) return cos(x);
    if (FORM == 12) return tanh(x);
    return (double)1.7f / x;
}

template <int FORM> __global__ void sweep(Worst* worst) {
    const bool flushes = FORM == 1 || FORM == 3 || FORM == 5 || FORM == 7 || FORM == 9;
    unsigned long long ulps = 0, input = 0, absolute = 0, relative = 0, special = 0;
    unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long at = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; at < 1ull << 32; at += stride) {
        float x = __uint_as_float((unsigned)at);
        if ((FORM == 10 || FORM == 11) && !(fabsf(x) <= 3.14159265f)) continue;
        float seen = flushes && fabsf(x) < 1.17549435e-38f ? copysignf(0.f, x) : x;
        double wide = exact<FORM>((double)seen);
        float want = (float)wide, got = instruction<FORM>(x);
        if (flushes && fabsf(want) < 1.17549435e-38f) want = copysignf(0.f, want);
        if (isnan(want) || isnan(got) || isinf(want) || isinf(got) || (want == 0) != (got == 0)) {
            special += (isnan(want) != isnan(got)) || (!isnan(want) && want != got);
            continue;
        }
        unsigned long long distance = llabs(key(got) - key(want));
        if (distance > ulps) {
            ulps = distance;
            input = at;
        }
        double error = fabs((double)got - wide);
        absolute = max(absolute, (unsigned long long)__double_as_longlong(error));
        if (wide != 0 && fabs(wide) >= 1.17549435e-38) {
            relative = max(relative, (unsigned long long)__double_as_longlong(error / fabs(wide)));
        }
    }
    unsigned long long before = atomicMax(&worst->ulps, ulps);
    if (ulps > before) worst->input = input;
    atomicMax(&worst->absolute, absolute);
    atomicMax(&worst->relative, relative);
    atomicAdd(&worst->special, special);
}

template <int FORM> void measure(const char* name) {
    Worst* worst;
    cudaMallocManaged(&worst, sizeof(Worst));
    *worst = Worst{};
    sweep<FORM><<<132 * 16, 256>>>(worst);
    cudaError_t code = cudaDeviceSynchronize();
    double absolute, relative;
    memcpy(&absolute, &worst->absolute, 8);
    memcpy(&relative, &worst->relative, 8);
    printf("%-22s %s ulps %llu at %08llx, absolute 2^%.2f, relative 2^%.2f, otherwise special %llu\n", name,
           code ? cudaGetErrorString(code) : "", worst->ulps, worst->input, log2(absolute), log2(relative), worst->special);
    cudaFree(worst);
}

int main() {
    measure<0>("ex2.approx.f32");
    measure<1>("ex2.approx.ftz.f32");
    measure<2>("lg2.approx.f32");
    measure<3>("lg2.approx.ftz.f32");
    measure<4>("rcp.approx.f32");
    measure<5>("rcp.approx.ftz.f32");
    measure<6>("rsqrt.approx.f32");
    measure<7>("rsqrt.approx.ftz.f32");
    measure<8>("sqrt.approx.f32");
    measure<9>("sqrt.approx.ftz.f32");
    measure<10>("sin.approx.f32");
    measure<11>("cos.approx.f32");
    measure<12>("tanh.approx.f32");
    measure<13>("div.approx.f32");
    measure<14>("div.full.f32");
}
