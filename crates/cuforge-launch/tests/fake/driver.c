/* A stand-in for the CUDA driver: host memory, streams that do their work at once, one kernel that is run (saxpy) and
   others that are only counted. It counts calls, fails them on demand, and can hold back what the device would write,
   so that tests see work "in flight". */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef VERSION
#define VERSION 13000
#endif
#ifndef DEVICES
#define DEVICES 1
#endif

typedef int R;
enum { MOST = 128 };
static struct { const char *name; long calls, fail_at; int code; } table[MOST];
static int named;
static long in_all;

static int entry_of(const char *name) {
    for (int i = 0; i < named; i++)
        if (!strcmp(table[i].name, name)) return i;
    table[named].name = strdup(name);
    return named++;
}

static R count(const char *name) {
    int i = entry_of(name);
    in_all++;
    table[i].calls++;
    return table[i].fail_at && table[i].calls >= table[i].fail_at ? table[i].code : 0;
}
#define BEGIN do { R failed = count(__func__); if (failed) return failed; } while (0)

/* What tests ask of it. */
long fake_calls(const char *name) { return name ? table[entry_of(name)].calls : in_all; }
void fake_fail(const char *name, long from_call, int code) {
    int i = entry_of(name);
    table[i].fail_at = from_call ? table[i].calls + from_call : 0;
    table[i].code = code;
}
static int holding;
static struct { uint64_t *at, value; } held[4096];
static int held_count;
static void let_go(void) {
    for (int i = 0; i < held_count; i++) *held[i].at = held[i].value;
    held_count = 0;
}
void fake_hold(int on) { holding = on; if (!on) let_go(); }
long fake_mapped(void);

R cuInit(unsigned f) { (void)f; BEGIN; return DEVICES ? 0 : 100; }
R cuDriverGetVersion(int *v) { BEGIN; *v = VERSION; return 0; }
R cuGetErrorName(int c, const char **s) { *s = c == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : c == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : c == 218 ? "CUDA_ERROR_INVALID_PTX" : NULL; return *s ? 0 : 1; }
R cuGetErrorString(int c, const char **s) { *s = c == 700 ? "an illegal memory access was encountered" : NULL; return *s ? 0 : 1; }
R cuDeviceGetCount(int *n) { BEGIN; *n = DEVICES; return 0; }
R cuDeviceGet(int *d, int o) { BEGIN; *d = o; return 0; }
R cuDeviceGetName(char *s, int n, int d) { (void)d; BEGIN; strncpy(s, "Stand-in", n); return 0; }
R cuDeviceGetUuid_v2(unsigned char *u, int d) { (void)d; BEGIN; memset(u, 7, 16); return 0; }
R cuDeviceTotalMem_v2(size_t *n, int d) { (void)d; BEGIN; *n = 1ull << 30; return 0; }
R cuDeviceGetPCIBusId(char *s, int n, int d) { (void)d; BEGIN; strncpy(s, "0000:01:00.0", n); return 0; }
R cuDeviceGetAttribute(int *v, int a, int d) {
    (void)d; BEGIN;
    switch (a) {
    case 1: *v = 1024; break; case 2: case 3: *v = 1024; break; case 4: *v = 64; break;
    case 5: *v = 2147483647; break; case 6: case 7: *v = 65535; break;
    case 8: *v = 49152; break; case 10: *v = 32; break; case 16: *v = 4; break;
    case 75: *v = 9; break; case 76: *v = 0; break; case 97: *v = 232448; break;
    case 95: case 120: case 122: *v = 1; break;
#ifdef PLAIN_MEMORY
    case 102: *v = 0; break;
#else
    case 102: *v = 1; break;
#endif
    default: *v = 0;
    }
    return 0;
}
static int context_object;
R cuDevicePrimaryCtxRetain(void **c, int d) { (void)d; BEGIN; *c = &context_object; return 0; }
R cuDevicePrimaryCtxRelease_v2(int d) { (void)d; BEGIN; return 0; }
R cuCtxPushCurrent_v2(void *c) { (void)c; BEGIN; return 0; }
R cuCtxPopCurrent_v2(void **c) { BEGIN; *c = &context_object; return 0; }
R cuCtxSynchronize(void) { BEGIN; let_go(); return 0; }
R cuCtxGetStreamPriorityRange(int *l, int *g) { BEGIN; *l = 0; *g = -5; return 0; }
R cuMemGetInfo_v2(size_t *f, size_t *t) { BEGIN; *f = 1 << 29; *t = 1 << 30; return 0; }
R cuMemAlloc_v2(uint64_t *p, size_t n) { BEGIN; void *m = NULL; if (posix_memalign(&m, 4096, n)) return 2; memset(m, 0xa5, n); *p = (uint64_t)m; return 0; }
R cuMemFree_v2(uint64_t p) { BEGIN; free((void *)p); return 0; }
R cuMemHostAlloc(void **p, size_t n, unsigned f) { (void)f; BEGIN; return posix_memalign(p, 4096, n) ? 2 : 0; }
R cuMemFreeHost(void *p) { BEGIN; free(p); return 0; }
R cuMemHostGetDevicePointer_v2(uint64_t *d, void *p, unsigned f) { (void)f; BEGIN; *d = (uint64_t)p; return 0; }
R cuMemsetD8Async(uint64_t d, unsigned char v, size_t n, void *s) { (void)s; BEGIN; memset((void *)d, v, n); return 0; }
R cuMemcpyHtoDAsync_v2(uint64_t d, const void *h, size_t n, void *s) { (void)s; BEGIN; memcpy((void *)d, h, n); return 0; }
R cuMemcpyDtoHAsync_v2(void *h, uint64_t d, size_t n, void *s) { (void)s; BEGIN; memcpy(h, (void *)d, n); return 0; }
R cuMemcpyDtoDAsync_v2(uint64_t d, uint64_t e, size_t n, void *s) { (void)s; BEGIN; memmove((void *)d, (void *)e, n); return 0; }
R cuStreamCreateWithPriority(void **s, unsigned f, int p) { (void)f; (void)p; BEGIN; *s = malloc(1); return 0; }
R cuStreamDestroy_v2(void *s) { BEGIN; free(s); return 0; }
R cuStreamSynchronize(void *s) { (void)s; BEGIN; let_go(); return 0; }
R cuStreamQuery(void *s) { (void)s; BEGIN; return holding ? 600 : 0; }
R cuStreamWaitEvent(void *s, void *e, unsigned f) { (void)s; (void)e; (void)f; BEGIN; return 0; }
R cuStreamWriteValue64_v2(void *s, uint64_t a, uint64_t v, unsigned f) {
    (void)s; (void)f; BEGIN;
    if (!holding) *(uint64_t *)a = v;
    else if (held_count < 4096) { held[held_count].at = (uint64_t *)a; held[held_count++].value = v; }
    return 0;
}
R cuEventCreate(void **e, unsigned f) { (void)f; BEGIN; *e = malloc(1); return 0; }
R cuEventDestroy_v2(void *e) { BEGIN; free(e); return 0; }
R cuEventRecord(void *e, void *s) { (void)e; (void)s; BEGIN; return 0; }
R cuEventSynchronize(void *e) { (void)e; BEGIN; let_go(); return 0; }
R cuEventQuery(void *e) { (void)e; BEGIN; return holding ? 600 : 0; }
R cuEventElapsedTime(float *ms, void *a, void *b) { (void)a; (void)b; BEGIN; *ms = 0.25f; return 0; }

