/* What a driver was seen to do on an H200 (driver 580.159.04), row by row: a row is run by its name, each in a process of
   its own because some end the device. It declares what it calls itself and is linked with -lcuda. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int CUresult;
typedef uint64_t CUdeviceptr;
typedef void *Handle;

CUresult cuInit(unsigned flags);
CUresult cuGetErrorName(CUresult error, const char **name);
CUresult cuDeviceGet(int *device, int ordinal);
CUresult cuDevicePrimaryCtxRetain(Handle *context, int device);
CUresult cuDevicePrimaryCtxReset_v2(int device);
CUresult cuCtxCreate_v2(Handle *context, unsigned flags, int device);
CUresult cuCtxSetCurrent(Handle context);
CUresult cuCtxGetCurrent(Handle *context);
CUresult cuCtxSynchronize(void);
CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes);
CUresult cuMemFree_v2(CUdeviceptr address);
CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags);
CUresult cuMemFreeHost(void *pointer);
CUresult cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned flags);
CUresult cuMemHostUnregister(void *pointer);
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes);
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, Handle stream);
CUresult cuMemsetD32Async(CUdeviceptr address, unsigned value, size_t count, Handle stream);
CUresult cuMemGetAllocationGranularity(size_t *bytes, const void *properties, int option);
CUresult cuMemAddressReserve(CUdeviceptr *address, size_t bytes, size_t align, CUdeviceptr hint, uint64_t flags);
CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes);
CUresult cuMemCreate(uint64_t *handle, size_t bytes, const void *properties, uint64_t flags);
CUresult cuMemRelease(uint64_t handle);
CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, uint64_t handle, uint64_t flags);
CUresult cuMemUnmap(CUdeviceptr address, size_t bytes);
CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const void *access, size_t count);
CUresult cuModuleLoadData(Handle *module, const void *image);
CUresult cuModuleUnload(Handle module);
CUresult cuModuleGetFunction(Handle *function, Handle module, const char *name);
CUresult cuFuncLoad(Handle function);
CUresult cuFuncGetParamInfo(Handle function, size_t index, size_t *offset, size_t *bytes);
CUresult cuLaunchKernel(Handle function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, Handle stream, void **parameters, void **extra);
CUresult cuStreamCreate(Handle *stream, unsigned flags);
CUresult cuStreamDestroy_v2(Handle stream);
CUresult cuStreamSynchronize(Handle stream);
CUresult cuStreamQuery(Handle stream);
CUresult cuStreamWriteValue32_v2(Handle stream, CUdeviceptr address, uint32_t value, unsigned flags);
CUresult cuStreamBeginCapture_v2(Handle stream, int mode);
CUresult cuStreamEndCapture(Handle stream, Handle *graph);
CUresult cuStreamGetCaptureInfo_v3(Handle stream, int *status, uint64_t *id, Handle *graph, Handle const **dependencies,
                                   const void **edges, size_t *count);
CUresult cuEventCreate(Handle *event, unsigned flags);
CUresult cuEventDestroy_v2(Handle event);
CUresult cuGraphDestroy(Handle graph);
CUresult cuGraphGetNodes(Handle graph, Handle *nodes, size_t *count);
CUresult cuGraphInstantiateWithFlags(Handle *exec, Handle graph, uint64_t flags);
CUresult cuGraphLaunch(Handle exec, Handle stream);
CUresult cuGraphExecDestroy(Handle exec);
struct kernel_node {
    Handle function;
    unsigned gx, gy, gz, bx, by, bz, shared;
    void **parameters, **extra;
    Handle kernel, context;
};
CUresult cuGraphKernelNodeGetParams_v2(Handle node, struct kernel_node *parameters);
CUresult cuGraphExecKernelNodeSetParams_v2(Handle exec, Handle node, const struct kernel_node *parameters);

static const char *PTX =
    ".version 8.0\n.target sm_70\n.address_size 64\n"
    /* Adds to a word. */
    ".visible .entry add(.param .u64 out, .param .u32 more)\n"
    "{\n.reg .b32 %r<2>;\n.reg .b64 %d;\nld.param.u64 %d, [out];\nld.param.u32 %r0, [more];\n"
    "ld.global.u32 %r1, [%d];\nadd.u32 %r1, %r1, %r0;\nst.global.u32 [%d], %r1;\nret;\n}\n"
    /* Tells that it runs, waits until a word is not 0, and tells that it is done. */
    ".visible .entry wait(.param .u64 words)\n"
    "{\n.reg .pred %p;\n.reg .b32 %r;\n.reg .b64 %d;\nld.param.u64 %d, [words];\n"
    "st.volatile.global.u32 [%d+4], 1;\nAGAIN:\nnanosleep.u32 1000;\nld.volatile.global.u32 %r, [%d];\n"
    "setp.eq.u32 %p, %r, 0;\n@%p bra AGAIN;\nst.volatile.global.u32 [%d+8], 1;\nret;\n}\n"
    ".visible .entry mixed(.param .u8 a, .param .u64 b, .param .align 16 .b8 c[20], .param .u16 d)\n{\nret;\n}\n"
    /* Writes its number to each word. */
    ".visible .entry number(.param .u64 out)\n"
    "{\n.reg .b32 %r<4>;\n.reg .b64 %d<2>;\nld.param.u64 %d0, [out];\nmov.u32 %r0, %ctaid.x;\nmov.u32 %r1, %ntid.x;\n"
    "mov.u32 %r2, %tid.x;\nmad.lo.u32 %r3, %r0, %r1, %r2;\nmul.wide.u32 %d1, %r3, 4;\nadd.s64 %d1, %d0, %d1;\n"
    "st.global.u32 [%d1], %r3;\nret;\n}\n";

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

