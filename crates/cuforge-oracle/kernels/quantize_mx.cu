// quantize_mx: cuts a row of single precision into blocks of 32 elements with one scale, a power of two, and 32 signed
// bytes each, as the MX formats do: element i of a block becomes rint(x_i / 2^e), at most 127 in magnitude, with
// e = floor(log2(largest magnitude)) - 6. The scale is stored as e + 127. A block whose elements are all below 2^-119
// becomes zeros with scale 0, so that no subnormal number ever counts. The whole arithmetic is exact but for the one
// rounding. Infinities and NaN are no legal input.
//
// Schedule
//   CUFORGE_BLOCK_X  threads of a block, whole warps; a warp takes a block of elements
//   CUFORGE_ITEMS    blocks of elements of a warp
// Grid
//   x = ceil(blocks / (CUFORGE_BLOCK_X / 32 * CUFORGE_ITEMS))

struct QuantizeMxUniform {
    unsigned blocks;
};

// Enumerators, because NVRTC gives every constexpr variable of this scope a word of global memory.
enum : unsigned {
    WARP = 32,
    WARPS = CUFORGE_BLOCK_X / WARP,
    // The largest element takes seven bits.
    SHIFT = 6,
    BIAS = 127,
};

static_assert(CUFORGE_BLOCK_X % WARP == 0, "shuffles name all lanes");

extern "C" __global__ void __launch_bounds__(CUFORGE_BLOCK_X)
quantize_mx(const float* __restrict__ input,
            signed char* __restrict__ bytes,
            unsigned char* __restrict__ scales,
            const QuantizeMxUniform uniform)
{
    const unsigned lane = threadIdx.x % WARP;
    const unsigned first = blockIdx.x * WARPS * CUFORGE_ITEMS + threadIdx.x / WARP;
#pragma unroll
    for (unsigned item = 0; item < CUFORGE_ITEMS; ++item) {
        const unsigned block = first + item * WARPS;
        // The same for the whole warp.
        if (block >= uniform.blocks) {
            return;
        }
        const unsigned long long i = (unsigned long long)block * WARP + lane;
        const float value = input[i];
        // The bits of magnitudes are ordered like the magnitudes.
        unsigned largest = __float_as_uint(value) & 0x7fffffffu;
#pragma unroll
        for (unsigned offset = WARP / 2; offset > 0; offset /= 2) {
            largest = max(largest, __shfl_xor_sync(0xffffffffu, largest, offset));
        }
        const unsigned exponent = largest >> 23;
        const bool zero = exponent <= SHIFT + 1;
        const float inverse = __uint_as_float((2 * BIAS + SHIFT - exponent) << 23);
        const float scaled = zero ? 0.0f : value * inverse;
        bytes[i] = (signed char)min(__float2int_rn(fabsf(scaled)), 127) * (scaled < 0.0f ? -1 : 1);
        if (lane == 0) {
            scales[block] = zero ? (unsigned char)0 : (unsigned char)(exponent - SHIFT);
        }
    }
}