/* A module is its PTX text; a function points at its entry in that text. */
R cuModuleLoadDataEx(void **m, const void *image, unsigned n, int *options, void **values) {
    BEGIN;
    const char *text = image;
    for (unsigned i = 0; i < n; i++)
        if (options[i] == 5) strcpy(values[i], strstr(text, ".entry") ? "" : "line 1; fatal: no entry");
    if (!strstr(text, ".entry")) return 218;
    *m = strdup(text);
    return 0;
}
R cuModuleUnload(void *m) { BEGIN; free(m); return 0; }
R cuModuleGetFunction(void **f, void *m, const char *name) {
    BEGIN;
    for (char *at = m; (at = strstr(at, ".entry ")); at++) {
        size_t n = strlen(name);
        if (!strncmp(at + 7, name, n) && at[7 + n] == '(') { *f = at + 7; return 0; }
    }
    return 500;
}
R cuFuncGetAttribute(int *v, int a, void *f) { (void)f; BEGIN; *v = a == 0 ? 512 : a == 4 ? 16 : a == 6 ? 90 : 0; return 0; }
R cuFuncSetAttribute(void *f, int a, int v) { (void)f; (void)a; (void)v; BEGIN; return 0; }
R cuFuncLoad(void *f) { (void)f; BEGIN; return 0; }
R cuFuncGetParamInfo(void *f, size_t index, size_t *offset, size_t *bytes) {
    BEGIN;
    const char *at = f, *end = strchr(f, ')');
    size_t next = 0;
    for (size_t i = 0; (at = strstr(at, ".param .")) && at < end; at++, i++) {
        size_t size = atoi(at + 9) / 8;
        next = (next + size - 1) / size * size;
        if (i == index) { *offset = next; *bytes = size; return 0; }
        next += size;
    }
    return 1;
}
static R run(const char *f, unsigned blocks, unsigned threads, void **extra) {
    if (strncmp(f, "saxpy(", 6)) return 0;
    if (extra[0] != (void *)1 || extra[2] != (void *)2 || extra[4] || *(size_t *)extra[3] != 24) return 1;
    struct { float *y; const float *x; float a; unsigned n; } *p = extra[1];
    for (unsigned i = 0; i < p->n && i < blocks * threads; i++) p->y[i] += p->a * p->x[i];
    return 0;
}
R cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *s, void **params, void **extra) {
    (void)gy; (void)gz; (void)by; (void)bz; (void)shared; (void)s; (void)params; BEGIN;
    return run(f, gx, bx, extra);
}
R cuLaunchKernelEx(const unsigned *config, void *f, void **params, void **extra) {
    (void)params; BEGIN;
    return run(f, config[0], config[3], extra);
}