static int device;
static Handle context, module, add, waiting, mixed, number, stream, other;
static CUdeviceptr data;
static volatile unsigned *words;

static void start(void) {
    OK(cuInit(0));
    OK(cuDeviceGet(&device, 0));
    OK(cuDevicePrimaryCtxRetain(&context, device));
    OK(cuCtxSetCurrent(context));
    OK(cuModuleLoadData(&module, PTX));
    OK(cuModuleGetFunction(&add, module, "add"));
    OK(cuModuleGetFunction(&waiting, module, "wait"));
    OK(cuModuleGetFunction(&mixed, module, "mixed"));
    OK(cuModuleGetFunction(&number, module, "number"));
    OK(cuStreamCreate(&stream, 1));
    OK(cuStreamCreate(&other, 1));
    OK(cuMemAlloc_v2(&data, 4096));
    OK(cuMemHostAlloc((void **)&words, 64, 0));
    memset((void *)words, 0, 64);
    OK(cuMemsetD32Async(data, 0, 1024, stream));
    OK(cuStreamSynchronize(stream));
}

static void rest(long milliseconds) {
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static CUresult add_on(Handle on, unsigned more) {
    void *parameters[] = {&data, &more};
    return cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, on, parameters, NULL);
}

static unsigned sum(void) {
    unsigned value = 0;
    OK(cuMemcpyDtoH_v2(&value, data, 4));
    return value;
}

/* A kernel runs until words[0] is set. */
static void busy(void) {
    memset((void *)words, 0, 16);
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)words;
    void *parameters[] = {&at};
    OK(cuLaunchKernel(waiting, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
    while (!words[1]) rest(1);
}

static void done(void) {
    words[0] = 1;
    OK(cuStreamSynchronize(stream));
}

static void *later(void *unused) {
    rest(50);
    words[0] = 1;
    return unused;
}

/* A call that returns at once leaves the kernel running; one that waits returns when it has ended. */
#define AT_ONCE(call) do { OK(call); TRUE(!words[2]); } while (0)
#define WAITS(call) do { \
        busy(); \
        pthread_t thread; \
        TRUE(!pthread_create(&thread, NULL, later, NULL)); \
        OK(call); \
        TRUE(words[2]); \
        TRUE(!pthread_join(thread, NULL)); \
    } while (0)

static void *no_context(void *unused) {
    Handle now = (Handle)1;
    OK(cuCtxGetCurrent(&now));
    TRUE(!now);
    OK(add_on(stream, 1));
    OK(cuMemcpyDtoHAsync_v2((void *)(words + 4), data, 4, stream));
    OK(cuStreamSynchronize(stream));
    TRUE(words[4] == 1);
    return unused;
}

