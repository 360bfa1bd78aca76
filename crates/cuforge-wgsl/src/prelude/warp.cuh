// Subgroup operations, on scalars and on vectors.

//@ shuffle: lane
template <class T>
__device__ T shuffle(T value, u32 from) { return lane(__activemask(), value, from); }

//@ shuffle_down: lane lane_index
template <class T>
__device__ T shuffle_down(T value, u32 by) { return lane(__activemask(), value, (lane_index() + by) & 31); }

//@ shuffle_up: lane lane_index
template <class T>
__device__ T shuffle_up(T value, u32 by) { return lane(__activemask(), value, (lane_index() - by) & 31); }

//@ shuffle_xor: lane lane_index
template <class T>
__device__ T shuffle_xor(T value, u32 bits) { return lane(__activemask(), value, (lane_index() ^ bits) & 31); }

//@ quad_broadcast: lane lane_index
template <class T>
__device__ T quad_broadcast(T value, u32 from) {
    return lane(__activemask(), value, (lane_index() & ~3u) | (from & 3));
}

//@ broadcast_first: lane
template <class T>
__device__ T broadcast_first(T value) {
    const u32 mask = __activemask();
    return lane(mask, value, u32(__ffs(i32(mask)) - 1));
}

//@ Add: add
struct Add {
    template <class T>
    static __device__ T of(T a, T b) { return add(a, b); }
    template <class T>
    static __device__ T nothing() { return T(0); }
};

//@ Mul: mul
struct Mul {
    template <class T>
    static __device__ T of(T a, T b) { return mul(a, b); }
    template <class T>
    static __device__ T nothing() { return T(1); }
};

//@ Min: min
struct Min {
    template <class T>
    static __device__ T of(T a, T b) { return min(a, b); }
};

//@ Max: max
struct Max {
    template <class T>
    static __device__ T of(T a, T b) { return max(a, b); }
};

//@ And: bit_and
struct And {
    template <class T>
    static __device__ T of(T a, T b) { return bit_and(a, b); }
};

//@ Or: bit_or
struct Or {
    template <class T>
    static __device__ T of(T a, T b) { return bit_or(a, b); }
};

//@ Xor: bit_xor
struct Xor {
    template <class T>
    static __device__ T of(T a, T b) { return bit_xor(a, b); }
};

//@ reduce: lane lane_index
template <class Op, class T>
__device__ T reduce(T value) {
    const u32 mask = __activemask();
    if (mask == 0xffffffffu) {
        for (u32 bit = 16; bit > 0; bit /= 2) {
            value = Op::of(value, lane(mask, value, lane_index() ^ bit));
        }
        return value;
    }
    // Some lanes are missing: those that are there, one after another.
    T all = lane(mask, value, u32(__ffs(i32(mask)) - 1));
    for (u32 rest = mask & (mask - 1); rest != 0; rest &= rest - 1) {
        all = Op::of(all, lane(mask, value, u32(__ffs(i32(rest)) - 1)));
    }
    return all;
}

//@ exclusive_scan: lane lane_index
template <class Op, class T>
__device__ T exclusive_scan(T value) {
    const u32 mask = __activemask();
    const u32 here = lane_index();
    if (mask == 0xffffffffu) {
        for (u32 by = 1; by < 32; by *= 2) {
            const T before = lane(mask, value, (here - by) & 31);
            value = here < by ? value : Op::of(before, value);
        }
        const T before = lane(mask, value, (here - 1) & 31);
        return here == 0 ? Op::template nothing<T>() : before;
    }
    T all = Op::template nothing<T>();
    for (u32 rest = mask; rest != 0; rest &= rest - 1) {
        const u32 from = u32(__ffs(i32(rest)) - 1);
        const T other = lane(mask, value, from);
        all = from < here ? Op::of(all, other) : all;
    }
    return all;
}

//@ inclusive_scan: exclusive_scan
template <class Op, class T>
__device__ T inclusive_scan(T value) { return Op::of(exclusive_scan<Op>(value), value); }
