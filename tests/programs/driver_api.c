/* A program of the CUDA driver API as its manual has it: contexts, memory, a module, launches, streams, events, host
   functions, a capture and its replays, a loop on the device, wrong handles and addresses, and a fault that stays. It
   declares what it calls itself, so that it needs no toolkit, and is linked with -lcuda. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef void (*CUhostFn)(void *);

CUresult cuInit(unsigned flags);
CUresult cuDriverGetVersion(int *version);
CUresult cuGetErrorName(CUresult error, const char **name);
CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags, int *status);
CUresult cuDeviceGet(CUdevice *device, int ordinal);
CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device);
CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device);
CUresult cuCtxDestroy_v2(CUcontext context);
CUresult cuCtxSynchronize(void);
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes);
CUresult cuMemFree_v2(CUdeviceptr address);
CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags);
CUresult cuMemFreeHost(void *pointer);
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes);
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream);
CUresult cuMemsetD32Async(CUdeviceptr address, unsigned value, size_t count, CUstream stream);
CUresult cuModuleLoadData(CUmodule *module, const void *image);
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name);
CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, CUstream stream, void **parameters, void **extra);
CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data);
CUresult cuStreamCreate(CUstream *stream, unsigned flags);
CUresult cuStreamDestroy_v2(CUstream stream);
CUresult cuStreamSynchronize(CUstream stream);
CUresult cuStreamQuery(CUstream stream);
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags);
CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, uint32_t value, unsigned flags);
CUresult cuStreamBeginCapture_v2(CUstream stream, int mode);
CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *after, const void *edges,
                                     size_t count, int mode);
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph);
CUresult cuEventCreate(CUevent *event, unsigned flags);
CUresult cuEventDestroy_v2(CUevent event);
CUresult cuEventRecord(CUevent event, CUstream stream);
CUresult cuEventSynchronize(CUevent event);
CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end);
CUresult cuGraphCreate(CUgraph *graph, unsigned flags);
CUresult cuGraphDestroy(CUgraph graph);
CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count);
CUresult cuGraphConditionalHandleCreate(uint64_t *handle, CUgraph graph, CUcontext context, unsigned value, unsigned flags);
CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, const void *edges, size_t count,
                           void *parameters);
CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, uint64_t flags);
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream);
CUresult cuGraphExecDestroy(CUgraphExec exec);

static const char *PTX =
    ".version 8.3\n.target sm_70\n.address_size 64\n"
    ".visible .global .align 4 .u32 turns;\n"
    ".extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);\n"
    ".visible .entry add(.param .u64 out, .param .u32 more, .param .u32 n)\n"
    "{\n.reg .pred %p;\n.reg .b32 %r<6>;\n.reg .b64 %d<3>;\n"
    "ld.param.u64 %d0, [out];\nld.param.u32 %r0, [more];\nld.param.u32 %r1, [n];\n"
    "mov.u32 %r2, %ctaid.x;\nmov.u32 %r3, %ntid.x;\nmov.u32 %r4, %tid.x;\nmad.lo.u32 %r5, %r2, %r3, %r4;\n"
    "setp.ge.u32 %p, %r5, %r1;\n@%p ret;\n"
    "mul.wide.u32 %d1, %r5, 4;\nadd.s64 %d1, %d0, %d1;\n"
    "ld.global.u32 %r2, [%d1];\nadd.u32 %r2, %r2, %r0;\nst.global.u32 [%d1], %r2;\nret;\n}\n"
    ".visible .entry turn(.param .u64 handle, .param .u32 most)\n"
    "{\n.reg .pred %p;\n.reg .b32 %r<3>;\n.reg .b64 %d<1>;\n"
    "ld.param.u64 %d0, [handle];\nld.param.u32 %r2, [most];\n"
    "ld.global.u32 %r0, [turns];\nadd.u32 %r0, %r0, 1;\nst.global.u32 [turns], %r0;\n"
    "setp.lt.u32 %p, %r0, %r2;\nselp.b32 %r1, 1, 0, %p;\n"
    "{\n.param .b64 p0;\nst.param.b64 [p0], %d0;\n.param .b32 p1;\nst.param.b32 [p1], %r1;\n"
    "call.uni cudaGraphSetConditional, (p0, p1);\n}\nret;\n}\n";

static void expect_at(CUresult got, CUresult expected, const char *what, int line) {
    if (got == expected) return;
    const char *name = NULL;
    cuGetErrorName(got, &name);
    printf("line %d: %s answered %d (%s), expected %d\n", line, what, got, name ? name : "?", expected);
    exit(1);
}
#define EXPECT(code, call) expect_at(call, code, #call, __LINE__)
#define OK(call) EXPECT(0, call)
#define TRUE(what) do { if (!(what)) { printf("line %d: not so: %s\n", __LINE__, #what); exit(1); } } while (0)

static void count_up(void *data) { ++*(int *)data; }

/* CUgraphNodeParams of a conditional node. */
struct conditional {
    int type, reserved0[3];
    uint64_t handle;
    int kind;
    unsigned size;
    CUgraph *bodies;
    CUcontext context;
    uint64_t rest[25];
    uint64_t reserved;
};

