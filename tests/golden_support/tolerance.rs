//! By how much a logit may differ from llama.cpp's.

use serde_json::Value;

use super::data::{double, text};

/// What a stage may add to the relative difference of a logit.
///
/// Nothing, for all stages that only compare, add, multiply or divide, nor for
/// DRY, which rounds a power in `f64`: their logits are the same bit for bit.
fn of_stage(sampler: &Value) -> f32 {
    match text(&sampler["sampler"]) {
        // The temperature follows the entropy, which llama.cpp sums in `f32`:
        // every logit is off by that sum's relative error.
        "temp_ext" if double(&sampler["delta"]) > 0.0 => 1e-5,
        // Logits from probabilities: an exponential function, and a sum in
        // `f32` where ours is in `f64`.
        "adaptive_p" if double(&sampler["target"]) >= 0.0 => 4e-6,
        _ => 0.0,
    }
}

/// Whether two logits are the same after the given samplers.
pub(crate) fn same(chain: &[Value], a: f32, b: f32) -> bool {
    let tolerance: f32 = chain.iter().map(of_stage).sum();
    if tolerance == 0.0 {
        // Only 0 and -0 have other bits; they are a tie, and can change places.
        return a == b;
    }
    (a - b).abs() <= tolerance * a.abs().max(b.abs())
}
