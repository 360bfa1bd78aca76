/* A stand-in for the CUDA driver: host memory, streams that do their work at once, one kernel that is run (saxpy) and
   others that are only counted. It captures and replays graphs. It counts calls, fails them on demand, and can hold back
   what the device would write, so that tests see work "in flight". */
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

/* Captures and graphs: a stream that captures adds nodes where it would do the work. What is captured, and what spoils a
   capture, follows what a driver 580.159.04 did on an H200 (2026-12-01). Nodes run in the order of their creation. */
typedef struct Node Node;
typedef struct Graph Graph;
enum { KERNEL, COPY, FILL, HOST, CHILD, EMPTY, WAIT, RECORD, CONDITIONAL = 13 };
struct Node {
    int type, disabled, deps;
    Node *dep[16];
    uint64_t to, from;
    size_t bytes;
    int value, on_host;
    const char *function;
    unsigned blocks, threads, grid[3], block[3], shared;
    unsigned char packed[4096];
    size_t packed_bytes;
    Graph *child;
    uint64_t handle;
    int form, bodies;
    Graph *body[8];
};
static struct { uint32_t value, first; int assigned; } conditions[4096];
static int handles = 1;
struct Graph { Node **nodes; int count, captured; };
typedef struct { Graph *graph; Node *last[16]; int count, spoilt, origin; } Stream;
typedef struct { Graph *graph; Node *last[16]; int count; } Event;
typedef struct { Graph *of; Node **nodes; int count; } Exec;
static Stream *capturing[16];
static int captures, graphs, execs;
long fake_graphs(void) { return graphs; }
long fake_execs(void) { return execs; }
long fake_capturing(void) { return captures; }

/* What no capture on this thread survives. */
static R spoil(void) {
    for (int i = 0; i < captures; i++) capturing[i]->spoilt = 1;
    return captures ? 900 : 0;
}
#define SPOILS do { R spoils = spoil(); if (spoils) return spoils; } while (0)
static R spoils_own(Stream *s) { if (!s->graph) return 0; spoil(); return 900; }