static void calls_without_a_current_context(void) {
    pthread_t thread;
    TRUE(!pthread_create(&thread, NULL, no_context, NULL));
    TRUE(!pthread_join(thread, NULL));
    Handle stranger;
    OK(cuCtxCreate_v2(&stranger, 0, device));
    OK(add_on(stream, 1));
    OK(cuMemcpyDtoHAsync_v2((void *)(words + 4), data, 4, stream));
    OK(cuStreamSynchronize(stream));
    TRUE(words[4] == 2);
}

static Handle capture_of_two(void) {
    Handle graph;
    OK(cuStreamBeginCapture_v2(stream, 1));
    OK(add_on(stream, 1));
    OK(add_on(stream, 10));
    OK(cuStreamEndCapture(stream, &graph));
    return graph;
}

static void an_exec_destroyed_in_flight(void) {
    Handle graph = capture_of_two(), exec;
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    busy();
    OK(cuGraphLaunch(exec, stream));
    AT_ONCE(cuGraphExecDestroy(exec));
    AT_ONCE(cuGraphDestroy(graph));
    done();
    TRUE(sum() == 11);
}

struct location { int type, id; };
struct properties { int type, handles; struct location location; void *meta; unsigned char flags[8]; };
struct access { struct location location; int flags; };

static void what_returns_at_once_while_a_kernel_runs(void) {
    struct properties properties = {.type = 1, .location = {1, 0}};
    struct access access = {{1, 0}, 3};
    size_t bytes = 2 << 20;
    CUdeviceptr at, more;
    uint64_t handle;
    void *host, *own = aligned_alloc(4096, 8192);
    Handle event, fresh, exec;
    busy();
    AT_ONCE(cuMemAddressReserve(&at, bytes, 0, 0, 0));
    AT_ONCE(cuMemCreate(&handle, bytes, &properties, 0));
    AT_ONCE(cuMemMap(at, bytes, 0, handle, 0));
    AT_ONCE(cuMemSetAccess(at, bytes, &access, 1));
    AT_ONCE(cuMemUnmap(at, bytes));
    AT_ONCE(cuMemRelease(handle));
    AT_ONCE(cuMemAddressFree(at, bytes));
    AT_ONCE(cuMemAlloc_v2(&more, 4096));
    AT_ONCE(cuMemHostAlloc(&host, 4096, 0));
    AT_ONCE(cuMemHostRegister_v2(own, 8192, 0));
    AT_ONCE(cuFuncLoad(add));
    AT_ONCE(cuStreamCreate(&fresh, 1));
    AT_ONCE(cuStreamDestroy_v2(fresh));
    AT_ONCE(cuEventCreate(&event, 2));
    AT_ONCE(cuEventDestroy_v2(event));
    Handle before = stream;
    stream = other;
    Handle graph = capture_of_two();
    stream = before;
    AT_ONCE(cuGraphInstantiateWithFlags(&exec, graph, 0));
    done();
}

static void what_waits_for_a_running_kernel(void) {
    CUdeviceptr more;
    void *host, *own = aligned_alloc(4096, 8192);
    Handle loaded;
    OK(cuMemAlloc_v2(&more, 4096));
    OK(cuMemHostAlloc(&host, 4096, 0));
    OK(cuMemHostRegister_v2(own, 8192, 0));
    WAITS(cuMemFree_v2(more));
    WAITS(cuMemFreeHost(host));
    WAITS(cuMemHostUnregister(own));
    WAITS(cuModuleLoadData(&loaded, PTX));
    WAITS(cuModuleUnload(loaded));
}

/* A call in a thread-local capture of this thread: its code, and whether the capture goes on. */
#define CAPTURED(code, goes_on, call) do { \
        Handle graph = NULL; \
        OK(cuStreamBeginCapture_v2(stream, 1)); \
        EXPECT(code, call); \
        EXPECT((goes_on) ? 0 : 901, add_on(stream, 1)); \
        EXPECT((goes_on) ? 0 : 901, cuStreamEndCapture(stream, &graph)); \
        TRUE(!graph == !(goes_on)); \
    } while (0)

