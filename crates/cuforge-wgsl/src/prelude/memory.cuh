// Places in memory: indices, lengths, zeroes, and bits taken for another type.

//@ at_most
// A negative index is beyond every length.
__device__ constexpr u32 at_most(u32 index, u32 last) { return index < last ? index : last; }
__device__ constexpr u32 at_most(i32 index, u32 last) { return at_most(u32(index), last); }
__device__ constexpr u32 at_most(u64 index, u32 last) { return index < last ? u32(index) : last; }
__device__ constexpr u32 at_most(i64 index, u32 last) { return at_most(u64(index), last); }

//@ length
// Elements of `stride` bytes from byte `offset` on.
__device__ constexpr u32 length(u64 bytes, u64 offset, u64 stride) {
    return bytes < offset ? 0u
        : (bytes - offset) / stride < 0xffffffffu ? u32((bytes - offset) / stride) : 0xffffffffu;
}

//@ zero
// All threads of the block zero `memory` together; a barrier must follow.
template <class Word, class T>
__device__ void zero_as(T& memory, u32 thread, u32 threads) {
    for (u32 word = thread; word < sizeof(T) / sizeof(Word); word += threads) {
        ((Word*)&memory)[word] = Word(0);
    }
}
template <class T>
__device__ void zero(T& memory, u32 thread, u32 threads) {
    __builtin_assume(thread < threads);
    if constexpr (alignof(T) % 4 == 0) {
        zero_as<u32>(memory, thread, threads);
    } else if constexpr (alignof(T) % 2 == 0) {
        zero_as<u16>(memory, thread, threads);
    } else {
        zero_as<unsigned char>(memory, thread, threads);
    }
}

//@ bitcast
template <class To, class From>
__device__ To bitcast(From from) {
    static_assert(sizeof(To) == sizeof(From), "a bitcast keeps its bits");
    To to;
    memcpy(&to, &from, sizeof(To));
    return to;
}

//@ to
// A float too large becomes the largest integer that is a float of its type; what NaN becomes nobody says.
template <class To>
struct Conversion {
    template <class From>
    static __device__ To of(From from) { return To(from); }
};
template <>
struct Conversion<u32> {
    template <class From>
    static __device__ u32 of(From from) { return u32(from); }
    static __device__ u32 of(f32 from) { return __float2uint_rz(::fminf(from, 4294967040.0f)); }
    static __device__ u32 of(f64 from) { return __double2uint_rz(from); }
};
template <>
struct Conversion<i32> {
    template <class From>
    static __device__ i32 of(From from) { return i32(from); }
    static __device__ i32 of(f32 from) { return __float2int_rz(::fminf(from, 2147483520.0f)); }
    static __device__ i32 of(f64 from) { return __double2int_rz(from); }
};
template <>
struct Conversion<u64> {
    template <class From>
    static __device__ u64 of(From from) { return u64(from); }
    static __device__ u64 of(f32 from) { return __float2ull_rz(::fminf(from, 18446742974197923840.0f)); }
    static __device__ u64 of(f64 from) { return __double2ull_rz(::fmin(from, 18446744073709549568.0)); }
};
template <>
struct Conversion<i64> {
    template <class From>
    static __device__ i64 of(From from) { return i64(from); }
    static __device__ i64 of(f32 from) { return __float2ll_rz(::fminf(from, 9223371487098961920.0f)); }
    static __device__ i64 of(f64 from) { return __double2ll_rz(::fmin(from, 9223372036854774784.0)); }
};
template <>
struct Conversion<u16> {
    template <class From>
    static __device__ u16 of(From from) { return u16(from); }
    static __device__ u16 of(f32 from) { return u16(__float2uint_rz(::fminf(from, 65535.0f))); }
    static __device__ u16 of(f64 from) { return u16(__double2uint_rz(::fmin(from, 65535.0))); }
};
template <>
struct Conversion<i16> {
    template <class From>
    static __device__ i16 of(From from) { return i16(from); }
    static __device__ i16 of(f32 from) { return i16(__float2int_rz(::fmaxf(-32768.0f, ::fminf(from, 32767.0f)))); }
    static __device__ i16 of(f64 from) { return i16(__double2int_rz(::fmax(-32768.0, ::fmin(from, 32767.0)))); }
};
template <class To, class From>
__device__ To to(From from) { return Conversion<To>::of(from); }

//@ to_f16: to
template <>
struct Conversion<f16> {
    template <class From>
    static __device__ f16 of(From from) { return f16(from); }
    static __device__ f16 of(u64 from) { return f16(__ull2half_rn(from)); }
    static __device__ f16 of(i64 from) { return f16(__ll2half_rn(from)); }
    static __device__ f16 of(bool from) { return f16(from ? 1.0f : 0.0f); }
};
// Of integers infinity becomes the largest that is a 16-bit float.
template <class To>
__device__ To to(f16 from) {
    const f32 x = f32(from);
    const bool integer = To(0.5f) == To(0.0f);
    return Conversion<To>::of(integer ? ::fmaxf(-65504.0f, ::fminf(x, 65504.0f)) : x);
}
