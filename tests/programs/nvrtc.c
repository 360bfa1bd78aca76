/* A program with a compiler and a driver of its own, as CUDA samples are: CUDA C is compiled by the NVRTC whose path is
   given, loaded and launched by the driver that is linked with -lcuda. The compiler's own cache is on, so that it opens
   the driver too. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef void *Handle;
int cuInit(unsigned flags);
int cuDeviceGet(int *device, int ordinal);
int cuCtxCreate_v2(Handle *context, unsigned flags, int device);
int cuMemAlloc_v2(uint64_t *address, size_t bytes);
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes);
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes);
int cuModuleLoadDataEx(Handle *module, const void *image, unsigned count, int *options, void **values);
int cuModuleGetFunction(Handle *function, Handle module, const char *name);
int cuLaunchKernel(Handle function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, Handle stream, void **parameters, void **extra);
int cuCtxSynchronize(void);
int cuMemFree_v2(uint64_t address);

static const char *SOURCE =
    "extern \"C\" __device__ void __assertfail(const char *, const char *, unsigned, const char *, size_t);\n"
    "template <class T> __device__ T twice(T value) { return value + value; }\n"
    "extern \"C\" __global__ void fold(float *out, const float *in, int n, int most) {\n"
    "    __shared__ float part[128];\n"
    "    int at = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (at > most) __assertfail(\"at <= most\", \"fold.cu\", 7, \"fold\", 1);\n"
    "    part[threadIdx.x] = at < n ? twice(in[at]) : 0.0f;\n"
    "    __syncthreads();\n"
    "    for (int half = blockDim.x / 2; half > 0; half /= 2) {\n"
    "        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];\n"
    "        __syncthreads();\n"
    "    }\n"
    "    if (threadIdx.x == 0) atomicAdd(out, part[0]);\n"
    "}\n";

static void expect_at(int got, int expected, const char *what, int line) {
    if (got == expected) return;
    printf("line %d: %s answered %d, expected %d\n", line, what, got, expected);
    exit(1);
}
#define EXPECT(code, call) expect_at(call, code, #call, __LINE__)
#define OK(call) EXPECT(0, call)

static void *library;
static void *function(const char *name) {
    void *found = dlsym(library, name);
    if (!found) {
        printf("the compiler has no %s\n", name);
        exit(1);
    }
    return found;
}

int main(int count, char **arguments) {
    enum { N = 1000 };
    if (count != 2) return 2;
    library = dlopen(arguments[1], RTLD_NOW);
    if (!library) {
        printf("%s\n", dlerror());
        return 1;
    }
    int (*create)(Handle *, const char *, const char *, int, const char **, const char **) = function("nvrtcCreateProgram");
    int (*compile)(Handle, int, const char **) = function("nvrtcCompileProgram");
    int (*log_bytes)(Handle, size_t *) = function("nvrtcGetProgramLogSize");
    int (*log_text)(Handle, char *) = function("nvrtcGetProgramLog");
    int (*ptx_bytes)(Handle, size_t *) = function("nvrtcGetPTXSize");
    int (*ptx_text)(Handle, char *) = function("nvrtcGetPTX");
    Handle program, context, module, fold;
    const char *options[] = {"--gpu-architecture=compute_80", "--std=c++17"};
    size_t bytes = 0;
    OK(create(&program, SOURCE, "fold.cu", 0, NULL, NULL));
    if (compile(program, 2, options)) {
        OK(log_bytes(program, &bytes));
        char *log = malloc(bytes);
        OK(log_text(program, log));
        puts(log);
        return 1;
    }
    OK(ptx_bytes(program, &bytes));
    char *ptx = malloc(bytes), log[1024] = "";
    OK(ptx_text(program, ptx));

    int device, jit[] = {5, 6};
    OK(cuInit(0));
    OK(cuDeviceGet(&device, 0));
    OK(cuCtxCreate_v2(&context, 0, device));
    void *values[] = {log, (void *)(uintptr_t)sizeof log};
    OK(cuModuleLoadDataEx(&module, ptx, 2, jit, values));
    OK(cuModuleGetFunction(&fold, module, "fold"));
    uint64_t in, out;
    float host[N], sum = 0;
    for (int i = 0; i < N; i++) host[i] = (float)i;
    OK(cuMemAlloc_v2(&in, sizeof host));
    OK(cuMemAlloc_v2(&out, sizeof sum));
    OK(cuMemcpyHtoD_v2(in, host, sizeof host));
    OK(cuMemcpyHtoD_v2(out, &sum, sizeof sum));
    int n = N, most = 1023;
    void *parameters[] = {&out, &in, &n, &most};
    OK(cuLaunchKernel(fold, 8, 1, 1, 128, 1, 1, 0, NULL, parameters, NULL));
    OK(cuMemcpyDtoH_v2(&sum, out, sizeof sum));
    if (sum != 999000.0f) {
        printf("the sum is %f\n", sum);
        return 1;
    }
    /* An assertion that fails ends the context. */
    most = 1000;
    OK(cuLaunchKernel(fold, 8, 1, 1, 128, 1, 1, 0, NULL, parameters, NULL));
    EXPECT(710, cuCtxSynchronize());
    EXPECT(710, cuMemFree_v2(in));
    puts("compiled, loaded and launched");
    return 0;
}