static Node *add(Graph *g, Node **deps, int count, int type) {
    Node *n = calloc(1, sizeof *n);
    n->type = type;
    n->deps = count;
    memcpy(n->dep, deps, count * sizeof *deps);
    if (!(g->count & (g->count + 1))) g->nodes = realloc(g->nodes, (2 * g->count + 2) * sizeof n);
    g->nodes[g->count++] = n;
    return n;
}
/* The new node of a capturing stream; NULL where the stream does not capture. */
static Node *captured(Stream *s, int type, R *answer) {
    *answer = 0;
    if (!s->graph) return NULL;
    if (s->spoilt) { *answer = 901; return NULL; }
    Node *n = add(s->graph, s->last, s->count, type);
    s->last[0] = n;
    s->count = 1;
    return n;
}
#define CAPTURE(s, type) R code; Node *node = captured(s, type, &code); if (code) return code
static R run(const char *f, unsigned blocks, unsigned threads, void **extra);
static void run_graph(Graph *g);
static void run_node(Node *n) {
    if (n->disabled) return;
    if (n->type == FILL) memset((void *)n->to, n->value, n->bytes);
    if (n->type == COPY) memmove((void *)n->to, (void *)n->from, n->bytes);
    if (n->type == KERNEL) {
        void *extra[5] = {(void *)1, n->packed, (void *)2, &n->packed_bytes, NULL};
        run(n->function, n->grid[0], n->block[0], extra);
    }
    if (n->type == CHILD) run_graph(n->child);
    if (n->type == CONDITIONAL) {
        uint32_t *value = &conditions[n->handle].value;
        if (conditions[n->handle].assigned) *value = conditions[n->handle].first;
        if (n->form == 0 && *value) run_graph(n->body[0]);
        else if (n->form == 0 && n->bodies > 1) run_graph(n->body[1]);
        if (n->form == 1) while (*value) run_graph(n->body[0]);
        if (n->form == 2 && *value < (uint32_t)n->bodies) run_graph(n->body[*value]);
    }
}
static void run_graph(Graph *g) { for (int i = 0; i < g->count; i++) run_node(g->nodes[i]); }
static void keep_packed(Node *n, void **extra) {
    n->packed_bytes = *(size_t *)extra[3];
    memcpy(n->packed, extra[1], n->packed_bytes);
}

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
static __thread int contexts;
R cuCtxPushCurrent_v2(void *c) { (void)c; BEGIN; contexts++; return 0; }
R cuCtxPopCurrent_v2(void **c) { BEGIN; if (!contexts) return 201; contexts--; *c = &context_object; return 0; }
R cuCtxGetCurrent(void **c) { BEGIN; *c = contexts ? &context_object : NULL; return 0; }
R cuCtxSynchronize(void) { BEGIN; SPOILS; let_go(); return 0; }
R cuCtxGetStreamPriorityRange(int *l, int *g) { BEGIN; *l = 0; *g = -5; return 0; }
R cuMemGetInfo_v2(size_t *f, size_t *t) { BEGIN; *f = 1 << 29; *t = 1 << 30; return 0; }
R cuMemAlloc_v2(uint64_t *p, size_t n) { BEGIN; SPOILS; void *m = NULL; if (posix_memalign(&m, 4096, n)) return 2; memset(m, 0xa5, n); *p = (uint64_t)m; return 0; }
R cuMemFree_v2(uint64_t p) { BEGIN; free((void *)p); return 0; }
R cuMemHostAlloc(void **p, size_t n, unsigned f) { (void)f; BEGIN; SPOILS; return posix_memalign(p, 4096, n) ? 2 : 0; }
R cuMemFreeHost(void *p) { BEGIN; free(p); return 0; }
R cuMemHostGetDevicePointer_v2(uint64_t *d, void *p, unsigned f) { (void)f; BEGIN; *d = (uint64_t)p; return 0; }
R cuMemsetD8Async(uint64_t d, unsigned char v, size_t n, void *s) {
    BEGIN; CAPTURE(s, FILL);
    if (node) { node->to = d; node->value = v; node->bytes = n; }
    else memset((void *)d, v, n);
    return 0;
}
static R copy(uint64_t d, uint64_t from, size_t n, void *s, int on_host) {
    CAPTURE(s, COPY);
    if (node) { node->to = d; node->from = from; node->bytes = n; node->on_host = on_host; }
    else memmove((void *)d, (void *)from, n);
    return 0;
}
R cuMemcpyHtoDAsync_v2(uint64_t d, const void *h, size_t n, void *s) { BEGIN; return copy(d, (uint64_t)h, n, s, 1); }
R cuMemcpyDtoHAsync_v2(void *h, uint64_t d, size_t n, void *s) { BEGIN; return copy((uint64_t)h, d, n, s, 0); }
R cuMemcpyDtoDAsync_v2(uint64_t d, uint64_t e, size_t n, void *s) { BEGIN; return copy(d, e, n, s, 0); }
R cuStreamCreateWithPriority(void **s, unsigned f, int p) { (void)f; (void)p; BEGIN; *s = calloc(1, sizeof(Stream)); return 0; }
R cuStreamGetFlags(void *s, unsigned *f) { (void)s; BEGIN; *f = 1; return 0; }
R cuStreamGetPriority(void *s, int *p) { (void)s; BEGIN; *p = 0; return 0; }
R cuStreamDestroy_v2(void *s) { BEGIN; free(s); return 0; }
R cuStreamSynchronize(void *s) { BEGIN; R no = spoils_own(s); if (no) return no; let_go(); return 0; }
R cuStreamQuery(void *s) { BEGIN; R no = spoils_own(s); if (no) return no; return holding ? 600 : 0; }
R cuStreamWaitEvent(void *stream, void *event, unsigned f) {
    (void)f; BEGIN;
    Stream *s = stream; Event *e = event;
    if (s->graph && e->graph != s->graph) { spoil(); return e->graph ? 908 : 905; }
    if (!e->graph) return 0;
    if (!s->graph) { s->graph = e->graph; s->count = 0; s->spoilt = 0; s->origin = 0; capturing[captures++] = s; }
    for (int i = 0; i < e->count; i++) {
        int known = 0;
        for (int k = 0; k < s->count; k++) known |= s->last[k] == e->last[i];
        if (!known) s->last[s->count++] = e->last[i];
    }
    return 0;
}
R cuStreamWriteValue64_v2(void *s, uint64_t a, uint64_t v, unsigned f) {
    (void)f; BEGIN;
    CAPTURE(s, 12);
    if (node) return 0;
    if (!holding) *(uint64_t *)a = v;
    else if (held_count < 4096) { held[held_count].at = (uint64_t *)a; held[held_count++].value = v; }
    return 0;
}
R cuEventCreate(void **e, unsigned f) { (void)f; BEGIN; *e = calloc(1, sizeof(Event)); return 0; }
R cuEventDestroy_v2(void *e) { BEGIN; free(e); return 0; }
R cuEventRecord(void *event, void *stream) {
    BEGIN;
    Event *e = event; Stream *s = stream;
    e->graph = s->graph;
    e->count = s->count;
    memcpy(e->last, s->last, sizeof e->last);
    return s->graph && s->spoilt ? 901 : 0;
}
R cuEventRecordWithFlags(void *e, void *s, unsigned f) {
    BEGIN;
    if (!(f & 1)) return cuEventRecord(e, s);
    CAPTURE(s, RECORD);
    return node ? 0 : 1;
}
R cuEventSynchronize(void *e) { BEGIN; if (((Event *)e)->graph) return 907; let_go(); return 0; }

