/* Graphs by the driver API: conditional nodes in each other, updates of executables and what they say, drawings, memory
   nodes and pools. A row is run by its name. It declares what it calls itself and is linked with -lcuda. */
#define _POSIX_C_SOURCE 200809L
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int CUresult;
typedef uint64_t CUdeviceptr;
typedef void *Handle;

CUresult cuInit(unsigned flags);
CUresult cuGetErrorName(CUresult error, const char **name);
CUresult cuDeviceGet(int *device, int ordinal);
CUresult cuCtxCreate_v2(Handle *context, unsigned flags, int device);
CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes);
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes);
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, Handle stream);
CUresult cuMemsetD32Async(CUdeviceptr address, unsigned value, size_t count, Handle stream);
CUresult cuModuleLoadData(Handle *module, const void *image);
CUresult cuModuleGetFunction(Handle *function, Handle module, const char *name);
CUresult cuLaunchKernel(Handle function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, Handle stream, void **parameters, void **extra);
CUresult cuStreamCreate(Handle *stream, unsigned flags);
CUresult cuStreamSynchronize(Handle stream);
CUresult cuStreamBeginCapture_v2(Handle stream, int mode);
CUresult cuStreamEndCapture(Handle stream, Handle *graph);
CUresult cuGraphCreate(Handle *graph, unsigned flags);
CUresult cuGraphDestroy(Handle graph);
CUresult cuGraphGetNodes(Handle graph, Handle *nodes, size_t *count);
CUresult cuGraphAddEmptyNode(Handle *node, Handle graph, const Handle *after, size_t count);
CUresult cuGraphConditionalHandleCreate(uint64_t *handle, Handle graph, Handle context, unsigned value, unsigned flags);
CUresult cuGraphAddNode_v2(Handle *node, Handle graph, const Handle *after, const void *edges, size_t count, void *parameters);
CUresult cuGraphInstantiateWithFlags(Handle *exec, Handle graph, uint64_t flags);
CUresult cuGraphLaunch(Handle exec, Handle stream);
CUresult cuGraphDebugDotPrint(Handle graph, const char *path, unsigned flags);
struct update { int result; Handle node, from; };
CUresult cuGraphExecUpdate_v2(Handle exec, Handle graph, struct update *result);
struct kernel_node {
    Handle function;
    unsigned gx, gy, gz, bx, by, bz, shared;
    void **parameters, **extra;
    Handle kernel, context;
};
CUresult cuGraphAddKernelNode_v2(Handle *node, Handle graph, const Handle *after, size_t count,
                                 const struct kernel_node *parameters);
CUresult cuMemAllocAsync(CUdeviceptr *address, size_t bytes, Handle stream);
CUresult cuMemFreeAsync(CUdeviceptr address, Handle stream);
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t bytes, Handle pool, Handle stream);
CUresult cuDeviceGetDefaultMemPool(Handle *pool, int device);
CUresult cuMemPoolCreate(Handle *pool, const void *properties);
CUresult cuMemPoolDestroy(Handle pool);
CUresult cuMemPoolGetAttribute(Handle pool, int attribute, void *value);
CUresult cuMemPoolSetAttribute(Handle pool, int attribute, void *value);
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, Handle function, int threads, size_t shared);
CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, Handle function, void *shared_of, size_t shared, int limit);
CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, Handle function, int blocks, int threads);