static void calls_of_the_capturing_thread(void) {
    CUdeviceptr more;
    void *host;
    unsigned value = 0;
    Handle loaded;
    CAPTURED(900, 0, cuMemAlloc_v2(&more, 64));
    CAPTURED(900, 0, cuMemHostAlloc(&host, 64, 0));
    CAPTURED(900, 0, cuCtxSynchronize());
    CAPTURED(900, 0, cuStreamSynchronize(stream));
    CAPTURED(900, 0, cuStreamQuery(stream));
    CAPTURED(900, 0, cuStreamSynchronize(NULL));
    CAPTURED(0, 1, cuMemcpyHtoD_v2(data, &value, 4));
    CAPTURED(0, 1, cuModuleLoadData(&loaded, PTX));
    OK(cuStreamSynchronize(stream));
}

static CUresult (*elsewhere)(void);
static void *in_another_thread(void *answer) {
    OK(cuCtxSetCurrent(context));
    *(CUresult *)answer = elsewhere();
    return NULL;
}
static CUresult other_thread(CUresult (*call)(void)) {
    CUresult answer = -1;
    pthread_t thread;
    elsewhere = call;
    TRUE(!pthread_create(&thread, NULL, in_another_thread, &answer));
    TRUE(!pthread_join(thread, NULL));
    return answer;
}
static CUresult allocates(void) { CUdeviceptr more; return cuMemAlloc_v2(&more, 64); }
static CUresult allocates_host(void) { void *host; return cuMemHostAlloc(&host, 64, 0); }
static CUresult copies(void) { unsigned value = 0; return cuMemcpyHtoD_v2(data, &value, 4); }
static CUresult loads(void) { Handle loaded; return cuModuleLoadData(&loaded, PTX); }
static CUresult waits_for_legacy(void) { return cuStreamSynchronize(NULL); }
static CUresult waits_for_stream(void) { return cuStreamSynchronize(stream); }
static CUresult asks_stream(void) { return cuStreamQuery(stream); }

static void calls_of_another_thread(void) {
    CAPTURED(0, 1, other_thread(allocates));
    CAPTURED(0, 1, other_thread(allocates_host));
    CAPTURED(0, 1, other_thread(copies));
    CAPTURED(0, 1, other_thread(loads));
    CAPTURED(0, 1, other_thread(waits_for_legacy));
    CAPTURED(900, 0, other_thread(cuCtxSynchronize));
    CAPTURED(900, 0, other_thread(waits_for_stream));
    CAPTURED(900, 0, other_thread(asks_stream));
}

static void legacy_work_escapes_a_capture(void) {
    Handle graph;
    size_t nodes = 0;
    OK(cuStreamBeginCapture_v2(stream, 1));
    OK(add_on(stream, 1));
    OK(add_on(NULL, 100));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphGetNodes(graph, NULL, &nodes));
    TRUE(nodes == 1);
    TRUE(sum() == 100);
}

static void packed_arguments_in_a_graph(void) {
    struct { CUdeviceptr out; unsigned more; } packed = {data, 5};
    size_t bytes = 12, count = 0, nodes = 1;
    void *extra[] = {(void *)1, &packed, (void *)2, &bytes, NULL};
    Handle graph, node, exec;
    Handle const *last = NULL;
    int status;
    OK(cuStreamBeginCapture_v2(stream, 1));
    OK(add_on(stream, 1));
    OK(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, stream, NULL, extra));
    OK(cuStreamGetCaptureInfo_v3(stream, &status, NULL, NULL, &last, NULL, &count));
    TRUE(status == 1 && count == 1);
    node = last[0];
    OK(cuStreamEndCapture(stream, &graph));
    Handle all[2];
    nodes = 2;
    OK(cuGraphGetNodes(graph, all, &nodes));
    TRUE(nodes == 2 && all[1] == node);
    struct kernel_node seen;
    OK(cuGraphKernelNodeGetParams_v2(node, &seen));
    TRUE(seen.extra && !seen.parameters);
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
    packed.more = 50;
    seen.extra = extra;
    OK(cuGraphExecKernelNodeSetParams_v2(exec, node, &seen));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    TRUE(sum() == 1 + 5 + 1 + 50);
}