R cuEventQuery(void *e) { BEGIN; if (((Event *)e)->graph) return 907; return holding ? 600 : 0; }
R cuThreadExchangeStreamCaptureMode(int *mode) { BEGIN; static int now = 0; int before = now; now = *mode; *mode = before; return 0; }

R cuStreamBeginCapture_v2(void *stream, int mode) {
    BEGIN;
    Stream *s = stream;
    if (s->graph || mode != 1) return 1;
    s->graph = calloc(1, sizeof(Graph));
    s->graph->captured = 1;
    s->count = s->spoilt = 0;
    s->origin = 1;
    graphs++;
    capturing[captures++] = s;
    return 0;
}
R cuStreamEndCapture(void *stream, void **graph) {
    Stream *s = stream;
    R failed = count(__func__);
    *graph = NULL;
    if (!s->graph) return 1;
    Graph *g = s->graph;
    R code = s->spoilt ? 901 : 0;
    /* Every other stream's last nodes must lead into what this one has last. */
    int joined[4096] = {0};
    for (int i = 0; i < s->count; i++)
        for (int k = 0; k < g->count; k++) joined[k] |= g->nodes[k] == s->last[i];
    for (int k = g->count; k-- > 0;)
        if (joined[k])
            for (int d = 0; d < g->nodes[k]->deps; d++)
                for (int j = 0; j < k; j++) joined[j] |= g->nodes[j] == g->nodes[k]->dep[d];
    for (int i = 0; i < captures; i++)
        if (capturing[i] != s && capturing[i]->graph == g)
            for (int l = 0; l < capturing[i]->count; l++)
                for (int k = 0; k < g->count; k++)
                    if (g->nodes[k] == capturing[i]->last[l] && !joined[k] && !code) code = 904;
    for (int i = 0; i < captures;)
        if (capturing[i]->graph == g) { capturing[i]->graph = NULL; capturing[i] = capturing[--captures]; }
        else i++;
    if (code || failed) { graphs--; return code ? code : failed; }
    *graph = g;
    return 0;
}
R cuStreamIsCapturing(void *s, int *status) { BEGIN; *status = ((Stream *)s)->graph ? 1 + ((Stream *)s)->spoilt : 0; return 0; }
R cuStreamGetCaptureInfo_v2(void *stream, int *status, uint64_t *id, void **graph, void ***last, size_t *n) {
    BEGIN;
    Stream *s = stream;
    *status = s->graph ? 1 + s->spoilt : 0;
    *id = 1;
    *graph = s->graph;
    *last = (void **)s->last;
    *n = s->count;
    return s->graph && s->spoilt ? 901 : 0;
}
R cuStreamGetCaptureInfo_v3(void *s, int *status, uint64_t *id, void **graph, void ***last, void **data, size_t *n) {
    *data = NULL;
    return cuStreamGetCaptureInfo_v2(s, status, id, graph, last, n);
}
R cuStreamUpdateCaptureDependencies(void *stream, void **nodes, size_t n, unsigned f) {
    BEGIN;
    Stream *s = stream;
    if (!f) return 1;
    memcpy(s->last, nodes, n * sizeof *nodes);
    s->count = n;
    return 0;
}
R cuStreamUpdateCaptureDependencies_v2(void *s, void **nodes, const void *data, size_t n, unsigned f) { (void)data; return cuStreamUpdateCaptureDependencies(s, nodes, n, f); }
R cuGraphCreate(void **g, unsigned f) { (void)f; BEGIN; *g = calloc(1, sizeof(Graph)); return 0; }
R cuGraphDestroy(void *g) { BEGIN; graphs -= ((Graph *)g)->captured; return 0; }
R cuGraphGetNodes(void *graph, void **nodes, size_t *n) {
    BEGIN;
    Graph *g = graph;
    for (size_t i = 0; nodes && i < *n && i < (size_t)g->count; i++) nodes[i] = g->nodes[i];
    *n = g->count;
    return 0;
}
R cuGraphGetEdges(void *graph, void **from, void **to, size_t *n) {
    BEGIN;
    Graph *g = graph;
    size_t at = 0;
    for (int k = 0; k < g->count; k++)
        for (int d = 0; d < g->nodes[k]->deps; d++, at++)
            if (from && at < *n) { from[at] = g->nodes[k]->dep[d]; to[at] = g->nodes[k]; }
    *n = at;
    return 0;
}
R cuGraphGetEdges_v2(void *g, void **from, void **to, void *data, size_t *n) { (void)data; return cuGraphGetEdges(g, from, to, n); }
R cuGraphNodeGetType(void *n, int *type) { BEGIN; *type = ((Node *)n)->type; return 0; }
R cuGraphAddChildGraphNode(void **node, void *graph, void **deps, size_t n, void *child) {
    BEGIN;
    Node *new = add(graph, (Node **)deps, n, CHILD);
    new->child = calloc(1, sizeof(Graph));
    *new->child = *(Graph *)child;
    *node = new;
    return 0;
}
R cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags) {
    (void)flags; BEGIN;
    Exec *e = calloc(1, sizeof *e);
    e->of = graph;
    e->nodes = malloc((e->of->count + 1) * sizeof *e->nodes);
    for (e->count = 0; e->count < e->of->count; e->count++) {
        e->nodes[e->count] = malloc(sizeof(Node));
        *e->nodes[e->count] = *e->of->nodes[e->count];
    }
    execs += e->of->captured;
    *exec = e;
    return 0;
}
R cuGraphExecDestroy(void *e) {
    BEGIN;
    for (int i = 0; i < ((Exec *)e)->count; i++) free(((Exec *)e)->nodes[i]);
    free(((Exec *)e)->nodes);
    execs -= ((Exec *)e)->of->captured;
    free(e);
    return 0;
}
R cuGraphUpload(void *e, void *s) { (void)e; (void)s; BEGIN; return 0; }
R cuGraphLaunch(void *exec, void *s) {
    BEGIN;
    Exec *e = exec;
    if (((Stream *)s)->graph) { spoil(); return 900; }
    for (int i = 0; i < e->count; i++) run_node(e->nodes[i]);
    return 0;
}
static Node *of(Exec *e, void *node) {
    for (int i = 0; i < e->of->count; i++)
        if (e->of->nodes[i] == node) return e->nodes[i];
    return NULL;
}
typedef struct { const char *function; unsigned grid[3], block[3], shared; void **params, **extra; void *kernel, *context; } KernelParams;
R cuGraphAddKernelNode_v2(void **node, void *graph, void **deps, size_t n, const KernelParams *p) {
    BEGIN;
    if (!contexts) abort(); /* as the driver does */
    Node *new = add(graph, (Node **)deps, n, KERNEL);
    new->function = p->function;
    memcpy(new->grid, p->grid, sizeof new->grid);
    memcpy(new->block, p->block, sizeof new->block);
    keep_packed(new, p->extra);
    *node = new;
    return 0;
}
typedef struct { int type, reserved[3]; uint64_t handle; int form; unsigned size; void **bodies; void *context; } Conditional;
R cuGraphConditionalHandleCreate(uint64_t *handle, void *graph, void *context, unsigned first, unsigned flags) {
    (void)graph; (void)context; BEGIN;
    conditions[handles].first = first;
    conditions[handles].assigned = flags & 1;
    *handle = handles++;
    return 0;
}
R cuGraphAddNode_v2(void **node, void *graph, void **deps, const void *data, size_t n, Conditional *p) {
    (void)data; BEGIN;
    if (p->type != CONDITIONAL || !p->size || p->size > 8) return 1;
    Node *new = add(graph, (Node **)deps, n, CONDITIONAL);
    new->handle = p->handle;
    new->form = p->form;
    new->bodies = p->size;
    for (unsigned i = 0; i < p->size; i++) new->body[i] = calloc(1, sizeof(Graph));
    p->bodies = (void **)new->body;
    *node = new;
    return 0;
}
R cuGraphExecKernelNodeSetParams_v2(void *exec, void *node, const KernelParams *p) {
    BEGIN;
    if (!contexts) abort(); /* as the driver does */
    Node *n = of(exec, node);
    if (!n || n->type != KERNEL || !p->grid[0] || !p->grid[1] || !p->grid[2]) return 1;
    n->function = p->function;
    memcpy(n->grid, p->grid, sizeof n->grid);
    memcpy(n->block, p->block, sizeof n->block);
    keep_packed(n, p->extra);
    return 0;
}
R cuGraphNodeSetEnabled(void *exec, void *node, unsigned on) { BEGIN; Node *n = of(exec, node); if (!n) return 1; n->disabled = !on; return 0; }
typedef struct { uint64_t to; size_t pitch; unsigned value, element; size_t width, height; } FillParams;
R cuGraphMemsetNodeGetParams(void *node, FillParams *p) { BEGIN; Node *n = node; *p = (FillParams){n->to, 0, n->value, 1, n->bytes, 1}; return 0; }
R cuGraphExecMemsetNodeSetParams(void *exec, void *node, const FillParams *p, void *c) {
    (void)c; BEGIN;
    Node *n = of(exec, node);
    if (!n || n->type != FILL) return 1;
    n->to = p->to; n->value = p->value; n->bytes = p->width * p->element;
    return 0;
}
typedef struct { size_t position[4]; unsigned memory; const void *host; uint64_t device; void *array, *reserved; size_t pitch, height; } End;
typedef struct { End from, to; size_t width, height, depth; } CopyParams;
R cuGraphMemcpyNodeGetParams(void *node, CopyParams *p) {
    BEGIN;
    Node *n = node;
    memset(p, 0, sizeof *p);
    p->from.memory = n->on_host ? 1 : 2;
    p->from.host = (void *)n->from;
    p->from.device = n->from;
    p->to.memory = 2;
    p->to.device = n->to;
    p->width = n->bytes;
    p->height = p->depth = 1;
    return 0;
}
R cuGraphExecMemcpyNodeSetParams(void *exec, void *node, const CopyParams *p, void *c) {
    (void)c; BEGIN;
    Node *n = of(exec, node);
    if (!n || n->type != COPY) return 1;
    n->from = p->from.memory == 1 ? (uint64_t)p->from.host : p->from.device;
    n->to = p->to.device; n->bytes = p->width;
    return 0;
}
/* What another library may add to a capture. */
R fake_stray(void *s, int type) { CAPTURE(s, type); return node ? 0 : 1; }
R cuDeviceGetGraphMemAttribute(int d, int a, uint64_t *v) { (void)d; (void)a; BEGIN; *v = 0; return 0; }
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
/* The kernels that the launcher brings for its graphs. */
typedef struct { uint32_t *out; uint64_t page, *counter, *taken; uint32_t words, stride, slots; } Feed;
typedef struct { const uint32_t *in; uint64_t page, *counter; uint32_t words, stride, slots; } Post;
typedef struct { const uint32_t *word; uint64_t *counter, *report, handle; uint32_t most; } Loop;
typedef struct { const uint32_t *word; uint64_t handle; } Set;
static R run(const char *f, unsigned blocks, unsigned threads, void **extra) {
    if (!strncmp(f, "cuforge_feed(", 13)) {
        Feed *p = extra[1];
        memcpy(p->out, (void *)(p->page + *p->counter % p->slots * p->stride), p->words * 4);
        *p->taken = ++*p->counter;
        return 0;
    }
    if (!strncmp(f, "cuforge_post(", 13)) {
        Post *p = extra[1];
        uint64_t slot = p->page + *p->counter % p->slots * p->stride;
        memcpy((void *)(slot + 8), p->in, p->words * 4);
        *(uint64_t *)slot = ++*p->counter;
        return 0;
    }
    if (!strncmp(f, "cuforge_loop(", 13)) {
        Loop *p = extra[1];
        uint32_t *count = (uint32_t *)p->counter, done = *count + 1, go = *p->word && done < p->most;
        *count = go ? done : 0;
        if (!go) *p->report = p->counter[1] += done;
        conditions[p->handle].value = go;
        return 0;
    }
    if (!strncmp(f, "cuforge_condition(", 18)) {
        Set *p = extra[1];
        conditions[p->handle].value = *p->word;
        return 0;
    }
    if (strncmp(f, "saxpy(", 6)) return 0;
    if (extra[0] != (void *)1 || extra[2] != (void *)2 || extra[4] || *(size_t *)extra[3] != 24) return 1;
    struct { float *y; const float *x; float a; unsigned n; } *p = extra[1];
    for (unsigned i = 0; i < p->n && i < blocks * threads; i++) p->y[i] += p->a * p->x[i];
    return 0;
}
static R launch(const char *f, const unsigned *grid, const unsigned *block, unsigned shared, void *s, void **extra) {
    CAPTURE(s, KERNEL);
    if (!node) return run(f, grid[0], block[0], extra);
    node->function = f;
    node->shared = shared;
    memcpy(node->grid, grid, sizeof node->grid);
    memcpy(node->block, block, sizeof node->block);
    keep_packed(node, extra);
    return 0;
}
R cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *s, void **params, void **extra) {
    (void)params; BEGIN;
    unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
    return launch(f, grid, block, shared, s, extra);
}
typedef struct { unsigned grid[3], block[3], shared; void *stream; } Config;
R cuLaunchKernelEx(const Config *c, void *f, void **params, void **extra) {
    (void)params; BEGIN;
    return launch(f, c->grid, c->block, c->shared, c->stream, extra);
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