/* A graph is its one kernel node, and so is its executable. */
struct node { void *f; unsigned config[7]; size_t bytes; char packed[4096]; };
static R node_set(struct node *n, void *const *params) {
    void **extra = params[6];
    size_t bytes = *(size_t *)extra[3];
    if (bytes > sizeof n->packed) return 1;
    n->f = params[0];
    memcpy(n->config, params + 1, sizeof n->config);
    n->bytes = bytes;
    memcpy(n->packed, extra[1], bytes);
    return 0;
}
R cuThreadExchangeStreamCaptureMode(int *mode) { BEGIN; static int now = 0; int before = now; now = *mode; *mode = before; return 0; }
R cuGraphCreate(void **g, unsigned f) { (void)f; BEGIN; *g = calloc(1, sizeof(struct node)); return 0; }
R cuGraphDestroy(void *g) { BEGIN; free(g); return 0; }
R cuGraphAddKernelNode_v2(void **n, void *g, const void *d, size_t c, void *const *params) {
    (void)d; (void)c; BEGIN;
    *n = g;
    return node_set(g, params);
}
R cuGraphInstantiateWithFlags(void **e, void *g, uint64_t f) {
    (void)f; BEGIN;
    *e = malloc(sizeof(struct node));
    memcpy(*e, g, sizeof(struct node));
    return 0;
}
R cuGraphExecDestroy(void *e) { BEGIN; free(e); return 0; }
R cuGraphExecKernelNodeSetParams_v2(void *e, void *n, void *const *params) { (void)n; BEGIN; return node_set(e, params); }
R cuGraphLaunch(struct node *e, void *s) {
    (void)s; BEGIN;
    void *extra[5] = { (void *)1, e->packed, (void *)2, &e->bytes, 0 };
    return run(e->f, e->config[0], e->config[3], extra);
}
R cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, void *f, int t, size_t s) { (void)f; (void)s; BEGIN; *n = 2048 / t; return 0; }
R cuOccupancyMaxActiveClusters(int *n, void *f, const void *c) { (void)f; (void)c; BEGIN; *n = 3; return 0; }

/* Virtual memory: a reservation without access, made accessible where it is mapped. */
static long mapped;
long fake_mapped(void) { return mapped; }
R cuMemAddressReserve(uint64_t *p, size_t n, size_t a, uint64_t h, uint64_t f) {
    (void)a; (void)h; (void)f; BEGIN;
    void *m = mmap(NULL, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m == MAP_FAILED) return 2;
    *p = (uint64_t)m;
    return 0;
}
R cuMemAddressFree(uint64_t p, size_t n) { BEGIN; return munmap((void *)p, n) ? 1 : 0; }
R cuMemCreate(uint64_t *h, size_t n, const void *p, uint64_t f) { (void)n; (void)p; (void)f; BEGIN; static uint64_t next = 1; *h = next++; return 0; }
R cuMemRelease(uint64_t h) { (void)h; BEGIN; return 0; }
R cuMemMap(uint64_t p, size_t n, size_t o, uint64_t h, uint64_t f) { (void)o; (void)h; (void)f; (void)p; BEGIN; mapped += n; return 0; }
R cuMemUnmap(uint64_t p, size_t n) { BEGIN; mapped -= n; return mprotect((void *)p, n, PROT_NONE) ? 1 : 0; }
R cuMemSetAccess(uint64_t p, size_t n, const void *d, size_t c) {
    (void)d; (void)c; BEGIN;
    if (mprotect((void *)p, n, PROT_READ | PROT_WRITE)) return 1;
    memset((void *)p, 0xa5, n);
    return 0;
}
R cuMemGetAllocationGranularity(size_t *n, const void *p, int o) { (void)p; (void)o; BEGIN; *n = 2 << 20; return 0; }
R cuGetExportTable(const void **t, const void *id) { (void)id; *t = NULL; return 1; }
