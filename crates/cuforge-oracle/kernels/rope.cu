// rope: rotary position embedding of queries or keys in bfloat16, in place. The two halves of a head are coordinates of
// width / 2 points; point i of token t turns by the angle whose cosine and sine stand at row positions[t], column i of
// two tables in single precision. Row-major: x is tokens x heads x width, the tables are places x width / 2. A position
// beyond the tables leaves the token as it is.
//
// Schedule
//   CUFORGE_BLOCK_X  threads along the points of a head
//   CUFORGE_BLOCK_Y  heads of a block
//   CUFORGE_ITEMS    points of a thread
// Grid
//   x = ceil(width / 2 / (CUFORGE_BLOCK_X * CUFORGE_ITEMS)), y = ceil(heads / CUFORGE_BLOCK_Y), z = tokens

struct RopeUniform {
    unsigned heads;
    unsigned points;
    unsigned places;
};

__device__ __forceinline__ float from_bfloat(unsigned short bits)
{
    return __uint_as_float((unsigned)bits << 16);
}

// To nearest, ties to even: half a unit is added, a little less before an even neighbour. Numbers only.
__device__ __forceinline__ unsigned short to_bfloat(float value)
{
    const unsigned bits = __float_as_uint(value);
    return (unsigned short)(bits + 0x7fffu + (bits >> 16 & 1u) >> 16);
}

extern "C" __global__ void __launch_bounds__(CUFORGE_BLOCK_X * CUFORGE_BLOCK_Y)
rope(unsigned short* __restrict__ x,
     const float* __restrict__ cosines,
     const float* __restrict__ sines,
     const unsigned* __restrict__ positions,
     const RopeUniform uniform)
{
    const unsigned head = blockIdx.y * CUFORGE_BLOCK_Y + threadIdx.y;
    const unsigned position = positions[blockIdx.z];
    if (head >= uniform.heads || position >= uniform.places) {
        return;
    }
    const unsigned long long row = (unsigned long long)blockIdx.z * uniform.heads + head;
    unsigned short* __restrict__ first = x + row * 2 * uniform.points;
    unsigned short* __restrict__ second = first + uniform.points;
    const unsigned long long angles = (unsigned long long)position * uniform.points;

#pragma unroll
    for (unsigned item = 0; item < CUFORGE_ITEMS; ++item) {
        const unsigned point = (blockIdx.x * CUFORGE_ITEMS + item) * CUFORGE_BLOCK_X + threadIdx.x;
        if (point < uniform.points) {
            const float cosine = cosines[angles + point];
            const float sine = sines[angles + point];
            const float a = from_bfloat(first[point]);
            const float b = from_bfloat(second[point]);
            first[point] = to_bfloat(a * cosine - b * sine);
            second[point] = to_bfloat(b * cosine + a * sine);
        }
    }
}
