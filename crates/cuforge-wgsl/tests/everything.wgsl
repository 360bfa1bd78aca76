// A little of everything, for texts that are damaged on purpose.
@group(0) @binding(0) var<storage, read_write> f: array<f32>;
@group(0) @binding(1) var<storage, read_write> v: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> u: array<u32>;
@group(0) @binding(3) var<storage, read_write> s: array<i32>;
@group(0) @binding(4) var<storage, read_write> v3: array<vec3<f32>>;
@compute @workgroup_size(64)
fn scalars(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = id.x;
    let x = f[i]; let y = f[i + 1u];
    f[i] = abs(x) + min(x, y) + max(x, y) + clamp(x, 0.0, y) + saturate(x) + cos(x) + cosh(x) + sin(x) + sinh(x) + tan(x) + tanh(x)
     + acos(x) + asin(x) + atan(x) + atan2(x, y) + asinh(x) + acosh(x) + atanh(x) + radians(x) + degrees(x) + ceil(x) + floor(x)
     + round(x) + fract(x) + trunc(x) + ldexp(x, s[i]) + exp(x) + exp2(x) + log(x) + log2(x) + pow(x, y) + sign(x) + fma(x, y, x)
     + mix(x, y, 0.25) + step(x, y) + smoothstep(x, y, 0.5) + sqrt(x) + inverseSqrt(x) + quantizeToF16(x) + length(x) + distance(x, y) + x % y;
    let m = modf(x); let e = frexp(y);
    f[i + 2u] = m.fract + m.whole + e.fract + f32(e.exp);
    u[i] = countTrailingZeros(u[i]) + countLeadingZeros(u[i]) + countOneBits(u[i]) + reverseBits(u[i]) + extractBits(u[i], 3u, 5u) + insertBits(u[i], 7u, 3u, 5u) + firstTrailingBit(u[i]) + firstLeadingBit(u[i]) + min(u[i], 3u) + u32(x) + u32(s[i]) + bitcast<u32>(x);
    s[i] = countTrailingZeros(s[i]) + countLeadingZeros(s[i]) + countOneBits(s[i]) + reverseBits(s[i]) + extractBits(s[i], 3u, 5u) + insertBits(s[i], 7, 3u, 5u) + firstTrailingBit(s[i]) + firstLeadingBit(s[i]) + abs(s[i]) + sign(s[i]) + i32(x) + -s[i] + ~s[i] + s[i] / s[i+1u] + s[i] % s[i+1u] + (s[i] << u[i]) + (s[i] >> u[i]) + dot4I8Packed(u[i], u[i+1u]) + i32(dot4U8Packed(u[i], u[i+1u]));
    u[i + 1u] = pack4x8snorm(v[i]) + pack4x8unorm(v[i]) + pack2x16snorm(v[i].xy) + pack2x16unorm(v[i].zw) + pack2x16float(v[i].yx) + pack4xI8(vec4<i32>(v[i])) + pack4xU8(vec4<u32>(v[i])) + pack4xI8Clamp(vec4<i32>(v[i])) + pack4xU8Clamp(vec4<u32>(v[i]));
    v[i] = unpack4x8snorm(u[i]) + unpack4x8unorm(u[i]) + vec4(unpack2x16snorm(u[i]), unpack2x16unorm(u[i])) + vec4(unpack2x16float(u[i]), 0.0, 1.0) + vec4<f32>(unpack4xI8(u[i])) + vec4<f32>(unpack4xU8(u[i]));
}
@compute @workgroup_size(64)
fn vectors(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = id.x;
    let x = v[i]; let y = v[i + 1u];
    v[i] = abs(x) + min(x, y) + clamp(x, x, y) + saturate(x) + atan2(x, y) + ldexp(x, vec4<i32>(y)) + mix(x, y, 0.25) + mix(x, y, y) + step(x, y) + smoothstep(x, y, x) + sign(x) + x % y + select(x, y, x < y) + normalize(x) + faceForward(x, y, x) + reflect(x, y) + refract(x, y, 0.5) + 2.0 * x + x * f[i] - -x / y;
    let m = modf(x); let e = frexp(y);
    v[i + 1u] = m.fract + m.whole + e.fract + vec4<f32>(e.exp);
    f[i] = dot(x, y) + length(x) + distance(x, y) + x[u[i]] + dot(v3[i], cross(v3[i], v3[i + 1u])) + f32(dot(vec3<i32>(v3[i]), vec3<i32>(1, 2, 3)));
    let b = vec4<bool>(x.x > 0.0, any(x == y), all(x != y), !(y.x <= 1.0));
    u[i] = select(1u, 2u, all(b) || any(!b));
    v3[i] = x.xyz + y.wzy + vec3(x.xy, 1.0) + vec3(1.0, x.zw);
    v3[i].y = 3.0;
    v3[i][u[i]] = 4.0;
    let w = vec4<u32>(x);
    let z = (w / vec4<u32>(y)) % w + (w << vec4<u32>(y)) - (w >> w) & w | ~w ^ w;
    u[i] = z.x + extractBits(w, 3u, 5u).x + insertBits(w, w, 3u, 5u).y + countOneBits(w).z + firstLeadingBit(w).w;
    let si = vec4<i32>(w); s[i] = (si / vec4<i32>(y)).x + (-si).y + dot(si, si) + abs(si).x + (si * 3).z;
}
struct Inner { a: f32, b: vec3<f32>, c: f32, @align(32) d: f32, @size(40) e: u32, m: mat3x3<f32> }
struct Outer { n: u32, inner: array<Inner, 3>, flags: vec2<u32>, tail: array<mat2x4<f32>> }
@group(1) @binding(0) var<storage, read_write> o: Outer;
@group(1) @binding(1) var<storage, read_write> mats: array<mat4x4<f32>>;
@group(1) @binding(2) var<storage, read_write> m32: array<mat3x2<f32>>;
@compute @workgroup_size(64)
fn shapes(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = id.x;
    let a = mats[i]; let b = mats[i + 1u];
    mats[i] = a * b + a - b * 2.0;
    v[i] = a * v[i] + v[i] * b + transpose(a)[u[i]];
    f[i] = determinant(a) + determinant(o.inner[1].m) + a[1][2] + a[i][i];
    let q = m32[i];
    m32[i] = q * mat3x3<f32>(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0);
    let t = transpose(q) * vec2<f32>(1.0, 2.0);
    v3[i] = t + o.inner[u[i]].b;
    o.inner[2].m[1] = t;
    o.tail[i][1].y = f32(arrayLength(&o.tail));
    o.inner[i] = o.inner[0];
    o.inner[1] = Inner(1.0, t, 2.0, 3.0, 4u, mat3x3<f32>());
}
@group(3) @binding(1) var<storage, read_write> count: atomic<u32>;
@group(3) @binding(2) var<storage, read_write> cells: array<atomic<i32>>;
@group(3) @binding(3) var<storage, read> table: array<u32, 16>;
struct Params { n: u32, k: vec3<f32> }
@group(3) @binding(4) var<uniform> params: Params;
@group(3) @binding(5) var<uniform> more: vec4<u32>;
var<workgroup> tile: array<vec3<f32>, 64>;
var<workgroup> sums: array<atomic<u32>, 4>;
var<workgroup> flag: bool;
var<private> seed: u32 = 7u;
const PRIMES = array<u32, 5>(2u, 3u, 5u, 7u, 11u);
const LIMIT: u32 = 100u;
fn next() -> u32 { seed = seed * 1664525u + 1013904223u; return seed; }
fn bump(p: ptr<function, u32>, q: ptr<private, u32>) { *p = *p + 1u; *q += *p; }
fn sum_to(n: u32) -> u32 {
    var total = 0u;
    for (var k = 0u; k < n; k++) {
        if (k % 3u == 0u) { continue; }
        if (k > LIMIT) { break; }
        total += u[k];
    }
    return total;
}
fn first(v: array<u32, 4>) -> u32 { return v[0] + v[3]; }
@compute @workgroup_size(64)
fn flow(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) li: u32, @builtin(local_invocation_id) l: vec3<u32>,
        @builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    var x = id.x + sum_to(more.y);
    bump(&x, &seed);
    let before = x;
    x = next();
    switch (x % 4u) {
        case 0u, 1u: { x += 1u; }
        case 2u: { if (before > 3u) { break; } x += 2u; }
        default: { x = 0u; }
    }
    var i = 0;
    loop {
        if (i == 3) { i += 2; continue; }
        let half = i / 2;
        x += u32(half);
        continuing {
            i += 1;
            let done = i > 10 + half;
            break if done;
        }
    }
    loop { x += 1u; if (x > 50u) { break; } }
    while (x > 3u) { x = x / 2u; }
    tile[li] = params.k * f32(x);
    tile[l.x].x += 1.0;
    atomicAdd(&sums[x & 3u], 1u);
    flag = true;
    workgroupBarrier();
    let all = workgroupUniformLoad(&flag);
    var arr = array<u32, 4>(1u, 2u, x, select(3u, 4u, all));
    arr[x] = 9u;
    u[id.x] = first(arr) + PRIMES[x] + table[i] + u32(tile[63u - li].y) + atomicLoad(&sums[1]) + nwg.x + wg.y;
    let old = atomicAdd(&cells[id.x], i);
    let ce = atomicCompareExchangeWeak(&cells[2], old, 5);
    if (ce.exchanged) { atomicStore(&count, u32(ce.old_value)); }
    atomicMax(&count, 3u); atomicMin(&count, 3u); atomicXor(&count, 3u); atomicOr(&count, 1u); atomicAnd(&count, 1u);
    let prev = atomicExchange(&count, 2u) + atomicSub(&count, 1u);
    storageBarrier();
    u[id.y] = prev;
}
