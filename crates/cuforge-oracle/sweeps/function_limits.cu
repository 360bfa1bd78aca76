// Holds the limits of functions in src/model.rs against a GPU, over all 2^32 inputs.
//
//     nvcc -arch=sm_90 function_limits.cu -o plain && ./plain
//     nvcc -arch=sm_90 -use_fast_math -DFAST function_limits.cu -o fast && ./fast
//
// Prints a line a function: the largest ratio of a deviation from the double-precision result to the bound that the
// model gives it (half a unit in the last place and the stated limit), and the input where that is. A ratio above 1
// means that a limit is too tight for this GPU. Division is swept over every divisor with one dividend each.

#include <cstdio>
#include <cstring>

#ifdef FAST
constexpr bool fast = true;
#else
constexpr bool fast = false;
#endif

constexpr const char* names[] = {"exp", "exp2", "ln", "log2", "sin", "cos", "tanh", "rsqrt", "sqrt", "divide"};
constexpr int functions = 10;
constexpr double min_normal = 0x1p-126;
constexpr double pi = 3.141592653589793;

struct Worst {
    unsigned long long ratio_bits;  // of a double that is not negative, so that integers order it
    unsigned input;
};

__device__ double ulp(double value)
{
    const double magnitude = fabs(value);
    const int exponent = magnitude == 0 ? -126 : max(ilogb(magnitude), -126);
    return ldexp(1.0, exponent - 23);
}

__device__ bool is_finite(unsigned bits)
{
    return (bits >> 23 & 255) != 255;
}

// The device's result, the true one, and the limit on the distance from the correctly rounded one; false where the
// model states nothing.
__device__ bool evaluate(int function, float x, float dividend, double& got, double& right, double& limit)
{
    const double X = x;
    const double a = fabs(X);
    const bool near_one = a >= 0.5 && a <= 2;
    switch (function) {
    case 0:
        got = expf(x), right = exp(X);
        limit = (2 + (fast ? 1.173 * fmin(a, 206.0) : 0)) * ulp(right);
        return true;
    case 1:
        got = exp2f(x), right = exp2(X);
        limit = fast ? right * 0x1p-22 : 2 * ulp(right);
        return true;
    case 2:
        got = logf(x), right = log(X);
        limit = fast ? (near_one ? 3.5889e-7 : 3 * ulp(right)) : ulp(right);
        return X > 0;
    case 3:
        got = log2f(x), right = log2(X);
        limit = fast ? (near_one ? 0x1p-22 : 2 * ulp(right)) : ulp(right);
        return X > 0;
    case 4:
        got = sinf(x), right = sin(X);
        limit = fast ? 3.5889e-7 : 2 * ulp(right);
        return !fast || a <= pi;
    case 5:
        got = cosf(x), right = cos(X);
        limit = fast ? 4.1801e-7 : 2 * ulp(right);
        return !fast || a <= pi;
    case 6:
        got = tanhf(x), right = tanh(X);
        limit = fast ? fabs(right) * 0x1p-11 : 2 * ulp(right);
        return true;
    case 7:
        got = rsqrtf(x), right = 1 / sqrt(X);
        limit = 2 * ulp(right);
        return X > 0;
    case 8:
        got = sqrtf(x), right = sqrt(X);
        limit = fast ? ulp(right) : 0;
        return X > 0;
    default:
        got = dividend / x, right = (double)dividend / X;
        limit = fast ? (a > 0x1p126 ? fabs(right) : 2 * ulp(right)) : 0;
        return a != 0 && (!fast || fabs((double)dividend) >= min_normal);
    }
}

__global__ void sweep(int function, Worst* worst)
{
    double largest = 0;
    unsigned where = 0;
    const unsigned long long step = gridDim.x * (unsigned long long)blockDim.x;
    for (unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; i < 1ull << 32; i += step) {
        const unsigned bits = (unsigned)i;
        const unsigned other = bits * 2654435761u;
        if (!is_finite(bits) || !is_finite(other)) {
            continue;
        }
        const float x = __uint_as_float(bits);
        double got, right, limit;
        // Under fast math subnormal inputs count as zero.
        if ((fast && fabs((double)x) < min_normal) || !evaluate(function, x, __uint_as_float(other), got, right, limit)) {
            continue;
        }
        // Overflow is not a matter of limits.
        if (!(fabs(right) < 3.4028e38)) {
            continue;
        }
        double bound = limit + 0.5000001 * ulp(right);
        if (fast && fabs(right) < 2 * min_normal) {
            bound += min_normal;
        }
        const double ratio = fabs(got - right) / bound;
        if (!(ratio <= largest)) {
            largest = ratio == ratio ? ratio : 1e9;
            where = bits;
        }
    }
    if (atomicMax(&worst->ratio_bits, (unsigned long long)__double_as_longlong(largest)) < (unsigned long long)__double_as_longlong(largest)) {
        worst->input = where;
    }
}

int main()
{
    Worst* worst;
    cudaMalloc(&worst, sizeof(Worst));
    for (int function = 0; function < functions; ++function) {
        cudaMemset(worst, 0, sizeof(Worst));
        sweep<<<132 * 16, 256>>>(function, worst);
        Worst host;
        const cudaError_t error = cudaMemcpy(&host, worst, sizeof host, cudaMemcpyDeviceToHost);
        if (error != cudaSuccess) {
            printf("%s: %s\n", names[function], cudaGetErrorString(error));
            return 1;
        }
        double ratio;
        memcpy(&ratio, &host.ratio_bits, sizeof ratio);
        printf("%-7s %-5s worst error/bound %.4f at about input %08x\n", names[function], fast ? "fast" : "plain", ratio, host.input);
    }
}
