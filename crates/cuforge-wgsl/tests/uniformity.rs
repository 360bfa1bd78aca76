//! Barriers that all invocations of a workgroup reach together are taken, and those that only some may reach are refused.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail loudly in its helpers too")]

use cuforge_core::{KernelSpec, Schedule};
use cuforge_wgsl::{EmitError, emit};

const HEAD: &str = "
    struct P { n: u32, m: u32 }
    @group(0) @binding(0) var<storage, read> table: array<u32>;
    @group(0) @binding(1) var<storage, read_write> x: array<u32>;
    @group(0) @binding(2) var<uniform> p: P;
    var<workgroup> w: array<u32, 64>;
    var<workgroup> flag: u32;
    var<private> own: u32 = 1u;
    fn same(a: u32) -> u32 { return a * p.n; }
    fn meet(n: u32) { for (var i = 0u; i < n; i++) { workgroupBarrier(); } }
    fn early(a: u32) -> u32 { if (a > 3u) { return 1u; } return 2u; }
    fn put(a: ptr<function, u32>, b: u32) { *a = b; }
    fn keep(b: u32) { own = b; }
";

fn result(body: &str) -> Result<(), EmitError> {
    let source = format!(
        "{HEAD}
        @compute @workgroup_size(64)
        fn k(@builtin(local_invocation_index) li: u32, @builtin(workgroup_id) wg: vec3<u32>) {{
            x[li] = table[li] + p.m + w[li] + flag + own;
            {body}
        }}"
    );
    emit(&KernelSpec::wgsl("k", "k", source, vec![]), &Schedule::new([64, 1, 1])).map(|_| ())
}

#[test]
fn barriers_that_all_reach_together_are_taken() {
    for body in [
        "workgroupBarrier();",
        "if (wg.x > 3u) { workgroupBarrier(); }",
        "if (p.n > 3u) { workgroupBarrier(); } else { storageBarrier(); }",
        "if (table[wg.y] > 3u) { workgroupBarrier(); }",
        "for (var s = 32u; s > 0u; s /= 2u) { if (li < s) { w[li] += w[li + s]; } workgroupBarrier(); }",
        "for (var at = 0u; at < p.n; at += 16u) { w[li] = at; workgroupBarrier(); x[li] += w[63u - li]; workgroupBarrier(); }",
        // All meet again behind a branch, and behind a loop that each leaves when it likes.
        "if (li > 3u) { x[li] = 1u; } workgroupBarrier();",
        "for (var i = 0u; i < li; i++) { x[li] += i; } workgroupBarrier();",
        "loop { if (x[li] > 3u) { break; } x[li] += 1u; } workgroupBarrier();",
        "switch (li) { case 1u: { x[li] = 2u; } default: { if (li > 9u) { break; } x[li] = 3u; } } workgroupBarrier();",
        "let all = workgroupUniformLoad(&flag); if (all > 3u) { workgroupBarrier(); }",
        "if (same(wg.x) > 3u) { workgroupBarrier(); }",
        "meet(p.n); meet(3u);",
        "if (early(p.n) == 1u) { workgroupBarrier(); }",
        "if (early(li) == 1u) { x[li] = 1u; } workgroupBarrier();",
        "var a = li; put(&a, p.n); if (a > 3u) { workgroupBarrier(); }",
        "keep(li); keep(p.m); if (own > 3u) { workgroupBarrier(); }",
        "var a = array<u32, 2>(p.n, p.m); a[1] = wg.x; if (a[p.n] > 3u) { workgroupBarrier(); }",
        "switch (p.n) { case 1u: { workgroupBarrier(); } default: { break; } } workgroupBarrier();",
        "for (var i = 0u; i < p.n; i++) { switch (i) { case 1u: { continue; } default: { } } workgroupBarrier(); }",
        "if (p.n > 3u) { return; } workgroupBarrier();",
        "loop { workgroupBarrier(); continuing { own += 1u; break if own > p.n; } }",
    ] {
        result(body).unwrap_or_else(|error| panic!("{body}\n{error}"));
    }
}

#[test]
fn barriers_that_only_some_may_reach_are_refused() {
    for body in [
        "if (li > 3u) { workgroupBarrier(); }",
        "if (li > 3u) { storageBarrier(); }",
        "if (li > 3u) { x[li] = workgroupUniformLoad(&flag); }",
        "x[li] = workgroupUniformLoad(&w[li]);",
        "if (x[wg.x] > 3u) { workgroupBarrier(); }",
        "if (w[1] > 3u) { workgroupBarrier(); }",
        "if (table[li] > 3u) { workgroupBarrier(); }",
        "for (var i = 0u; i < li; i++) { workgroupBarrier(); }",
        "if (li > 3u) { return; } workgroupBarrier();",
        "for (var i = 0u; i < p.n; i++) { if (li == i) { return; } } workgroupBarrier();",
        "var a = 0u; if (li > 3u) { a = 1u; } if (a == 1u) { workgroupBarrier(); }",
        "var a = 0u; a = li; let b = a * 2u; if (b == 1u) { workgroupBarrier(); }",
        // In the loop those are missing that left it before, and behind it each has left at another turn.
        "loop { if (li > own) { break; } workgroupBarrier(); own += 1u; }",
        "loop { workgroupBarrier(); if (li > 3u) { break; } }",
        "var i = 0u; loop { if (i > li) { break; } i += 1u; } if (i == 3u) { workgroupBarrier(); }",
        "for (var i = 0u; i < p.n; i++) { if (li == i) { continue; } workgroupBarrier(); }",
        "for (var i = 0u; i < p.n; i++) { switch (li) { case 1u: { continue; } default: { } } workgroupBarrier(); }",
        "loop { workgroupBarrier(); continuing { break if li > 3u; } }",
        "switch (li) { case 1u: { workgroupBarrier(); } default: { } }",
        "switch (p.n) { case 1u: { if (li > 1u) { break; } workgroupBarrier(); } default: { } }",
        "if (li > 3u) { meet(1u); }",
        "meet(li);",
        "if (same(li) > 3u) { workgroupBarrier(); }",
        "if (early(li) == 1u) { workgroupBarrier(); }",
        "var a = p.n; put(&a, li); if (a > 3u) { workgroupBarrier(); }",
        "keep(li); if (own > 3u) { workgroupBarrier(); }",
        "var a = array<u32, 2>(p.n, p.m); a[1] = li; if (a[0] > 3u) { workgroupBarrier(); }",
        "var a = array<u32, 2>(1u, 2u); if (a[li] > 1u) { workgroupBarrier(); }",
        "var a = array<u32, 2>(1u, 2u); a[li & 1u] = 3u; if (a[1] > 1u) { workgroupBarrier(); }",
        "if (atomicAdd(&count, 1u) == 0u) { workgroupBarrier(); }",
        "if (subgroupAdd(1u) > 3u) { workgroupBarrier(); }",
    ] {
        let counted = body.contains("count");
        let error = if counted {
            let body = format!("{body}\n}}\nvar<workgroup> count: atomic<u32>;\nfn unused() {{");
            result(&body).unwrap_err()
        } else {
            result(body).err().unwrap_or_else(|| panic!("taken: {body}"))
        };
        assert!(matches!(error, EmitError::Divergent { place: Some(_) }), "{body}\n{error}");
    }
}
