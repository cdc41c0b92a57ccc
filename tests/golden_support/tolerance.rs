//! By how much a logit may differ from llama.cpp's.

use serde_json::Value;

use super::data::{double, text};

/// What a stage may add to the relative difference of a logit.
///
/// Nothing, for all stages that only compare, add, multiply or divide: their
/// logits are the same bit for bit.
fn of_stage(sampler: &Value) -> f32 {
    match text(&sampler["sampler"]) {
        // The penalty is a power, rounded to `f32`. A logit near 0 is what
        // remains of two larger numbers, hence more than one rounding.
        "dry" => 4e-7,
        // The temperature follows the entropy, which llama.cpp sums in `f32`:
        // every logit is off by that sum's relative error.
        "temp_ext" if double(&sampler["delta"]) > 0.0 => 2e-5,
        // Logits from probabilities: an exponential function, and a sum in
        // `f32` where ours is in `f64`.
        "adaptive_p" if double(&sampler["target"]) >= 0.0 => 2e-5,
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
    // Numbers that large are no more precise than this near 0 either.
    (a - b).abs() <= tolerance * a.abs().max(b.abs()).max(1.0)
}
