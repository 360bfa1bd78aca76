// Built-in functions of floats and of numbers in general.

//@ abs
template <class T>
__device__ constexpr T abs(T x) { return x; }
// The least integer is its own absolute value.
__device__ constexpr i32 abs(i32 x) { return x < 0 ? i32(0u - u32(x)) : x; }
__device__ constexpr i64 abs(i64 x) { return x < 0 ? i64(0ull - u64(x)) : x; }
__device__ constexpr i16 abs(i16 x) { return i16(x < 0 ? -x : x); }
__device__ inline f32 abs(f32 x) { return ::fabsf(x); }
__device__ inline f64 abs(f64 x) { return ::fabs(x); }

//@ min
template <class T>
__device__ constexpr T min(T a, T b) { return b < a ? b : a; }
__device__ inline f32 min(f32 a, f32 b) { return ::fminf(a, b); }
__device__ inline f64 min(f64 a, f64 b) { return ::fmin(a, b); }

//@ max
template <class T>
__device__ constexpr T max(T a, T b) { return a < b ? b : a; }
__device__ inline f32 max(f32 a, f32 b) { return ::fmaxf(a, b); }
__device__ inline f64 max(f64 a, f64 b) { return ::fmax(a, b); }

//@ clamp: min max
template <class T>
__device__ T clamp(T x, T low, T high) { return min(max(x, low), high); }

//@ saturate: clamp
template <class T>
__device__ T saturate(T x) { return clamp(x, T(0), T(1)); }

//@ cos
__device__ inline f32 cos(f32 x) { return ::cosf(x); }
__device__ inline f64 cos(f64 x) { return ::cos(x); }

//@ cosh
__device__ inline f32 cosh(f32 x) { return ::coshf(x); }
__device__ inline f64 cosh(f64 x) { return ::cosh(x); }

//@ sin
__device__ inline f32 sin(f32 x) { return ::sinf(x); }
__device__ inline f64 sin(f64 x) { return ::sin(x); }

//@ sinh
__device__ inline f32 sinh(f32 x) { return ::sinhf(x); }
__device__ inline f64 sinh(f64 x) { return ::sinh(x); }

//@ tan
__device__ inline f32 tan(f32 x) { return ::tanf(x); }
__device__ inline f64 tan(f64 x) { return ::tan(x); }

//@ tanh
__device__ inline f32 tanh(f32 x) { return ::tanhf(x); }
__device__ inline f64 tanh(f64 x) { return ::tanh(x); }

//@ acos
__device__ inline f32 acos(f32 x) { return ::acosf(x); }
__device__ inline f64 acos(f64 x) { return ::acos(x); }

//@ asin
__device__ inline f32 asin(f32 x) { return ::asinf(x); }
__device__ inline f64 asin(f64 x) { return ::asin(x); }

//@ atan
__device__ inline f32 atan(f32 x) { return ::atanf(x); }
__device__ inline f64 atan(f64 x) { return ::atan(x); }

//@ asinh
__device__ inline f32 asinh(f32 x) { return ::asinhf(x); }
__device__ inline f64 asinh(f64 x) { return ::asinh(x); }

//@ acosh
__device__ inline f32 acosh(f32 x) { return ::acoshf(x); }
__device__ inline f64 acosh(f64 x) { return ::acosh(x); }

//@ atanh
__device__ inline f32 atanh(f32 x) { return ::atanhf(x); }
__device__ inline f64 atanh(f64 x) { return ::atanh(x); }

//@ ceil
__device__ inline f32 ceil(f32 x) { return ::ceilf(x); }
__device__ inline f64 ceil(f64 x) { return ::ceil(x); }

//@ floor
__device__ inline f32 floor(f32 x) { return ::floorf(x); }
__device__ inline f64 floor(f64 x) { return ::floor(x); }

//@ trunc
__device__ inline f32 trunc(f32 x) { return ::truncf(x); }
__device__ inline f64 trunc(f64 x) { return ::trunc(x); }

//@ exp
__device__ inline f32 exp(f32 x) { return ::expf(x); }
__device__ inline f64 exp(f64 x) { return ::exp(x); }