static void an_illegal_address_stays(void) {
    CUdeviceptr gone = 16;
    unsigned more = 1;
    void *parameters[] = {&gone, &more};
    OK(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
    EXPECT(700, cuStreamSynchronize(stream));
    EXPECT(700, cuMemAlloc_v2(&gone, 4));
    EXPECT(700, add_on(other, 1));
    EXPECT(700, cuCtxSynchronize());
    EXPECT(700, cuStreamQuery(other));
    OK(cuDevicePrimaryCtxReset_v2(device));
    EXPECT(700, cuDevicePrimaryCtxRetain(&context, device));
}

static void a_polling_host_sees_stores(void) {
    busy();
    TRUE(words[1] == 1 && words[2] == 0);
    words[0] = 1;
    while (!words[2]) rest(1);
    OK(cuStreamWriteValue32_v2(stream, (CUdeviceptr)(uintptr_t)(words + 5), 9, 0));
    while (words[5] != 9) rest(1);
    OK(cuStreamSynchronize(stream));
}

static void parameters_of_a_kernel(void) {
    size_t expected[4][2] = {{0, 1}, {8, 8}, {16, 20}, {36, 2}}, offset, bytes;
    for (size_t at = 0; at < 4; at++) {
        OK(cuFuncGetParamInfo(mixed, at, &offset, &bytes));
        TRUE(offset == expected[at][0] && bytes == expected[at][1]);
    }
    EXPECT(1, cuFuncGetParamInfo(mixed, 4, &offset, &bytes));
}

static void virtual_memory_in_chunks(void) {
    struct properties properties = {.type = 1, .location = {1, 0}};
    struct access access = {{1, 0}, 3};
    size_t granularity = 0;
    OK(cuMemGetAllocationGranularity(&granularity, &properties, 0));
    TRUE(granularity == 2 << 20);
    CUdeviceptr at;
    uint64_t handles[2];
    OK(cuMemAddressReserve(&at, (size_t)128 << 30, 0, 0, 0));
    for (int chunk = 0; chunk < 2; chunk++) {
        OK(cuMemCreate(&handles[chunk], granularity, &properties, 0));
        OK(cuMemMap(at + chunk * granularity, granularity, 0, handles[chunk], 0));
        OK(cuMemSetAccess(at + chunk * granularity, granularity, &access, 1));
    }
    CUdeviceptr middle = at + granularity - 2048;
    unsigned out[1024];
    void *parameters[] = {&middle};
    OK(cuLaunchKernel(number, 8, 1, 1, 128, 1, 1, 0, stream, parameters, NULL));
    OK(cuStreamSynchronize(stream));
    OK(cuMemcpyDtoH_v2(out, middle, sizeof out));
    for (unsigned i = 0; i < 1024; i++) TRUE(out[i] == i);
}

static CUresult version(const char *number) {
    char text[256];
    Handle loaded;
    snprintf(text, sizeof text, ".version %s\n.target sm_90\n.address_size 64\n.visible .entry k()\n{\nret;\n}\n", number);
    return cuModuleLoadData(&loaded, text);
}

static void versions_of_ptx(void) {
    OK(version("7.8"));
    OK(version("8.0"));
    OK(version("9.0"));
    EXPECT(218, version("6.0"));
    EXPECT(222, version("9.1"));
}

#define ROW(name) {#name, name}
static const struct { const char *name; void (*run)(void); } ROWS[] = {
    ROW(calls_without_a_current_context),
    ROW(an_exec_destroyed_in_flight),
    ROW(what_returns_at_once_while_a_kernel_runs),
    ROW(what_waits_for_a_running_kernel),
    ROW(calls_of_the_capturing_thread),
    ROW(calls_of_another_thread),
    ROW(legacy_work_escapes_a_capture),
    ROW(packed_arguments_in_a_graph),
    ROW(an_illegal_address_stays),
    ROW(a_polling_host_sees_stores),
    ROW(parameters_of_a_kernel),
    ROW(virtual_memory_in_chunks),
    ROW(versions_of_ptx),
};

int main(int count, char **arguments) {
    for (size_t row = 0; count == 2 && row < sizeof ROWS / sizeof *ROWS; row++) {
        if (strcmp(arguments[1], ROWS[row].name)) continue;
        start();
        ROWS[row].run();
        puts("this row holds");
        return 0;
    }
    puts("no such row");
    return 2;
}
