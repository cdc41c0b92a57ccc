use super::{Architecture, Biases, PLAIN, Pairs, RopeFactors};

pub(super) const LLAMA: Architecture = Architecture {
    name: "llama",
    models: "Llama 1 to 3, Mistral, SmolLM and SmolLM2, TinyLlama",
    pairs: Pairs::Neighbours,
    rope_factors: RopeFactors::Optional,
    biases: Biases::Optional,
    ..PLAIN
};

pub(super) const MISTRAL3: Architecture = Architecture {
    name: "mistral3",
    models: "Ministral 3",
    yarn_multiplier: true,
    position_temperature: true,
    ..LLAMA
};

pub(super) const SMOLLM3: Architecture = Architecture {
    name: "smollm3",
    models: "SmolLM3",
    pairs: Pairs::Neighbours,
    unturned_every: Some(4),
    ..PLAIN
};
