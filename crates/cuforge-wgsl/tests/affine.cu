// `affine` of affine.wgsl in CUDA C.

typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef short i16;
typedef unsigned short u16;
typedef float f32;
typedef double f64;

template <class T>
struct vec3 {
    T x, y, z;
    vec3() = default;
    __device__ constexpr vec3(T x, T y, T z) : x(x), y(y), z(z) {}
    __device__ constexpr explicit vec3(T all) : x(all), y(all), z(all) {}
    // i is at most 2.
    __device__ T& operator[](u32 i) { return (&x)[i]; }
    __device__ constexpr T operator[](u32 i) const { return i == 0 ? x : i == 1 ? y : z; }
};

namespace wgsl {
// Elements of `stride` bytes from byte `offset` on.
__device__ constexpr u32 length(u64 bytes, u64 offset, u64 stride) {
    return bytes < offset ? 0u
        : (bytes - offset) / stride < 0xffffffffu ? u32((bytes - offset) / stride) : 0xffffffffu;
}
}

struct Affine {
    u32 n;
    f32 scale;
    f32 bias;
};
static_assert(sizeof(Affine) == 12, "Affine has the size that WGSL gives it");

static constexpr bool NEGATE = false;

extern "C" __global__ void __launch_bounds__(64)
affine(const f32* __restrict__ input,
    f32* __restrict__ output,
    const __grid_constant__ Affine params,
    const u64 input_bytes,
    const u64 output_bytes)
{
    const u32 input_length = wgsl::length(input_bytes, 0, 4);
    const u32 output_length = wgsl::length(output_bytes, 0, 4);
    const vec3<u32> id = vec3<u32>(blockIdx.x * 64u + threadIdx.x, blockIdx.y, blockIdx.z);
#line 17 "affine.wgsl"
    const u32 i = id.x;
    if (i < params.n) {
        const f32 y = (i < input_length ? input[i] : 0.0f) * params.scale + params.bias;
        if (i < output_length) { output[i] = NEGATE ? -y : y; }
    }
}
