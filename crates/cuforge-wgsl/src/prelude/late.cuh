// Functions of vectors as a whole, made of those of scalars and of components.

//@ modf: fract_of trunc
template <class R, class T>
__device__ R modf(T x) { return R{fract_of(x), trunc(x)}; }

//@ frexp: frexp_fract frexp_exp
template <class R, class T>
__device__ R frexp(T x) { return R{frexp_fract(x), frexp_exp(x)}; }

//@ cross
template <class T>
__device__ vec3<T> cross(vec3<T> a, vec3<T> b) {
    return vec3<T>(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x);
}

//@ length_of: abs sqrt
template <class T>
__device__ T length_of(T x) { return abs(x); }
template <class T, template <class> class V>
__device__ T length_of(V<T> v) { return sqrt(dot(v, v)); }

//@ distance: length_of
template <class T>
__device__ auto distance(T a, T b) { return length_of(a - b); }

//@ normalize: length_of
template <class T, template <class> class V>
__device__ V<T> normalize(V<T> v) { return v * (T(1) / length_of(v)); }

//@ face_forward
template <class V>
__device__ V face_forward(V e1, V e2, V e3) { return dot(e2, e3) < 0 ? e1 : -e1; }

//@ reflect
template <class T, template <class> class V>
__device__ V<T> reflect(V<T> e1, V<T> e2) { return e1 - e2 * (T(2) * dot(e2, e1)); }

//@ refract: sqrt
template <class T, template <class> class V>
__device__ V<T> refract(V<T> e1, V<T> e2, T e3) {
    const T cosine = dot(e2, e1);
    const T k = T(1) - e3 * e3 * (T(1) - cosine * cosine);
    return k < T(0) ? V<T>(T(0)) : e1 * e3 - e2 * (e3 * cosine + sqrt(k));
}
