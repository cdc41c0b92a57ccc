use std::fmt::Display;

use crate::{Gguf, GgufError, LoadError, gguf::Shown};

/// The numbers that describe a network.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// How many tokens a text may have.
    pub(crate) context: usize,
    /// Length of the vector that stands for a token.
    pub(crate) width: usize,
    pub(crate) layers: usize,
    pub(crate) heads: usize,
    /// Pairs of keys and values; each serves `heads / kv_heads` heads.
    pub(crate) kv_heads: usize,
    /// Length of a query, key or value.
    pub(crate) head_width: usize,
    pub(crate) hidden: usize,
    pub(crate) epsilon: f32,
    /// Pairs of a query's or key's elements that turn with the position.
    pub(crate) rope_pairs: usize,
    pub(crate) rope_base: f32,
}

impl Config {
    pub(super) fn read(gguf: &Gguf) -> Result<Self, LoadError> {
        refuse_what_is_missing_here(gguf)?;

        let context = positive(gguf, "llama.context_length")?;
        let width = positive(gguf, "llama.embedding_length")?;
        let heads = positive(gguf, "llama.attention.head_count")?;
        let kv_heads = optional(gguf, "llama.attention.head_count_kv")?.unwrap_or(heads);
        if !heads.is_multiple_of(kv_heads) {
            let expected = format!("a divisor of the {heads} heads");
            return Err(wrong("llama.attention.head_count_kv", kv_heads, expected));
        }

        let head_width = match optional(gguf, "llama.attention.key_length")? {
            Some(length) => length,
            None if width.is_multiple_of(heads) => width / heads,
            None => {
                let expected = format!("a divisor of llama.embedding_length {width}");
                return Err(wrong("llama.attention.head_count", heads, expected));
            }
        };
        if let Some(length) = optional(gguf, "llama.attention.value_length")?
            && length != head_width
        {
            let expected = format!("{head_width}, the length of keys");
            return Err(wrong("llama.attention.value_length", length, expected));
        }

        let rope = optional(gguf, "llama.rope.dimension_count")?.unwrap_or(head_width);
        if rope > head_width || !rope.is_multiple_of(2) {
            let expected = format!("even and at most {head_width}, the length of keys");
            return Err(wrong("llama.rope.dimension_count", rope, expected));
        }
        let epsilon = gguf.require("llama.attention.layer_norm_rms_epsilon", Gguf::f32)?;
        if !(0.0..1.0).contains(&epsilon) {
            let expected = "from 0 to below 1";
            return Err(wrong("llama.attention.layer_norm_rms_epsilon", epsilon, expected));
        }
        let rope_base = gguf.f32("llama.rope.freq_base")?.unwrap_or(10_000.0);
        if !(1.0..f32::INFINITY).contains(&rope_base) {
            return Err(wrong("llama.rope.freq_base", rope_base, "finite and at least 1"));
        }
        Ok(Self {
            context: context as usize,
            width: width as usize,
            layers: positive(gguf, "llama.block_count")? as usize,
            heads: heads as usize,
            kv_heads: kv_heads as usize,
            head_width: head_width as usize,
            hidden: positive(gguf, "llama.feed_forward_length")? as usize,
            epsilon,
            rope_pairs: rope as usize / 2,
            rope_base,
        })
    }
}

/// Variants of the architecture that would load and then write nonsense.
fn refuse_what_is_missing_here(gguf: &Gguf) -> Result<(), LoadError> {
    refuse_scaled_positions(gguf)?;
    if let Some(count) = gguf.u32("llama.expert_count")?.filter(|&count| count > 0) {
        let evidence = format!("llama.expert_count is {count}");
        return Err(LoadError::Feature { feature: "a mixture of experts", evidence });
    }
    Ok(())
}

/// Scaling needs no `scaling.type`: without one, llama.cpp takes it for linear,
/// and some keys it heeds whatever the type.
fn refuse_scaled_positions(gguf: &Gguf) -> Result<(), LoadError> {
    let refused =
        |evidence| Err(LoadError::Feature { feature: "scaling of rotary positions", evidence });
    let kind = gguf.string("llama.rope.scaling.type")?;
    if let Some(kind) = kind.filter(|&kind| kind != "none") {
        return refused(format!("llama.rope.scaling.type is \"{}\"", Shown(kind)));
    }
    for key in gguf.keys() {
        let Some(part) = key.strip_prefix("llama.rope.") else { continue };
        let neutral: fn(f32) -> bool = match part {
            // A divisor of positions, which 0 leaves alone. `scale_linear` is the
            // key's older name.
            "scaling.factor" | "scale_linear" => |x| x.to_bits() == 1.0_f32.to_bits() || x == 0.0,
            "scaling.attn_factor" | "scaling.yarn_attn_factor" => {
                |x| x.to_bits() == 1.0_f32.to_bits()
            }
            // How much of YaRN is mixed in, less than none being left to the type.
            "scaling.yarn_ext_factor" => |x| x <= 0.0,
            "scaling.yarn_log_multiplier" => |x| x == 0.0,
            // Only of use to types that are refused above.
            "scaling.type" | "scaling.original_context_length" | "scaling.finetuned" => continue,
            _ if part.starts_with("scaling.") => {
                return refused(format!("the file has the key '{}'", Shown(key)));
            }
            _ => continue,
        };
        if let Some(number) = gguf.f32(key)?.filter(|&number| !neutral(number)) {
            return refused(format!("{key} is {number}"));
        }
    }
    for name in ["rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"] {
        if gguf.tensor(name).is_some() {
            return refused(format!("the file has the tensor '{name}'"));
        }
    }
    Ok(())
}

fn optional(gguf: &Gguf, key: &str) -> Result<Option<u32>, LoadError> {
    match gguf.u32(key)? {
        Some(0) => Err(wrong(key, 0, "positive")),
        number => Ok(number),
    }
}

fn positive(gguf: &Gguf, key: &str) -> Result<u32, LoadError> {
    optional(gguf, key)?.ok_or_else(|| GgufError::MissingKey { key: key.to_owned() }.into())
}

fn wrong(key: &str, found: impl Display, expected: impl Into<String>) -> LoadError {
    let found = format!("{found}");
    LoadError::Value { key: key.to_owned(), found, expected: expected.into() }
}
