use super::{Architecture, PLAIN, RopeFactors};

pub(super) const PHI3: Architecture = Architecture {
    name: "phi3",
    models: "Phi-3, Phi-3.5, Phi-4",
    rope_factors: RopeFactors::LongAndShort,
    gate_in_up: true,
    // Files say wrong windows, for which reason llama.cpp leaves them out too.
    without_effect: &["attention.sliding_window"],
    ..PLAIN
};
