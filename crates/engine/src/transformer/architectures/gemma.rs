use super::{Architecture, Cap, PLAIN, Windows};
use crate::transformer::activation::Activation;

pub(super) const GEMMA: Architecture = Architecture {
    name: "gemma",
    models: "Gemma, CodeGemma",
    activation: Activation::GeluTanh,
    scales_embedding: true,
    ..PLAIN
};

pub(super) const GEMMA2: Architecture = Architecture {
    name: "gemma2",
    models: "Gemma 2",
    post_norms: true,
    windows: Some(Windows { size: Some(4096), every: 2, rope_base: None }),
    attention_cap: Cap::Default(50.0),
    logit_cap: Cap::Default(30.0),
    // 27B
    scaled_by_width: Some(46),
    ..GEMMA
};

pub(super) const GEMMA3: Architecture = Architecture {
    name: "gemma3",
    models: "Gemma 3, text only",
    head_norms: true,
    post_norms: true,
    windows: Some(Windows { size: None, every: 6, rope_base: Some(10_000.0) }),
    logit_cap: Cap::Optional,
    // 27B
    scaled_by_width: Some(62),
    ..GEMMA
};