//@ exp2
__device__ inline f32 exp2(f32 x) { return ::exp2f(x); }
__device__ inline f64 exp2(f64 x) { return ::exp2(x); }

//@ log
__device__ inline f32 log(f32 x) { return ::logf(x); }
__device__ inline f64 log(f64 x) { return ::log(x); }

//@ log2
__device__ inline f32 log2(f32 x) { return ::log2f(x); }
__device__ inline f64 log2(f64 x) { return ::log2(x); }

//@ sqrt
__device__ inline f32 sqrt(f32 x) { return ::sqrtf(x); }
__device__ inline f64 sqrt(f64 x) { return ::sqrt(x); }

//@ round
// A tie goes to the even neighbour.
__device__ inline f32 round(f32 x) { return ::rintf(x); }
__device__ inline f64 round(f64 x) { return ::rint(x); }

//@ inverse_sqrt
__device__ inline f32 inverse_sqrt(f32 x) { return ::rsqrtf(x); }
__device__ inline f64 inverse_sqrt(f64 x) { return ::rsqrt(x); }

//@ atan2
__device__ inline f32 atan2(f32 y, f32 x) { return ::atan2f(y, x); }
__device__ inline f64 atan2(f64 y, f64 x) { return ::atan2(y, x); }

//@ pow
__device__ inline f32 pow(f32 x, f32 y) { return ::powf(x, y); }
__device__ inline f64 pow(f64 x, f64 y) { return ::pow(x, y); }

//@ radians
template <class T>
__device__ T radians(T degrees) { return degrees * T(0.017453292519943295); }

//@ degrees
template <class T>
__device__ T degrees(T radians) { return radians * T(57.29577951308232); }

//@ fract: floor
template <class T>
__device__ T fract(T x) { return x - floor(x); }

//@ fract_of: trunc
// The part behind the point, with the sign of the whole.
template <class T>
__device__ T fract_of(T x) { return x - trunc(x); }

//@ frexp_fract
__device__ inline f32 frexp_fract(f32 x) {
    i32 exponent;
    return ::frexpf(x, &exponent);
}
__device__ inline f64 frexp_fract(f64 x) {
    i32 exponent;
    return ::frexp(x, &exponent);
}

//@ frexp_exp
__device__ inline i32 frexp_exp(f32 x) {
    i32 exponent;
    ::frexpf(x, &exponent);
    return exponent;
}
__device__ inline i32 frexp_exp(f64 x) {
    i32 exponent;
    ::frexp(x, &exponent);
    return exponent;
}

//@ ldexp
__device__ inline f32 ldexp(f32 x, i32 exponent) { return ::ldexpf(x, exponent); }
__device__ inline f64 ldexp(f64 x, i32 exponent) { return ::ldexp(x, exponent); }

//@ sign
template <class T>
__device__ constexpr T sign(T x) { return T(T(0) < x) - T(x < T(0)); }

//@ fma
__device__ inline f32 fma(f32 a, f32 b, f32 c) { return ::fmaf(a, b, c); }
__device__ inline f64 fma(f64 a, f64 b, f64 c) { return ::fma(a, b, c); }

//@ mix
template <class T>
__device__ T mix(T a, T b, T t) { return a * (T(1) - t) + b * t; }

//@ step
template <class T>
__device__ T step(T edge, T x) { return edge <= x ? T(1) : T(0); }

//@ smoothstep: clamp
template <class T>
__device__ T smoothstep(T low, T high, T x) {
    const T t = clamp((x - low) / (high - low), T(0), T(1));
    return t * t * (T(3) - T(2) * t);
}

//@ f16_bits
// Rounded to the nearest 16-bit float, ties to even.
__device__ inline u32 f16_bits(f32 x) {
    u16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}

//@ f16_value
__device__ inline f32 f16_value(u32 bits) {
    f32 x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(u16(bits)));
    return x;
}

//@ quantize_to_f16: f16_bits f16_value
__device__ inline f32 quantize_to_f16(f32 x) { return f16_value(f16_bits(x)); }
