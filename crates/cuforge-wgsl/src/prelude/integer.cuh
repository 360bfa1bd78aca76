// Operators of WGSL where C++ means another thing, or nothing.

//@ add
template <class T>
__device__ constexpr T add(T a, T b) { return a + b; }
// Sums wrap around.
__device__ constexpr i32 add(i32 a, i32 b) { return i32(u32(a) + u32(b)); }
__device__ constexpr i64 add(i64 a, i64 b) { return i64(u64(a) + u64(b)); }

//@ sub
template <class T>
__device__ constexpr T sub(T a, T b) { return a - b; }
__device__ constexpr i32 sub(i32 a, i32 b) { return i32(u32(a) - u32(b)); }
__device__ constexpr i64 sub(i64 a, i64 b) { return i64(u64(a) - u64(b)); }

//@ mul
template <class T>
__device__ constexpr T mul(T a, T b) { return a * b; }
__device__ constexpr i32 mul(i32 a, i32 b) { return i32(u32(a) * u32(b)); }
__device__ constexpr i64 mul(i64 a, i64 b) { return i64(u64(a) * u64(b)); }

//@ neg
template <class T>
__device__ constexpr T neg(T a) { return -a; }
__device__ constexpr i32 neg(i32 a) { return i32(0u - u32(a)); }
__device__ constexpr i64 neg(i64 a) { return i64(0ull - u64(a)); }

//@ div
template <class T>
__device__ constexpr T div(T a, T b) { return a / b; }
// x / 0 is x, and so is the least integer / -1.
__device__ constexpr u32 div(u32 a, u32 b) { return a / (b == 0 ? 1 : b); }
__device__ constexpr u64 div(u64 a, u64 b) { return a / (b == 0 ? 1 : b); }
__device__ constexpr i32 div(i32 a, i32 b) { return a / (b == 0 || (b == -1 && u32(a) == 1u << 31) ? 1 : b); }
__device__ constexpr i64 div(i64 a, i64 b) { return a / (b == 0 || (b == -1 && u64(a) == 1ull << 63) ? 1 : b); }
__device__ constexpr u16 div(u16 a, u16 b) { return u16(a / (b == 0 ? 1 : b)); }
__device__ constexpr i16 div(i16 a, i16 b) { return i16(a / (b == 0 ? 1 : b)); }

//@ rem
template <class T>
__device__ T rem(T a, T b) { return a - b * T(::truncf(f32(a / b))); }
__device__ inline f32 rem(f32 a, f32 b) { return ::fmodf(a, b); }
__device__ inline f64 rem(f64 a, f64 b) { return ::fmod(a, b); }
// x % 0 is 0, and so is the least integer % -1.
__device__ constexpr u32 rem(u32 a, u32 b) { return a % (b == 0 ? 1 : b); }
__device__ constexpr u64 rem(u64 a, u64 b) { return a % (b == 0 ? 1 : b); }
__device__ constexpr i32 rem(i32 a, i32 b) { return a % (b == 0 || b == -1 ? 1 : b); }
__device__ constexpr i64 rem(i64 a, i64 b) { return a % (b == 0 || b == -1 ? 1 : b); }
__device__ constexpr u16 rem(u16 a, u16 b) { return u16(a % (b == 0 ? 1 : b)); }
__device__ constexpr i16 rem(i16 a, i16 b) { return i16(a % (b == 0 ? 1 : b)); }

//@ shl
// Of the amount only the bits count that number the places of the value.
__device__ constexpr u32 shl(u32 a, u32 by) { return a << (by & 31); }
__device__ constexpr i32 shl(i32 a, u32 by) { return i32(u32(a) << (by & 31)); }
__device__ constexpr u64 shl(u64 a, u32 by) { return a << (by & 63); }
__device__ constexpr i64 shl(i64 a, u32 by) { return i64(u64(a) << (by & 63)); }
__device__ constexpr u16 shl(u16 a, u32 by) { return u16(a << (by & 15)); }
__device__ constexpr i16 shl(i16 a, u32 by) { return i16(u16(a) << (by & 15)); }

//@ shr
__device__ constexpr u32 shr(u32 a, u32 by) { return a >> (by & 31); }
__device__ constexpr i32 shr(i32 a, u32 by) { return a >> (by & 31); }
__device__ constexpr u64 shr(u64 a, u32 by) { return a >> (by & 63); }
__device__ constexpr i64 shr(i64 a, u32 by) { return a >> (by & 63); }
__device__ constexpr u16 shr(u16 a, u32 by) { return u16(a >> (by & 15)); }
__device__ constexpr i16 shr(i16 a, u32 by) { return i16(a >> (by & 15)); }

//@ bit_and
template <class T>
__device__ constexpr T bit_and(T a, T b) { return T(a & b); }

//@ bit_or
template <class T>
__device__ constexpr T bit_or(T a, T b) { return T(a | b); }

//@ bit_xor
template <class T>
__device__ constexpr T bit_xor(T a, T b) { return T(a ^ b); }

//@ bitwise_not
template <class T>
__device__ constexpr T bitwise_not(T a) { return T(~a); }

//@ logical_not
__device__ constexpr bool logical_not(bool a) { return !a; }

//@ equal
template <class T>
__device__ bool equal(T a, T b) { return a == b; }

//@ not_equal
template <class T>
__device__ bool not_equal(T a, T b) { return a != b; }

//@ less
template <class T>
__device__ bool less(T a, T b) { return a < b; }

//@ less_equal
template <class T>
__device__ bool less_equal(T a, T b) { return a <= b; }

//@ greater
template <class T>
__device__ bool greater(T a, T b) { return a > b; }

//@ greater_equal
template <class T>
__device__ bool greater_equal(T a, T b) { return a >= b; }

//@ select
