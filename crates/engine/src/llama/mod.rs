//! The llama architecture: RMS norms, attention with shared keys and values
//! and rotary positions, and a gated feed-forward network.

mod config;
mod forward;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use self::config::Config;
pub(crate) use self::forward::{Scratch, State};
use crate::{
    Gguf, LoadError,
    gguf::Shown,
    weights::{Matrix, format_names},
};

/// The weights of a network.
#[derive(Debug)]
pub(crate) struct Llama {
    config: Config,
    embedding: Matrix,
    layers: Vec<Layer>,
    norm: Vec<f32>,
    /// The embedding, if the file has no other.
    output: Matrix,
}

#[derive(Debug)]
struct Layer {
    attention_norm: Vec<f32>,
    query: Matrix,
    key: Matrix,
    value: Matrix,
    attention_output: Matrix,
    feed_forward_norm: Vec<f32>,
    gate: Matrix,
    up: Matrix,
    down: Matrix,
}

impl Llama {
    pub(crate) const NAME: &'static str = "llama";

    /// Finds all weights and checks that they fit together.
    pub(crate) fn load(gguf: &Gguf) -> Result<Self, LoadError> {
        let config = Config::read(gguf)?;
        let Config { width, hidden, .. } = config;
        // No tensor has as many rows as a product that overflows.
        let queries = config.heads.saturating_mul(config.head_width);
        let keys = config.kv_heads.saturating_mul(config.head_width);

        let mut tensors = Tensors { gguf, used: BTreeSet::new() };
        let vocabulary = tensors.rows("token_embd.weight")?;
        let embedding = tensors.matrix("token_embd.weight", width, vocabulary)?;
        let mut layers = Vec::new();
        for i in 0..config.layers {
            let name = |part: &str| format!("blk.{i}.{part}.weight");
            layers.push(Layer {
                attention_norm: tensors.vector(&name("attn_norm"), width)?,
                query: tensors.matrix(&name("attn_q"), width, queries)?,
                key: tensors.matrix(&name("attn_k"), width, keys)?,
                value: tensors.matrix(&name("attn_v"), width, keys)?,
                attention_output: tensors.matrix(&name("attn_output"), queries, width)?,
                feed_forward_norm: tensors.vector(&name("ffn_norm"), width)?,
                gate: tensors.matrix(&name("ffn_gate"), width, hidden)?,
                up: tensors.matrix(&name("ffn_up"), width, hidden)?,
                down: tensors.matrix(&name("ffn_down"), hidden, width)?,
            });
        }
        let norm = tensors.vector("output_norm.weight", width)?;
        let output = match gguf.tensor("output.weight") {
            Some(_) => tensors.matrix("output.weight", width, vocabulary)?,
            None => embedding.clone(),
        };
        tensors.check_that_all_are_used()?;
        Ok(Self { config, embedding, layers, norm, output })
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// Number of tokens that can be read and are scored.
    pub(crate) fn vocabulary(&self) -> usize {
        self.embedding.rows()
    }
}

/// A file's tensors, of which none may be left over: a network that leaves out
/// a bias runs, and writes nonsense.
struct Tensors<'a> {
    gguf: &'a Gguf,
    used: BTreeSet<String>,
}

impl Tensors<'_> {
    /// Number of rows, whatever else is wrong.
    fn rows(&self, name: &str) -> Result<usize, LoadError> {
        let info = self.gguf.tensor(name);
        let info = info.ok_or_else(|| LoadError::MissingTensor { name: name.to_owned() })?;
        Ok(info.shape.get(1).copied().unwrap_or(1))
    }

    fn find(&mut self, name: &str, shape: &[usize]) -> Result<Matrix, LoadError> {
        let info = self.gguf.tensor(name);
        let info = info.ok_or_else(|| LoadError::MissingTensor { name: name.to_owned() })?;
        if info.shape != shape {
            return Err(LoadError::Shape {
                name: name.to_owned(),
                found: info.shape.clone(),
                expected: shape.to_vec(),
            });
        }
        self.used.insert(name.to_owned());
        let rows = shape.get(1).copied().unwrap_or(1);
        let data = self.gguf.tensor_data(info);
        Matrix::new(info.kind, data, rows, shape[0]).ok_or_else(|| LoadError::TensorType {
            name: name.to_owned(),
            found: info.kind.name(),
            supported: format_names(),
        })
    }

    fn matrix(&mut self, name: &str, columns: usize, rows: usize) -> Result<Matrix, LoadError> {
        self.find(name, &[columns, rows])
    }

    fn vector(&mut self, name: &str, length: usize) -> Result<Vec<f32>, LoadError> {
        let row = self.find(name, &[length])?;
        let mut numbers = vec![0.0; length];
        row.decode_row(0, &mut numbers);
        Ok(numbers)
    }

    fn check_that_all_are_used(&self) -> Result<(), LoadError> {
        let mut unused = self.gguf.tensors().filter(|(name, _)| !self.used.contains(*name));
        match unused.next() {
            Some((name, _)) => {
                let name = Shown(name).to_string();
                Err(LoadError::UnusedTensor { name, architecture: Llama::NAME })
            }
            None => Ok(()),
        }
    }
}
