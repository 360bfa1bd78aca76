// Values of other lanes of the warp. A subgroup is a warp; those of its lanes that are active take part.

//@ lane_index
__device__ inline u32 lane_index() {
    u32 index;
    asm("mov.u32 %0, %%laneid;" : "=r"(index));
    return index;
}

//@ lane
// The value that lane `from` has.
template <class T>
__device__ T lane(u32 mask, T value, u32 from) { return __shfl_sync(mask, value, i32(from)); }
__device__ inline u16 lane(u32 mask, u16 value, u32 from) { return u16(__shfl_sync(mask, u32(value), i32(from))); }
__device__ inline i16 lane(u32 mask, i16 value, u32 from) { return i16(__shfl_sync(mask, i32(value), i32(from))); }