static const char *PTX =
    ".version 8.3\n.target sm_70\n.address_size 64\n"
    ".extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);\n"
    ".visible .entry add(.param .u64 out, .param .u32 more)\n"
    "{\n.reg .b32 %r<2>;\n.reg .b64 %d;\nld.param.u64 %d, [out];\nld.param.u32 %r0, [more];\n"
    "ld.global.u32 %r1, [%d];\nadd.u32 %r1, %r1, %r0;\nst.global.u32 [%d], %r1;\nret;\n}\n"
    /* The condition is the word. */
    ".visible .entry take(.param .u64 handle, .param .u64 word)\n"
    "{\n.reg .b32 %r;\n.reg .b64 %d<2>;\nld.param.u64 %d0, [handle];\nld.param.u64 %d1, [word];\nld.global.u32 %r, [%d1];\n"
    "{\n.param .b64 p0;\nst.param.b64 [p0], %d0;\n.param .b32 p1;\nst.param.b32 [p1], %r;\n"
    "call.uni cudaGraphSetConditional, (p0, p1);\n}\nret;\n}\n"
    /* The condition is whether the word, one more now, is below a limit; or with a limit of 0 whether it is even. */
    ".visible .entry turn(.param .u64 handle, .param .u64 word, .param .u32 most)\n"
    "{\n.reg .pred %p<2>;\n.reg .b32 %r<4>;\n.reg .b64 %d<2>;\nld.param.u64 %d0, [handle];\nld.param.u64 %d1, [word];\n"
    "ld.param.u32 %r2, [most];\nld.global.u32 %r0, [%d1];\nsetp.eq.u32 %p1, %r2, 0;\n@%p1 bra EVEN;\n"
    "add.u32 %r0, %r0, 1;\nst.global.u32 [%d1], %r0;\nsetp.lt.u32 %p0, %r0, %r2;\nselp.b32 %r1, 1, 0, %p0;\nbra.uni SET;\n"
    "EVEN:\nand.b32 %r1, %r0, 1;\nxor.b32 %r1, %r1, 1;\nSET:\n"
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

static int device;
static Handle context, stream, add, take, turn;
/* Word 0 is the sum, word 1 decides. */
static CUdeviceptr data;

static void start(void) {
    Handle module;
    OK(cuInit(0));
    OK(cuDeviceGet(&device, 0));
    OK(cuCtxCreate_v2(&context, 0, device));
    OK(cuModuleLoadData(&module, PTX));
    OK(cuModuleGetFunction(&add, module, "add"));
    OK(cuModuleGetFunction(&take, module, "take"));
    OK(cuModuleGetFunction(&turn, module, "turn"));
    OK(cuStreamCreate(&stream, 1));
    OK(cuMemAlloc_v2(&data, 64));
    OK(cuMemsetD32Async(data, 0, 16, stream));
    OK(cuStreamSynchronize(stream));
}

static Handle kernel(Handle graph, Handle after, Handle function, void **parameters) {
    struct kernel_node node = {function, 1, 1, 1, 1, 1, 1, 0, parameters, NULL, NULL, NULL};
    Handle added;
    OK(cuGraphAddKernelNode_v2(&added, graph, &after, after ? 1 : 0, &node));
    return added;
}

static Handle adds(Handle graph, Handle after, unsigned more) {
    void *parameters[] = {&data, &more};
    return kernel(graph, after, add, parameters);
}

/* CUgraphNodeParams of a conditional node. */
struct conditional {
    int type, reserved0[3];
    uint64_t handle;
    int kind;
    unsigned size;
    Handle *bodies;
    Handle context;
    uint64_t rest[25];
    uint64_t reserved;
};
enum { IF, WHILE, SWITCH };

static Handle *condition(Handle graph, Handle after, uint64_t handle, int kind, unsigned bodies) {
    struct conditional node = {.type = 13, .handle = handle, .kind = kind, .size = bodies, .context = context};
    Handle added;
    OK(cuGraphAddNode_v2(&added, graph, &after, NULL, after ? 1 : 0, &node));
    return node.bodies;
}

/* Replays with word 1 set; what the sum is then. */
static unsigned replay(Handle exec, unsigned word) {
    unsigned words[2] = {0, word};
    OK(cuMemcpyHtoD_v2(data, words, sizeof words));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuMemcpyDtoH_v2(words, data, sizeof words));
    return words[0];
}

static void branches(void) {
    Handle graph, exec;
    uint64_t either, which;
    CUdeviceptr word = data + 4;
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphConditionalHandleCreate(&either, graph, context, 0, 0));
    OK(cuGraphConditionalHandleCreate(&which, graph, context, 0, 0));
    void *takes_either[] = {&either, &word}, *takes_which[] = {&which, &word};
    Handle taken = kernel(graph, NULL, take, takes_either);
    Handle *bodies = condition(graph, taken, either, IF, 2);
    adds(bodies[0], NULL, 1);
    adds(bodies[1], NULL, 2);
    taken = kernel(graph, taken, take, takes_which);
    bodies = condition(graph, taken, which, SWITCH, 3);
    for (unsigned at = 0; at < 3; at++) adds(bodies[at], NULL, 10 << at);
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    TRUE(replay(exec, 0) == 2 + 10);
    TRUE(replay(exec, 1) == 1 + 20);
    TRUE(replay(exec, 2) == 1 + 40);
    TRUE(replay(exec, 3) == 1);
    /* A condition without a default keeps its value; with one it begins anew at each launch. */
    Handle second;
    EXPECT(801, cuGraphInstantiateWithFlags(&second, graph, 0));
}

