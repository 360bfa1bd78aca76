// decode_attention: attention of one new token a sequence over the keys and values of all before it.
// output[b][h] = sum over p < lengths[b] of softmax(scale * queries[b][h] . keys[b][g][p])_p * values[b][g][p], where
// the heads h of one group share the keys and values g; an empty sequence gives zeros. Queries and output are
// batch x groups * heads x width in single precision, keys and values batch x groups x capacity x width in half.
//
// Schedule
//   CUFORGE_BLOCK_X  lanes of a warp, 32
//   CUFORGE_BLOCK_Y  warps of a block, which share out the positions
//   CUFORGE_ITEMS    positions of a warp whose keys are in flight together
// Grid
//   x = heads of a group, y = groups, z = batch
// Dynamic shared memory
//   capacity + CUFORGE_BLOCK_Y * (width + 2) floats: the scores, which become weights, then for each warp an output, a
//   largest score and a sum
//
// Each warp keeps the largest score and the sum of its own positions; what they hold is brought to the largest of all
// only when they are added up, so positions are read once and barriers are few.

struct DecodeAttentionUniform {
    unsigned groups;
    unsigned heads;
    unsigned capacity;
    unsigned width;
    float scale;
};

// Enumerators, because NVRTC gives every constexpr variable of this scope a word of global memory.
enum : unsigned {
    WARP = 32,
    WARPS = CUFORGE_BLOCK_Y,
    THREADS = WARP * WARPS,
};

static_assert(CUFORGE_BLOCK_X == WARP, "a row of the block is a warp");

extern __shared__ float shared[];

__device__ __forceinline__ float from_half(unsigned short bits)
{
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

__device__ __forceinline__ float least()
{
    return __uint_as_float(0xff800000u);
}

extern "C" __global__ void __launch_bounds__(THREADS)
decode_attention(const float* __restrict__ queries,
                 const unsigned short* __restrict__ keys,
                 const unsigned short* __restrict__ values,
                 const unsigned* __restrict__ lengths,
                 float* __restrict__ output,
                 const DecodeAttentionUniform uniform)
{
    const unsigned lane = threadIdx.x;
    const unsigned warp = threadIdx.y;
    const unsigned width = uniform.width;
    const unsigned long long group = (unsigned long long)blockIdx.z * uniform.groups + blockIdx.y;
    const unsigned long long head = group * uniform.heads + blockIdx.x;
    // A length beyond what the buffers hold must not lead out of them.
    const unsigned length = min(lengths[blockIdx.z], uniform.capacity);
    const float* __restrict__ query = queries + head * width;
    const unsigned short* __restrict__ key = keys + group * uniform.capacity * width;
    const unsigned short* __restrict__ value = values + group * uniform.capacity * width;

    float* scores = shared;
    float* outputs = shared + uniform.capacity;
    float* peaks = outputs + WARPS * width;
    float* sums = peaks + WARPS;

    float peak = least();
    for (unsigned first = warp; first < length; first += WARPS * CUFORGE_ITEMS) {
        float dots[CUFORGE_ITEMS] = {};
        for (unsigned column = lane; column < width; column += WARP) {
            const float factor = query[column];
#pragma unroll
            for (unsigned item = 0; item < CUFORGE_ITEMS; ++item) {
                const unsigned position = first + item * WARPS;
                if (position < length) {
                    dots[item] += factor * from_half(key[(unsigned long long)position * width + column]);
                }
            }
        }
#pragma unroll
        for (unsigned item = 0; item < CUFORGE_ITEMS; ++item) {
            const unsigned position = first + item * WARPS;
#pragma unroll
            for (unsigned offset = WARP / 2; offset > 0; offset /= 2) {
                dots[item] += __shfl_xor_sync(0xffffffffu, dots[item], offset);
            }
            if (position < length) {
                const float score = dots[item] * uniform.scale;
                peak = fmaxf(peak, score);
                if (lane == 0) {
                    scores[position] = score;
                }
            }
        }
    }
    // The lanes read back what the first of them wrote.
    __syncwarp();

    float sum = 0.0f;
    for (unsigned position = warp + lane * WARPS; position < length; position += WARP * WARPS) {
        const float weight = expf(scores[position] - peak);
        scores[position] = weight;
        sum += weight;
    }
#pragma unroll
    for (unsigned offset = WARP / 2; offset > 0; offset /= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    }
    // Each lane needs the weights of all.
    __syncwarp();
    for (unsigned column = lane; column < width; column += WARP) {
        float total = 0.0f;
        for (unsigned position = warp; position < length; position += WARPS) {
            total += scores[position] * from_half(value[(unsigned long long)position * width + column]);
        }
        outputs[warp * width + column] = total;
    }
    if (lane == 0) {
        peaks[warp] = peak;
        sums[warp] = sum;
    }
    __syncthreads();

    float highest = least();
#pragma unroll
    for (unsigned other = 0; other < WARPS; ++other) {
        highest = fmaxf(highest, peaks[other]);
    }
    float whole = 0.0f;
#pragma unroll
    for (unsigned other = 0; other < WARPS; ++other) {
        // The largest score of a warp without a position is -infinity: its factor is 0.
        whole += sums[other] * expf(peaks[other] - highest);
    }
    for (unsigned column = warp * WARP + lane; column < width; column += THREADS) {
        float total = 0.0f;
#pragma unroll
        for (unsigned other = 0; other < WARPS; ++other) {
            total += outputs[other * width + column] * expf(peaks[other] - highest);
        }
        // Without any position both are no numbers.
        output[head * width + column] = length > 0 ? total / whole : 0.0f;
    }
}
