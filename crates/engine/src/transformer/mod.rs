//! Transformers: RMS norms, attention with shared keys and values and rotary
//! positions, and gated feed-forward networks.
//!
//! There is one forward pass. What an architecture has beyond others is data in
//! `architectures/`, and its numbers are in the file.

mod activation;
mod architectures;
mod attention;
mod cache;
mod config;
mod forward;
mod keys;
mod rope;
mod tensors;
#[cfg(test)]
mod tests;
mod vectors;

pub use self::cache::CacheType;
pub(crate) use self::{
    architectures::{Architecture, KNOWN},
    cache::State,
    config::Config,
    forward::{Piece, Scratch},
};
use self::{
    architectures::{Biases, RopeFactors},
    config::LayerConfig,
    rope::Rope,
    tensors::Tensors,
};
use crate::{Gguf, LoadError, weights::Matrix};

/// The weights of a network.
#[derive(Debug)]
pub(crate) struct Transformer {
    architecture: &'static Architecture,
    config: Config,
    embedding: Matrix,
    layers: Vec<Layer>,
    rope: Rope,
    /// That of layers with a window, if it is another one.
    window_rope: Option<Rope>,
    norm: Vec<f32>,
    /// The embedding, if the file has no other.
    output: Matrix,
}

#[derive(Debug)]
struct Layer {
    config: LayerConfig,
    attention_norm: Vec<f32>,
    query: Matrix,
    query_bias: Option<Vec<f32>>,
    query_norm: Option<Vec<f32>>,
    key: Matrix,
    key_bias: Option<Vec<f32>>,
    key_norm: Option<Vec<f32>>,
    value: Matrix,
    value_bias: Option<Vec<f32>>,
    attention_output: Matrix,
    attention_output_bias: Option<Vec<f32>>,
    attention_post_norm: Option<Vec<f32>>,
    feed_forward_norm: Vec<f32>,
    gate: Matrix,
    gate_bias: Option<Vec<f32>>,
    up: Matrix,
    up_bias: Option<Vec<f32>>,
    down: Matrix,
    down_bias: Option<Vec<f32>>,
    feed_forward_post_norm: Option<Vec<f32>>,
}

impl Transformer {
    /// Finds all weights and checks that they fit together. `context` shortens
    /// the file's.
    pub(crate) fn load(
        gguf: &Gguf,
        architecture: &'static Architecture,
        context: Option<usize>,
    ) -> Result<Self, LoadError> {
        let config = Config::read(gguf, architecture, context)?;
        let width = config.width;
        let mut tensors = Tensors::new(gguf);
        let vocabulary = tensors.rows("token_embd.weight")?;
        let embedding = tensors.matrix("token_embd.weight", width, vocabulary)?;
        let mut layers = Vec::new();
        for (index, layer) in config.layers.iter().enumerate() {
            layers.push(Layer::load(&mut tensors, architecture, &config, index, *layer)?);
        }
        let (rope, window_rope) = load_ropes(&mut tensors, architecture, &config)?;
        let norm = tensors.vector("output_norm.weight", width)?;
        let output = match tensors.has("output.weight") {
            true => tensors.matrix("output.weight", width, vocabulary)?,
            false => embedding.clone(),
        };
        tensors.check_that_all_are_used(architecture)?;
        Ok(Self { architecture, config, embedding, layers, rope, window_rope, norm, output })
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// Number of tokens that can be read and are scored.
    pub(crate) fn vocabulary(&self) -> usize {
        self.embedding.rows()
    }
}

impl Layer {
    fn load(
        tensors: &mut Tensors<'_>,
        architecture: &Architecture,
        config: &Config,
        index: usize,
        layer: LayerConfig,
    ) -> Result<Self, LoadError> {
        let &Config { width, hidden, head_width, .. } = config;
        // No tensor has as many rows as a product that overflows.
        let queries = config.heads.saturating_mul(head_width);
        let keys = config.kv_heads.saturating_mul(head_width);
        let name = |part: &str| format!("blk.{index}.{part}.weight");
        let bias = |tensors: &mut Tensors<'_>, part: &str, length| {
            let name = format!("blk.{index}.{part}.bias");
            let of_attention = matches!(part, "attn_q" | "attn_k" | "attn_v");
            match architecture.biases {
                Biases::Attention if of_attention => tensors.vector(&name, length).map(Some),
                Biases::Optional => tensors.vector_if_there(&name, length),
                Biases::None | Biases::Attention => Ok(None),
            }
        };
        let norm = |tensors: &mut Tensors<'_>, part: &str, there: bool, length| {
            there.then(|| tensors.vector(&name(part), length)).transpose()
        };
        let head_norms = architecture.head_norms;
        let post_norms = architecture.post_norms;

