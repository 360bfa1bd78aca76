// Atomic operations, relaxed as WGSL has them.

//@ load_relaxed
template <class T>
__device__ T load_relaxed(const T& place) { return *(const volatile T*)&place; }

//@ store_relaxed
template <class T>
__device__ void store_relaxed(T& place, T value) { *(volatile T*)&place = value; }

//@ atomic_add
template <class T>
__device__ T atomic_add(T& place, T value) { return atomicAdd(&place, value); }
__device__ inline i64 atomic_add(i64& place, i64 value) { return i64(atomicAdd((u64*)&place, u64(value))); }

//@ atomic_and
template <class T>
__device__ T atomic_and(T& place, T value) { return atomicAnd(&place, value); }
__device__ inline i64 atomic_and(i64& place, i64 value) { return i64(atomicAnd((u64*)&place, u64(value))); }

//@ atomic_or
template <class T>
__device__ T atomic_or(T& place, T value) { return atomicOr(&place, value); }
__device__ inline i64 atomic_or(i64& place, i64 value) { return i64(atomicOr((u64*)&place, u64(value))); }

//@ atomic_xor
template <class T>
__device__ T atomic_xor(T& place, T value) { return atomicXor(&place, value); }
__device__ inline i64 atomic_xor(i64& place, i64 value) { return i64(atomicXor((u64*)&place, u64(value))); }

//@ atomic_exchange
template <class T>
__device__ T atomic_exchange(T& place, T value) { return atomicExch(&place, value); }
__device__ inline i64 atomic_exchange(i64& place, i64 value) { return i64(atomicExch((u64*)&place, u64(value))); }

//@ atomic_sub
template <class T>
__device__ T atomic_sub(T& place, T value) { return atomicAdd(&place, T(0) - value); }
__device__ inline i32 atomic_sub(i32& place, i32 value) { return atomicSub(&place, value); }
__device__ inline i64 atomic_sub(i64& place, i64 value) {
    return i64(atomicAdd((u64*)&place, 0ull - u64(value)));
}

//@ atomic_min
template <class T>
__device__ T atomic_min(T& place, T value) { return atomicMin(&place, value); }

//@ atomic_max
template <class T>
__device__ T atomic_max(T& place, T value) { return atomicMax(&place, value); }

//@ atomic_compare_exchange
// It never fails without a reason, as WGSL's weak form may.
template <class R, class T>
__device__ R atomic_compare_exchange(T& place, T compare, T value) {
    const T old = atomicCAS(&place, compare, value);
    return R{old, old == compare};
}
template <class R>
__device__ R atomic_compare_exchange(i64& place, i64 compare, i64 value) {
    const i64 old = i64(atomicCAS((u64*)&place, u64(compare), u64(value)));
    return R{old, old == compare};
}