static void conditions_in_each_other(void) {
    Handle graph, exec;
    uint64_t loop, even, inner;
    CUdeviceptr word = data + 4, turns = data + 8;
    unsigned most = 6, none = 0, three = 3;
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphConditionalHandleCreate(&loop, graph, context, 1, 1));
    Handle *body = condition(graph, NULL, loop, WHILE, 1);
    /* In the loop: a turn, then 1 if the turn is even, else a loop of three turns, each of which adds 10. */
    OK(cuGraphConditionalHandleCreate(&even, body[0], context, 0, 0));
    void *turned[] = {&loop, &word, &most}, *is_even[] = {&even, &word, &none};
    Handle last = kernel(body[0], NULL, turn, turned);
    last = kernel(body[0], last, turn, is_even);
    Handle *cases = condition(body[0], last, even, IF, 2);
    adds(cases[0], NULL, 1);
    OK(cuGraphConditionalHandleCreate(&inner, cases[1], context, 1, 1));
    Handle *innermost = condition(cases[1], NULL, inner, WHILE, 1);
    void *inner_turned[] = {&inner, &turns, &three};
    last = kernel(innermost[0], NULL, turn, inner_turned);
    adds(innermost[0], last, 10);
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    /* Turns 1, 3 and 5 are odd. The inner loop ends after three turns the first time, and its word stays above, so that
       it ends after one turn from then on; within a launch its condition stays as its last turn left it, and so the loop
       does not begin again: the default is set by a launch alone. */
    TRUE(replay(exec, 0) == 3 * 1 + 3 * 10);
    TRUE(replay(exec, 0) == 3 * 1 + 1 * 10);
}