        let attention_norm = tensors.vector(&name("attn_norm"), width)?;
        let [query, key, value] = match tensors.has(&name("attn_qkv")) {
            true => tensors.stacked(&name("attn_qkv"), width, [queries, keys, keys])?,
            false => [
                tensors.matrix(&name("attn_q"), width, queries)?,
                tensors.matrix(&name("attn_k"), width, keys)?,
                tensors.matrix(&name("attn_v"), width, keys)?,
            ],
        };
        let attention_output = tensors.matrix(&name("attn_output"), queries, width)?;
        let feed_forward_norm = tensors.vector(&name("ffn_norm"), width)?;
        let [gate, up] = match architecture.gate_in_up {
            true => tensors.stacked(&name("ffn_up"), width, [hidden, hidden])?,
            false => [
                tensors.matrix(&name("ffn_gate"), width, hidden)?,
                tensors.matrix(&name("ffn_up"), width, hidden)?,
            ],
        };
        Ok(Self {
            config: layer,
            attention_norm,
            query,
            query_bias: bias(tensors, "attn_q", queries)?,
            query_norm: norm(tensors, "attn_q_norm", head_norms, head_width)?,
            key,
            key_bias: bias(tensors, "attn_k", keys)?,
            key_norm: norm(tensors, "attn_k_norm", head_norms, head_width)?,
            value,
            value_bias: bias(tensors, "attn_v", keys)?,
            attention_output,
            attention_output_bias: bias(tensors, "attn_output", width)?,
            attention_post_norm: norm(tensors, "post_attention_norm", post_norms, width)?,
            feed_forward_norm,
            gate,
            gate_bias: bias(tensors, "ffn_gate", hidden)?,
            up,
            up_bias: bias(tensors, "ffn_up", hidden)?,
            down: tensors.matrix(&name("ffn_down"), hidden, width)?,
            down_bias: bias(tensors, "ffn_down", width)?,
            feed_forward_post_norm: norm(tensors, "post_ffw_norm", post_norms, width)?,
        })
    }
}

/// The rotary positions of all layers, and of those with a window if they have
/// others.
fn load_ropes(
    tensors: &mut Tensors<'_>,
    architecture: &Architecture,
    config: &Config,
) -> Result<(Rope, Option<Rope>), LoadError> {
    let rope = &config.rope;
    let mut list = |name: &str| -> Result<_, LoadError> {
        let list = tensors.vector_if_there(name, rope.pairs)?;
        match list.iter().flatten().find(|x| !(x.is_finite() && **x > 0.0)) {
            Some(found) => {
                Err(LoadError::RopeFactor { tensor: name.to_owned(), found: found.to_string() })
            }
            None => Ok(list),
        }
    };
    let factors = match architecture.rope_factors {
        RopeFactors::Optional if !rope.scaling.longrope => list("rope_freqs.weight")?,
        RopeFactors::Optional | RopeFactors::LongAndShort => {
            let [long, short] = ["long", "short"].map(|kind| format!("rope_factors_{kind}.weight"));
            let (long, short) = (list(&long)?, list(&short)?);
            // As in llama.cpp, by how long a text may become, so that the same
            // text has the same logits however it grows.
            let original = rope.scaling.original_context;
            if original.is_some_and(|original| config.context > original) { long } else { short }
        }
        RopeFactors::None => None,
    };
    let pairs = architecture.pairs;
    let whole = Rope::new(pairs, rope.pairs, rope.base, &rope.scaling, factors.as_deref());
    let windowed = architecture.windows.map(|_| {
        Rope::new(pairs, rope.pairs, rope.window_base, &rope.window_scaling, factors.as_deref())
    });
    Ok((whole, windowed))
}
