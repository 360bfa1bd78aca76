// Calls with structs, recursion, calls through pointers, printf, assert, tables, switch.
__constant__ float table[8] = {1, 2, 3, 4, 5, 6, 7, 8.5f};
__device__ unsigned char bytes[5] = {1, 2, 3};
__device__ int grid[2][3] = {{1, 2, 3}, {4, 5, 6}};
__device__ float* pointer = (float*)&grid[1][1];
__managed__ int managed;

struct Mixed {
    int a;
    float b;
    double c;
    char d[5];
};

__device__ __noinline__ float weigh(float a, Mixed m, int k) { return a * m.b + m.a + m.d[k]; }

__device__ __noinline__ Mixed make(int i) {
    Mixed m;
    m.a = i;
    m.b = i * 2;
    m.c = i;
    m.d[0] = i;
    m.d[4] = 3;
    return m;
}

typedef float (*Step)(float);
__device__ __noinline__ float up(float a) { return a + 1; }
__device__ __noinline__ float square(float a) { return a * a; }
__device__ Step steps[2] = {up, square};

__device__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

extern "C" __global__ void calls(float* y, Mixed m, int k) {
    y[0] = weigh(y[1], m, k);
    Mixed made = make(k);
    y[2] = made.a + made.b + (float)made.c + made.d[k & 3];
    y[3] = steps[k & 1](y[4]);
    y[5] = fibonacci(k);
    printf("k %d y %f %s\n", k, y[0], "text");
    if (k < 0) __trap();
    y[6] = table[k & 7] + bytes[k % 5] + grid[k & 1][k % 3] + *pointer + managed;
}

extern "C" __global__ void choose(int* y, int k) {
    switch (k) {
        case 0: y[0] = 3; break;
        case 1: y[1] = 5; break;
        case 2: y[2] = y[7] * 3; break;
        case 3: y[0] = y[1]; break;
        case 4: y[5] ^= 9; break;
        case 5: y[1] = __clz(y[0]); break;
        case 6: y[3] = __brev(y[2]); break;
        case 7: y[9] = __popc(y[1]); break;
        default: y[0] = -1;
    }
}

extern "C" __global__ void scratch(int* y, int k) {
    int local[32];
    for (int i = 0; i < 32; i++) local[i] = y[i] * i;
    for (int i = 0; i < 32; i++) local[(i * k) & 31] += local[i];
    y[threadIdx.x] = local[k & 31];
}
