/* Says what machine the driver plays, a line for each setting: run under different environments, it is told apart. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef void *Handle;
int cuInit(unsigned flags);
int cuDriverGetVersion(int *version);
int cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags, int *status);
int cuDeviceGetCount(int *count);
int cuDeviceGet(int *device, int ordinal);
int cuDeviceGetName(char *name, int room, int device);
int cuDeviceTotalMem_v2(size_t *bytes, int device);
int cuDeviceGetAttribute(int *value, int attribute, int device);
int cuCtxCreate_v2(Handle *context, unsigned flags, int device);
int cuCtxSynchronize(void);
int cuMemAlloc_v2(uint64_t *address, size_t bytes);
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes);
int cuEventCreate(Handle *event, unsigned flags);
int cuModuleLoadData(Handle *module, const void *image);
int cuModuleGetFunction(Handle *function, Handle module, const char *name);
int cuLaunchKernel(Handle function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, Handle stream, void **parameters, void **extra);

/* Lane 0 stores to shared memory and lane 1 of another warp loads it without a barrier; then a hundred turns. */
static const char *PTX =
    ".version 7.8\n.target sm_70\n.address_size 64\n"
    ".visible .entry race()\n{\n.shared .align 4 .b8 word[4];\n.reg .pred %p;\n.reg .b32 %r<3>;\n"
    "mov.u32 %r0, %tid.x;\nsetp.ne.u32 %p, %r0, 0;\n@%p bra READ;\nst.shared.u32 [word], %r0;\nbra.uni END;\n"
    "READ:\nld.shared.u32 %r1, [word];\nEND:\nret;\n}\n"
    ".visible .entry turns()\n{\n.reg .pred %p;\n.reg .b32 %r<1>;\nmov.u32 %r0, 0;\n"
    "AGAIN:\nadd.u32 %r0, %r0, 1;\nsetp.lt.u32 %p, %r0, 100;\n@%p bra AGAIN;\nret;\n}\n";

int main(void) {
    int count = -1, version = 0, device = 0, major = 0, minor = 0, processors = 0, mapping = -1, status = -1;
    char name[64] = "";
    size_t bytes = 0;
    uint64_t memory = 0, more = 0;
    unsigned word = 0;
    void *found = NULL;
    Handle context, module, race, turns, event;
    printf("init %d\n", cuInit(0));
    cuDriverGetVersion(&version);
    printf("version %d\n", version);
    cuDeviceGetCount(&count);
    printf("devices %d\n", count);
    if (count < 1) return 0;
    cuDeviceGet(&device, 0);
    cuDeviceGetName(name, sizeof name, device);
    cuDeviceTotalMem_v2(&bytes, device);
    cuDeviceGetAttribute(&major, 75, device);
    cuDeviceGetAttribute(&minor, 76, device);
    cuDeviceGetAttribute(&processors, 16, device);
    cuDeviceGetAttribute(&mapping, 102, device);
    printf("name %s\nmemory %zu\ncapability %d.%d\nmultiprocessors %d\nattribute 102 %d\n", name, bytes, major, minor,
           processors, mapping);
    cuGetProcAddress_v2("cuMemMap", &found, 13000, 0, &status);
    printf("cuMemMap %s\n", found ? "found" : "hidden");
    cuGetProcAddress_v2("cuFuncGetParamInfo", &found, 13000, 0, &status);
    printf("cuFuncGetParamInfo %s\n", found ? "found" : "too new");
    cuCtxCreate_v2(&context, 0, device);
    printf("first allocation %d\n", cuMemAlloc_v2(&memory, 64));
    printf("second allocation %d\n", cuMemAlloc_v2(&more, 64));
    cuMemcpyDtoH_v2(&word, more, 4);
    printf("fresh %08x\n", word);
    printf("too much %d\n", cuMemAlloc_v2(&memory, (size_t)3 << 30));
    cuModuleLoadData(&module, PTX);
    cuModuleGetFunction(&race, module, "race");
    cuModuleGetFunction(&turns, module, "turns");
    cuLaunchKernel(turns, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
    printf("turns %d\n", cuCtxSynchronize());
    cuLaunchKernel(race, 1, 1, 1, 64, 1, 1, 0, NULL, NULL, NULL);
    printf("race %d\n", cuCtxSynchronize());
    printf("event %d\n", cuEventCreate(&event, 0));
    return 0;
}
