use super::{Architecture, Biases, PLAIN};

pub(super) const QWEN2: Architecture = Architecture {
    name: "qwen2",
    models: "Qwen1.5, Qwen2, Qwen2.5, DeepSeek-R1-Distill-Qwen",
    biases: Biases::Attention,
    ..PLAIN
};

pub(super) const QWEN3: Architecture =
    Architecture { name: "qwen3", models: "Qwen3 without experts", head_norms: true, ..PLAIN };
