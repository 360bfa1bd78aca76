// A small transformer's decode step, one token at a time. decode.ptx is what NVRTC 12.9 makes of this file with
// --gpu-architecture=compute_75, its .version lowered to 7.8 so that older drivers take it.
//
// Every kernel finds the position in `at`, so that the same launches serve the host's loop, a replayed graph and a loop
// on the device. Sums are taken in one fixed order: the same step gives the same bits wherever it is launched from.

typedef unsigned int u32;
typedef signed char i8;

// Sums a value over the block, which has a power of two threads; every thread gets the sum.
__device__ float block_sum(float value, float *scratch)
{
    scratch[threadIdx.x] = value;
    __syncthreads();
    for (u32 half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            scratch[threadIdx.x] += scratch[threadIdx.x + half];
        }
        __syncthreads();
    }
    const float sum = scratch[0];
    __syncthreads();
    return sum;
}

// Where the step is: from the host, as a slot of the graph.
extern "C" __global__ void place(u32 *at, u32 position)
{
    *at = position;
}

// The token at this position, as its row of the table.
extern "C" __global__ void embed(float *x, const float *table, const u32 *tokens, const u32 *at, u32 width)
{
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < width) {
        x[i] = table[tokens[*at] * width + i];
    }
}

// x over its root mean square, times a weight. One block.
extern "C" __global__ void rms_norm(float *out, const float *x, const float *weight, u32 width)
{
    __shared__ float scratch[256];
    float squares = 0;
    for (u32 i = threadIdx.x; i < width; i += blockDim.x) {
        squares = fmaf(x[i], x[i], squares);
    }
    const float scale = 1.0f / sqrtf(block_sum(squares, scratch) / width + 1e-5f);
    for (u32 i = threadIdx.x; i < width; i += blockDim.x) {
        out[i] = x[i] * scale * weight[i];
    }
}

// out = W x, or out + W x where `add` is set; W in 8-bit integers with a scale for each row. A block a row.
extern "C" __global__ void matvec(float *out, const i8 *w, const float *scales, const float *x, u32 width, u32 add)
{
    __shared__ float scratch[128];
    const i8 *row = w + (size_t)blockIdx.x * width;
    float sum = 0;
    for (u32 i = threadIdx.x; i < width; i += blockDim.x) {
        sum = fmaf((float)row[i], x[i], sum);
    }
    sum = block_sum(sum, scratch) * scales[blockIdx.x];
    if (threadIdx.x == 0) {
        out[blockIdx.x] = add ? out[blockIdx.x] + sum : sum;
    }
}

// The head's new key and value join the cache, then its query attends to all that is there. A block a head, a thread an
// element of it (64), q, k and v one after the other in `qkv`. At most 1024 positions.
extern "C" __global__ void attend(float *out, float *keys, float *values, const float *qkv, const u32 *at, u32 heads, u32 capacity)
{
    __shared__ float scratch[64];
    __shared__ float scores[1024];
    const u32 head = blockIdx.x, i = threadIdx.x, size = blockDim.x, width = heads * size;
    const u32 position = *at;
    if (position >= capacity || capacity > 1024) {
        return;
    }
    float *k = keys + (size_t)head * capacity * size, *v = values + (size_t)head * capacity * size;
    const float query = qkv[head * size + i];
    // Rotary positions: each pair of elements turns by an angle of its own.
    const u32 pair = i / 2;
    const float angle = position * exp2f(-13.287712f * (2 * pair) / size);
    const float key = qkv[width + head * size + i], key_mate = qkv[width + head * size + (i ^ 1)];
    const float query_mate = qkv[head * size + (i ^ 1)];
    const float sign = i & 1 ? 1.0f : -1.0f, c = cosf(angle), s = sinf(angle);
    const float turned = query * c + sign * query_mate * s;
    k[position * size + i] = key * c + sign * key_mate * s;
    v[position * size + i] = qkv[2 * width + head * size + i];
    __syncthreads();
    float most = -1e30f;
    for (u32 p = 0; p <= position; p++) {
        const float score = block_sum(turned * k[p * size + i], scratch) * 0.125f;
        if (i == 0) {
            scores[p] = score;
        }
        most = fmaxf(most, score);
    }
    __syncthreads();
    float total = 0, sum = 0;
    for (u32 p = 0; p <= position; p++) {
        const float weight = expf(scores[p] - most);
        total += weight;
        sum = fmaf(weight, v[p * size + i], sum);
    }
    out[head * size + i] = sum / total;
}

// silu(gate) * up, the two one after the other in `both`.
extern "C" __global__ void gate(float *out, const float *both, u32 width)
{
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < width) {
        const float g = both[i];
        out[i] = g / (1.0f + expf(-g)) * both[width + i];
    }
}

// The likeliest token becomes the next one; of equals the first. One block of 256.
extern "C" __global__ void pick(u32 *tokens, const float *logits, const u32 *at, u32 vocabulary, u32 capacity)
{
    __shared__ float best[256];
    __shared__ u32 which[256];
    float most = -1e30f;
    u32 winner = 0;
    for (u32 i = threadIdx.x; i < vocabulary; i += blockDim.x) {
        if (logits[i] > most) {
            most = logits[i];
            winner = i;
        }
    }
    best[threadIdx.x] = most;
    which[threadIdx.x] = winner;
    __syncthreads();
    for (u32 half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            const u32 other = threadIdx.x + half;
            const bool better = best[other] > best[threadIdx.x]
                || (best[other] == best[threadIdx.x] && which[other] < which[threadIdx.x]);
            if (better) {
                best[threadIdx.x] = best[other];
                which[threadIdx.x] = which[other];
            }
        }
        __syncthreads();
    }
    if (threadIdx.x == 0 && *at + 1 < capacity) {
        tokens[*at + 1] = which[0];
    }
}

// The token that was picked, where results are posted from.
extern "C" __global__ void picked(u32 *out, const u32 *tokens, const u32 *at, u32 capacity)
{
    *out = *at + 1 < capacity ? tokens[*at + 1] : 0;
}

// On to the next position; `go` is 0 when the last token wanted has been picked.
extern "C" __global__ void advance(u32 *at, u32 *go, u32 last)
{
    *at += 1;
    *go = *at < last;
}
