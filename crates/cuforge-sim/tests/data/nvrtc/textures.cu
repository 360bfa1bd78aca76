// Textures, surfaces, templates, names that are mangled, parameters taken by address, loops with several exits.
extern "C" __global__ void sampled(cudaTextureObject_t texture, cudaSurfaceObject_t surface, float* y) {
    int i = threadIdx.x;
    y[i] = tex1Dfetch<float>(texture, i) + tex2D<float>(texture, i * 0.1f, 0.5f);
    y[i] += tex3D<float4>(texture, 1.f, 2.f, i).y + tex2DLayered<float>(texture, 1.f, i, 2);
    float read;
    surf2Dread(&read, surface, i * 4, i);
    surf2Dwrite(read + y[i], surface, i * 4, i, cudaBoundaryModeTrap);
}

template <class T> __global__ void increment(T* p) { p[threadIdx.x] += 1; }
template __global__ void increment<int>(int*);
template __global__ void increment<double>(double*);

namespace deep {
__device__ double total;
__global__ void add(double v) { total += v; }
}

extern "C" __global__ void __launch_bounds__(128, 4) constant(const __grid_constant__ int4 quad, int* y) {
    *(int4*)y = quad;
    y[4] = *(&quad.x + y[0]);
}

extern "C" __global__ void exits(int* y, int n) {
    int i = threadIdx.x, sum = 0;
    while (n > 0) {
        if (n & 1) {
            sum += y[i];
            if (sum > 100) break;
        } else {
            for (int j = 0; j < n; j++) {
                if (y[j] == 3) continue;
                sum ^= y[j];
            }
        }
        n = (n * 7) >> 3;
    }
    do { sum--; } while (sum > y[0]);
    y[i] = sum;
    __syncthreads();
    if (i < 5) return;
    y[i + 1] = sum;
}