static Handle captured(unsigned more, int with_fill, int with_copy, void *host) {
    Handle graph;
    void *parameters[] = {&data, &more};
    OK(cuStreamBeginCapture_v2(stream, 1));
    OK(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
    if (with_fill) OK(cuMemsetD32Async(data + 16, 7, 4, stream));
    if (with_copy) OK(cuMemcpyDtoHAsync_v2(host, data, 4, stream));
    OK(cuStreamEndCapture(stream, &graph));
    return graph;
}

static void updates(void) {
    static unsigned host;
    struct update said = {-1, &host, &host};
    Handle exec, first = captured(1, 1, 0, NULL);
    OK(cuGraphInstantiateWithFlags(&exec, first, 0));
    TRUE(replay(exec, 0) == 1);
    OK(cuGraphExecUpdate_v2(exec, captured(5, 1, 0, NULL), &said));
    TRUE(said.result == 0 && !said.node && !said.from);
    TRUE(replay(exec, 0) == 5);
    /* One node more. */
    EXPECT(910, cuGraphExecUpdate_v2(exec, captured(9, 1, 1, &host), &said));
    TRUE(said.result == 2);
    /* Another kind of node. */
    Handle other = captured(9, 0, 1, &host), nodes[2];
    size_t count = 2;
    OK(cuGraphGetNodes(other, nodes, &count));
    EXPECT(910, cuGraphExecUpdate_v2(exec, other, &said));
    TRUE(said.result == 3 && said.node == nodes[1]);
    TRUE(replay(exec, 0) == 5);
    /* Another edge. */
    Handle joined, loose, from, to;
    OK(cuGraphCreate(&loose, 0));
    adds(loose, NULL, 1);
    adds(loose, NULL, 2);
    OK(cuGraphCreate(&joined, 0));
    from = adds(joined, NULL, 3);
    to = adds(joined, from, 4);
    OK(cuGraphInstantiateWithFlags(&exec, loose, 0));
    EXPECT(910, cuGraphExecUpdate_v2(exec, joined, &said));
    TRUE(said.result == 2 && said.node == to && said.from == from);
    TRUE(replay(exec, 0) == 3);
}

static void drawings(void) {
    Handle graph, node, first;
    uint64_t handle;
    char path[256], text[16384];
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddEmptyNode(&first, graph, NULL, 0));
    node = adds(graph, first, 1);
    OK(cuGraphConditionalHandleCreate(&handle, graph, context, 1, 1));
    adds(condition(graph, node, handle, WHILE, 1)[0], NULL, 2);
    snprintf(path, sizeof path, "/tmp/cuforge-drawing-%d.dot", (int)getpid());
    OK(cuGraphDebugDotPrint(graph, path, 0));
    FILE *file = fopen(path, "r");
    TRUE(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    remove(path);
    TRUE(!strncmp(text, "digraph", 7));
    TRUE(strstr(text, "add") && strstr(text, "->") && strstr(text, "CONDITIONAL") && strstr(text, "EMPTY"));
    EXPECT(304, cuGraphDebugDotPrint(graph, "/no/such/folder/drawing.dot", 0));
}

static void memory_nodes_and_pools(void) {
    Handle graph, exec, pool, own;
    CUdeviceptr memory, more;
    unsigned word = 0;
    uint64_t used = 1, threshold = 4096;
    OK(cuStreamBeginCapture_v2(stream, 1));
    OK(cuMemAllocAsync(&memory, 256, stream));
    OK(cuMemsetD32Async(memory, 77, 1, stream));
    OK(cuMemcpyDtoHAsync_v2(&word, memory, 4, stream));
    OK(cuMemFreeAsync(memory, stream));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int round = 0; round < 3; round++) {
        word = 0;
        OK(cuGraphLaunch(exec, stream));
        OK(cuStreamSynchronize(stream));
        TRUE(word == 77);
    }
    /* Memory that a graph does not free: the second launch is refused, unless it was told to free it. */
    OK(cuStreamBeginCapture_v2(stream, 1));
    OK(cuMemAllocAsync(&memory, 256, stream));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    EXPECT(1, cuGraphLaunch(exec, stream));
    OK(cuMemFreeAsync(memory, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuGraphLaunch(exec, stream));

    struct { int type, handles; struct { int type, id; } location; void *security; size_t most; unsigned char rest[56]; }
        properties = {.type = 1, .location = {1, 0}};
    OK(cuMemPoolCreate(&own, &properties));
    OK(cuDeviceGetDefaultMemPool(&pool, device));
    OK(cuMemAllocFromPoolAsync(&more, 1024, own, stream));
    OK(cuMemPoolGetAttribute(own, 7, &used));
    TRUE(used == 1024);
    OK(cuMemPoolGetAttribute(pool, 7, &used));
    TRUE(used == 0);
    OK(cuMemFreeAsync(more, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuMemPoolGetAttribute(own, 7, &used));
    TRUE(used == 0);
    OK(cuMemPoolGetAttribute(own, 8, &used));
    TRUE(used == 1024);
    OK(cuMemPoolSetAttribute(own, 4, &threshold));
    OK(cuMemPoolGetAttribute(own, 4, &used));
    TRUE(used == 4096);
    OK(cuMemPoolDestroy(own));
    EXPECT(1, cuMemPoolDestroy(pool));
    EXPECT(400, cuMemPoolDestroy(own));
}

static void occupancy(void) {
    int blocks, grid, block;
    size_t bytes;
    /* 2048 threads of a multiprocessor, 32 blocks at most, 228 KiB of shared memory, 1 KiB of it taken for each block. */
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 1024, 0));
    TRUE(blocks == 2);
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 32, 0));
    TRUE(blocks == 32);
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 128, 100 << 10));
    TRUE(blocks == 2);
    EXPECT(1, cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 0, 0));
    OK(cuOccupancyMaxPotentialBlockSize(&grid, &block, add, NULL, 0, 0));
    TRUE(block == 1024 && grid == 2 * 132);
    OK(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, add, 2, 1024));
    TRUE(bytes == (114 << 10) - 1024);
}

#define ROW(name) {#name, name}
static const struct { const char *name; void (*run)(void); } ROWS[] = {
    ROW(branches),
    ROW(conditions_in_each_other),
    ROW(updates),
    ROW(drawings),
    ROW(memory_nodes_and_pools),
    ROW(occupancy),
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
