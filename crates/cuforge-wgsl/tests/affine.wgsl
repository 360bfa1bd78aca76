// affine: output[i] = input[i] * scale + bias, for i < n.
struct Affine {
    n: u32,
    scale: f32,
    bias: f32,
}

@group(0) @binding(0) var<storage, read> input: array<f32>;
@group(0) @binding(1) var<storage, read_write> output: array<f32>;
@group(0) @binding(2) var<uniform> params: Affine;

override CUFORGE_BLOCK_X: u32 = 256;
override NEGATE: bool = false;

@compute @workgroup_size(CUFORGE_BLOCK_X)
fn affine(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = id.x;
    if (i < params.n) {
        let y = input[i] * params.scale + params.bias;
        output[i] = select(y, -y, NEGATE);
    }
}