int main(void) {
    enum { N = 1000 };
    int version = 0, value = 0, called = 0;
    CUdevice device;
    CUcontext context;
    EXPECT(3, cuMemFree_v2(1));
    OK(cuInit(0));
    EXPECT(1, cuInit(7));
    OK(cuDriverGetVersion(&version));
    TRUE(version >= 12000);
    OK(cuDeviceGet(&device, 0));
    EXPECT(101, cuDeviceGet(&device, 99));
    OK(cuDeviceGetAttribute(&value, 10, device));
    TRUE(value == 32);
    EXPECT(1, cuDeviceGetAttribute(NULL, 10, device));
    CUdeviceptr data = 0, turns;
    EXPECT(201, cuMemAlloc_v2(&data, 4));
    OK(cuCtxCreate_v2(&context, 0, device));

    /* Looked up by name, and what is not there is not found. */
    void *found = NULL;
    int status = -1;
    OK(cuGetProcAddress_v2("cuMemAlloc", &found, 12000, 0, &status));
    TRUE(found && status == 0);
    cuGetProcAddress_v2("cuNoSuchFunction", &found, 12000, 0, &status);
    TRUE(!found && status == 1);

    /* A module and launches in both forms of arguments. */
    CUmodule module;
    CUfunction add, turn;
    EXPECT(209, cuModuleLoadData(&module, "\177ELF\2\1\1 is for another device"));
    EXPECT(200, cuModuleLoadData(&module, "neither an image nor text"));
    EXPECT(218, cuModuleLoadData(&module, ".version 8.0\n.target sm_70\n.address_size 64\n.entry k() { frobnicate; }"));
    OK(cuModuleLoadData(&module, PTX));
    OK(cuModuleGetFunction(&add, module, "add"));
    OK(cuModuleGetFunction(&turn, module, "turn"));
    EXPECT(500, cuModuleGetFunction(&turn, module, "no_such"));
    OK(cuModuleGetFunction(&turn, module, "turn"));
    size_t bytes;
    OK(cuModuleGetGlobal_v2(&turns, &bytes, module, "turns"));
    TRUE(bytes == 4);
    CUstream stream, other;
    OK(cuStreamCreate(&stream, 1));
    OK(cuStreamCreate(&other, 1));
    OK(cuMemAlloc_v2(&data, N * 4));
    OK(cuMemsetD32Async(data, 5, N, stream));
    unsigned more = 2, n = N;
    void *parameters[] = {&data, &more, &n};
    OK(cuLaunchKernel(add, (N + 127) / 128, 1, 1, 128, 1, 1, 0, stream, parameters, NULL));
    struct { CUdeviceptr out; unsigned more, n; } packed = {data, 30, N};
    size_t size = sizeof packed;
    void *extra[] = {(void *)1, &packed, (void *)2, &size, NULL};
    OK(cuLaunchKernel(add, (N + 127) / 128, 1, 1, 128, 1, 1, 0, stream, NULL, extra));
    OK(cuLaunchHostFunc(stream, count_up, &called));
    unsigned *out;
    OK(cuMemHostAlloc((void **)&out, N * 4, 0));
    OK(cuMemcpyDtoHAsync_v2(out, data, N * 4, stream));
    OK(cuStreamSynchronize(stream));
    TRUE(called == 1);
    for (int i = 0; i < N; i++) TRUE(out[i] == 37);

    /* A stream that waits for a word that the host writes, and another that waits for it. */
    CUevent before, after;
    OK(cuEventCreate(&before, 0));
    OK(cuEventCreate(&after, 0));
    volatile unsigned *flag = out;
    *flag = 0;
    OK(cuEventRecord(before, stream));
    OK(cuStreamWaitValue32_v2(stream, (CUdeviceptr)(uintptr_t)out, 1, 0));
    OK(cuEventRecord(after, stream));
    OK(cuStreamWaitEvent(other, after, 0));
    EXPECT(600, cuStreamQuery(stream));
    EXPECT(600, cuStreamQuery(other));
    float milliseconds = -1;
    EXPECT(600, cuEventElapsedTime(&milliseconds, before, after));
    *flag = 1;
    OK(cuStreamSynchronize(other));
    OK(cuEventSynchronize(after));
    OK(cuEventElapsedTime(&milliseconds, before, after));
    TRUE(milliseconds >= 0);

    /* A capture, its replays, and one that is spoilt. */
    CUgraph graph = NULL;
    CUgraphExec exec;
    size_t nodes = 0;
    OK(cuStreamBeginCapture_v2(stream, 1));
    OK(cuMemsetD32Async(data, 0, N, stream));
    OK(cuLaunchKernel(add, (N + 127) / 128, 1, 1, 128, 1, 1, 0, stream, parameters, NULL));
    OK(cuMemcpyDtoHAsync_v2(out, data, N * 4, stream));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphGetNodes(graph, NULL, &nodes));
    TRUE(nodes == 3);
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int round = 0; round < 3; round++) {
        memset(out, 0xff, N * 4);
        OK(cuGraphLaunch(exec, stream));
        OK(cuStreamSynchronize(stream));
        TRUE(out[0] == 2 && out[N - 1] == 2);
    }
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuStreamBeginCapture_v2(stream, 1));
    EXPECT(900, cuStreamSynchronize(stream));
    EXPECT(901, cuMemsetD32Async(data, 0, N, stream));
    EXPECT(901, cuStreamEndCapture(stream, &graph));
    TRUE(!graph);
    OK(cuStreamSynchronize(stream));

    /* A loop on the device. */
    uint64_t handle;
    CUgraphNode node;
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphConditionalHandleCreate(&handle, graph, context, 1, 1));
    struct conditional loop = {.type = 13, .handle = handle, .kind = 1, .size = 1, .context = context};
    TRUE(sizeof loop == 256);
    OK(cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &loop));
    OK(cuStreamBeginCaptureToGraph(stream, loop.bodies[0], NULL, NULL, 0, 1));
    unsigned most = 10;
    void *turned[] = {&handle, &most};
    OK(cuLaunchKernel(turn, 1, 1, 1, 1, 1, 1, 0, stream, turned, NULL));
    OK(cuLaunchKernel(add, (N + 127) / 128, 1, 1, 128, 1, 1, 0, stream, parameters, NULL));
    OK(cuStreamEndCapture(stream, &loop.bodies[0]));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuMemsetD32Async(turns, 0, 1, stream));
    OK(cuMemsetD32Async(data, 0, N, stream));
    OK(cuGraphLaunch(exec, stream));
    OK(cuMemcpyDtoHAsync_v2(out, data, N * 4, stream));
    OK(cuStreamSynchronize(stream));
    TRUE(out[0] == 20 && out[N - 1] == 20);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));

    /* Wrong handles and addresses are codes and never crashes. */
    unsigned host = 0;
    EXPECT(400, cuStreamSynchronize((CUstream)(uintptr_t)before));
    EXPECT(400, cuEventRecord((CUevent)(uintptr_t)0x1234, stream));
    EXPECT(1, cuMemcpyHtoD_v2((CUdeviceptr)(uintptr_t)&host, out, 4));
    EXPECT(1, cuMemcpyHtoD_v2(data + N * 4 - 2, out, 4));
    EXPECT(1, cuMemFree_v2(data + 4));
    EXPECT(1, cuMemFree_v2((CUdeviceptr)(uintptr_t)&host));
    EXPECT(1, cuLaunchKernel(add, 0, 1, 1, 128, 1, 1, 0, stream, parameters, NULL));
    EXPECT(1, cuLaunchKernel(add, 1, 1, 1, 2048, 1, 1, 0, stream, parameters, NULL));
    OK(cuEventDestroy_v2(before));
    EXPECT(400, cuEventDestroy_v2(before));

    /* A fault of a kernel stays, also for a new user of the device. */
    CUdeviceptr gone = data;
    OK(cuMemFree_v2(data));
    OK(cuMemHostAlloc((void **)&flag, 64, 0));
    void *wild[] = {&gone, &more, &n};
    OK(cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, stream, wild, NULL));
    EXPECT(700, cuStreamSynchronize(stream));
    EXPECT(700, cuMemAlloc_v2(&data, 4));
    EXPECT(700, cuCtxSynchronize());
    EXPECT(700, cuDevicePrimaryCtxRetain(&context, device));
    puts("all as the manual says");
    return 0;
}
