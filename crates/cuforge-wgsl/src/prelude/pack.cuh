// Numbers packed into words.

//@ dot4_i8_packed
__device__ inline i32 dot4_i8_packed(u32 a, u32 b) { return __dp4a(i32(a), i32(b), 0); }

//@ dot4_u8_packed
__device__ inline u32 dot4_u8_packed(u32 a, u32 b) { return __dp4a(a, b, 0u); }

//@ byte_of
// Byte `at` of a word, with its sign.
__device__ constexpr i32 byte_of(u32 word, u32 at) { return i32(word << (24 - 8 * at)) >> 24; }

//@ short_of
__device__ constexpr i32 short_of(u32 word, u32 at) { return i32(word << (16 - 16 * at)) >> 16; }

//@ pack_norm
// Rounded to a multiple of 1 / scale between low and 1; a tie goes up.
__device__ inline u32 pack_norm(f32 x, f32 low, f32 scale) {
    return u32(i32(::floorf(0.5f + scale * ::fminf(1.0f, ::fmaxf(low, x)))));
}

//@ pack4x8snorm: pack_norm
__device__ inline u32 pack4x8snorm(vec4<f32> v) {
    return (pack_norm(v.x, -1.0f, 127.0f) & 255) | (pack_norm(v.y, -1.0f, 127.0f) & 255) << 8
        | (pack_norm(v.z, -1.0f, 127.0f) & 255) << 16 | pack_norm(v.w, -1.0f, 127.0f) << 24;
}

//@ pack4x8unorm: pack_norm
__device__ inline u32 pack4x8unorm(vec4<f32> v) {
    return (pack_norm(v.x, 0.0f, 255.0f) & 255) | (pack_norm(v.y, 0.0f, 255.0f) & 255) << 8
        | (pack_norm(v.z, 0.0f, 255.0f) & 255) << 16 | pack_norm(v.w, 0.0f, 255.0f) << 24;
}

//@ pack2x16snorm: pack_norm
__device__ inline u32 pack2x16snorm(vec2<f32> v) {
    return (pack_norm(v.x, -1.0f, 32767.0f) & 65535) | pack_norm(v.y, -1.0f, 32767.0f) << 16;
}

//@ pack2x16unorm: pack_norm
__device__ inline u32 pack2x16unorm(vec2<f32> v) {
    return (pack_norm(v.x, 0.0f, 65535.0f) & 65535) | pack_norm(v.y, 0.0f, 65535.0f) << 16;
}

//@ pack2x16float: f16_bits
__device__ inline u32 pack2x16float(vec2<f32> v) { return f16_bits(v.x) | f16_bits(v.y) << 16; }

//@ pack4x_u8
__device__ constexpr u32 pack4x_u8(vec4<u32> v) {
    return (v.x & 255) | (v.y & 255) << 8 | (v.z & 255) << 16 | v.w << 24;
}

//@ pack4x_i8
__device__ constexpr u32 pack4x_i8(vec4<i32> v) {
    return (u32(v.x) & 255) | (u32(v.y) & 255) << 8 | (u32(v.z) & 255) << 16 | u32(v.w) << 24;
}

//@ pack4x_u8_clamp: min
__device__ inline u32 pack4x_u8_clamp(vec4<u32> v) {
    return min(v.x, 255u) | min(v.y, 255u) << 8 | min(v.z, 255u) << 16 | min(v.w, 255u) << 24;
}

//@ pack4x_i8_clamp: pack4x_i8 clamp
__device__ inline u32 pack4x_i8_clamp(vec4<i32> v) {
    return pack4x_i8(vec4<i32>(
        clamp(v.x, -128, 127), clamp(v.y, -128, 127), clamp(v.z, -128, 127), clamp(v.w, -128, 127)));
}

//@ unpack4x_u8
__device__ constexpr vec4<u32> unpack4x_u8(u32 word) {
    return vec4<u32>(word & 255, (word >> 8) & 255, (word >> 16) & 255, word >> 24);
}

//@ unpack4x_i8: byte_of
__device__ constexpr vec4<i32> unpack4x_i8(u32 word) {
    return vec4<i32>(byte_of(word, 0), byte_of(word, 1), byte_of(word, 2), byte_of(word, 3));
}

//@ unpack4x8unorm
__device__ constexpr vec4<f32> unpack4x8unorm(u32 word) {
    return vec4<f32>(
        f32(word & 255) / 255.0f, f32((word >> 8) & 255) / 255.0f, f32((word >> 16) & 255) / 255.0f,
        f32(word >> 24) / 255.0f);
}

//@ unpack4x8snorm: byte_of
__device__ inline vec4<f32> unpack4x8snorm(u32 word) {
    return vec4<f32>(
        ::fmaxf(f32(byte_of(word, 0)) / 127.0f, -1.0f), ::fmaxf(f32(byte_of(word, 1)) / 127.0f, -1.0f),
        ::fmaxf(f32(byte_of(word, 2)) / 127.0f, -1.0f), ::fmaxf(f32(byte_of(word, 3)) / 127.0f, -1.0f));
}

//@ unpack2x16unorm
__device__ constexpr vec2<f32> unpack2x16unorm(u32 word) {
    return vec2<f32>(f32(word & 65535) / 65535.0f, f32(word >> 16) / 65535.0f);
}

//@ unpack2x16snorm: short_of
__device__ inline vec2<f32> unpack2x16snorm(u32 word) {
    return vec2<f32>(
        ::fmaxf(f32(short_of(word, 0)) / 32767.0f, -1.0f), ::fmaxf(f32(short_of(word, 1)) / 32767.0f, -1.0f));
}

//@ unpack2x16float: f16_value
__device__ inline vec2<f32> unpack2x16float(u32 word) {
    return vec2<f32>(f16_value(word), f16_value(word >> 16));
}
