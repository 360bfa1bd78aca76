// Built-in functions of bits.

//@ count_trailing_zeros
__device__ inline u32 count_trailing_zeros(u32 x) { return x == 0 ? 32 : __ffs(i32(x)) - 1; }
__device__ inline i32 count_trailing_zeros(i32 x) { return x == 0 ? 32 : __ffs(x) - 1; }
__device__ inline u64 count_trailing_zeros(u64 x) { return x == 0 ? 64 : __ffsll(i64(x)) - 1; }
__device__ inline i64 count_trailing_zeros(i64 x) { return x == 0 ? 64 : __ffsll(x) - 1; }

//@ count_leading_zeros
__device__ inline u32 count_leading_zeros(u32 x) { return __clz(i32(x)); }
__device__ inline i32 count_leading_zeros(i32 x) { return __clz(x); }
__device__ inline u64 count_leading_zeros(u64 x) { return __clzll(i64(x)); }
__device__ inline i64 count_leading_zeros(i64 x) { return __clzll(x); }

//@ count_one_bits
__device__ inline u32 count_one_bits(u32 x) { return __popc(x); }
__device__ inline i32 count_one_bits(i32 x) { return __popc(u32(x)); }
__device__ inline u64 count_one_bits(u64 x) { return __popcll(x); }
__device__ inline i64 count_one_bits(i64 x) { return __popcll(u64(x)); }

//@ reverse_bits
__device__ inline u32 reverse_bits(u32 x) { return __brev(x); }
__device__ inline i32 reverse_bits(i32 x) { return i32(__brev(u32(x))); }
__device__ inline u64 reverse_bits(u64 x) { return __brevll(x); }
__device__ inline i64 reverse_bits(i64 x) { return i64(__brevll(u64(x))); }

//@ extract_bits
// Offset and count are cut to what the word has; no bits are 0.
__device__ constexpr u32 extract_bits(u32 x, u32 offset, u32 count) {
    const u32 from = offset < 32 ? offset : 32;
    const u32 bits = count < 32 - from ? count : 32 - from;
    return bits == 0 ? 0 : x << (32 - from - bits) >> (32 - bits);
}
// The highest bit taken is the sign.
__device__ constexpr i32 extract_bits(i32 x, u32 offset, u32 count) {
    const u32 from = offset < 32 ? offset : 32;
    const u32 bits = count < 32 - from ? count : 32 - from;
    return bits == 0 ? 0 : i32(u32(x) << (32 - from - bits)) >> (32 - bits);
}

//@ insert_bits
__device__ constexpr u32 insert_bits(u32 into, u32 bits, u32 offset, u32 count) {
    const u32 from = offset < 32 ? offset : 32;
    const u32 taken = count < 32 - from ? count : 32 - from;
    if (taken == 0) {
        return into;
    }
    const u32 mask = 0xffffffffu >> (32 - taken) << from;
    return (into & ~mask) | ((bits << from) & mask);
}
__device__ constexpr i32 insert_bits(i32 into, i32 bits, u32 offset, u32 count) {
    return i32(insert_bits(u32(into), u32(bits), offset, count));
}

//@ first_trailing_bit
// Of no bits it is -1.
__device__ inline u32 first_trailing_bit(u32 x) { return u32(__ffs(i32(x)) - 1); }
__device__ inline i32 first_trailing_bit(i32 x) { return __ffs(x) - 1; }
__device__ inline u64 first_trailing_bit(u64 x) { return u64(i64(__ffsll(i64(x)) - 1)); }
__device__ inline i64 first_trailing_bit(i64 x) { return __ffsll(x) - 1; }

//@ first_leading_bit
// Of signed integers it is the first bit that is unlike the sign.
__device__ inline u32 first_leading_bit(u32 x) { return 31u - u32(__clz(i32(x))); }
__device__ inline i32 first_leading_bit(i32 x) { return 31 - __clz(x < 0 ? ~x : x); }
__device__ inline u64 first_leading_bit(u64 x) { return 63ull - u64(__clzll(i64(x))); }
__device__ inline i64 first_leading_bit(i64 x) { return 63 - __clzll(x < 0 ? ~x : x); }
