use logitchain_core::TokenId;

use super::{Config, Layer, Llama};
use crate::{
    math::{Rotation, rms_norm, softmax, swiglu},
    threads::{Split, Threads},
    weights::{Batch, Simd, dot, multiply},
};

/// The keys and values of a text's tokens, in `f32`. They grow with the text.
#[derive(Clone, Debug)]
pub(crate) struct State {
    positions: usize,
    /// For each layer, for each of its kv heads.
    layers: Vec<Vec<Head>>,
    head_width: usize,
}

/// Keys and values, position after position.
#[derive(Clone, Debug, Default)]
struct Head {
    keys: Vec<f32>,
    values: Vec<f32>,
}

impl State {
    pub(crate) fn new(config: &Config) -> Self {
        let layer = vec![Head::default(); config.kv_heads];
        let layers = vec![layer; config.layers];
        Self { positions: 0, layers, head_width: config.head_width }
    }

    /// Number of tokens.
    pub(crate) fn len(&self) -> usize {
        self.positions
    }

    /// Forgets all tokens from `position` on.
    pub(crate) fn truncate(&mut self, position: usize) {
        self.positions = self.positions.min(position);
        let length = self.positions * self.head_width;
        for head in self.layers.iter_mut().flatten() {
            head.keys.truncate(length);
            head.values.truncate(length);
        }
    }
}

/// Memory that a computation uses and the next can use again.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    batch: Batch,
    hidden: Vec<f32>,
    query: Vec<f32>,
    key: Vec<f32>,
    value: Vec<f32>,
    gate: Vec<f32>,
    up: Vec<f32>,
    change: Vec<f32>,
}

impl Llama {
    /// About how many multiplications a token takes.
    pub(crate) fn work_per_token(&self) -> usize {
        let Config { width, heads, kv_heads, head_width, hidden, .. } = self.config;
        let layer = width * (2 * (heads + kv_heads) * head_width + 3 * hidden);
        layer * self.layers.len() + width * self.vocabulary()
    }

    /// Appends tokens to a text. They must be within the vocabulary.
    pub(crate) fn append(
        &self,
        tokens: &[TokenId],
        threads: &Threads,
        state: &mut State,
        scratch: &mut Scratch,
    ) {
        let width = self.config.width;
        scratch.hidden.resize(tokens.len() * width, 0.0);
        for (hidden, token) in scratch.hidden.chunks_exact_mut(width).zip(tokens) {
            self.embedding.decode_row(token.index(), hidden);
        }
        let positions = state.positions..state.positions + tokens.len();
        let rotation = |p| Rotation::new(p, self.config.rope_pairs, self.config.rope_base);
        let rotations: Vec<Rotation> = positions.clone().map(rotation).collect();

        for (layer, heads) in self.layers.iter().zip(&mut state.layers) {
            self.attend(layer, heads, &rotations, threads, scratch);
            self.feed_forward(layer, threads, scratch);
        }
        state.positions = positions.end;
    }

    /// The logits of what may follow the token that was appended last.
    pub(crate) fn logits(&self, threads: &Threads, scratch: &mut Scratch, out: &mut Vec<f32>) {
        let width = self.config.width;
        let Scratch { hidden, batch, .. } = scratch;
        let last = hidden.len() - width;
        self.normalise(&hidden[last..], &self.norm, batch);
        multiply(threads, batch, [(&self.output, out)]);
    }

    /// Lets each token look at those before it, and at itself.
    fn attend(
        &self,
        layer: &Layer,
        heads: &mut [Head],
        rotations: &[Rotation],
        threads: &Threads,
        scratch: &mut Scratch,
    ) {
        let Scratch { batch, hidden, query, key, value, change, .. } = scratch;
        let width = self.config.head_width;
        self.normalise(hidden, &layer.attention_norm, batch);
        let products = [(&layer.query, &mut *query), (&layer.key, key), (&layer.value, value)];
        multiply(threads, batch, products);

        // All tokens' keys come first: how many are appended at a time does
        // not show in what a token sees, because it sees only earlier ones.
        let before = heads[0].keys.len() / width;
        let queries = query.chunks_exact_mut(self.config.heads * width);
        let keys = key.chunks_exact_mut(heads.len() * width);
        let values = value.chunks_exact(heads.len() * width);
        for (((queries, keys), values), rotation) in queries.zip(keys).zip(values).zip(rotations) {
            for query in queries.chunks_exact_mut(width) {
                rotation.apply(query);
            }
            let pairs = keys.chunks_exact_mut(width).zip(values.chunks_exact(width));
            for (head, (key, value)) in heads.iter_mut().zip(pairs) {
                rotation.apply(key);
                head.keys.extend_from_slice(key);
                head.values.extend_from_slice(value);
            }
        }

        let out = batch.refill(rotations.len(), self.config.heads * width);
        let shared = self.config.heads / self.config.kv_heads;
        let heads = &*heads;
        let look = |index: usize, out: &mut [f32]| {
            let (token, head) = (index / self.config.heads, index % self.config.heads);
            let query = &query[index * width..][..width];
            look_back(query, &heads[head / shared], before + token + 1, out);
        };
        let tasks = out.chunks_exact_mut(width).enumerate();
        match threads
            .split(rotations.len() * (before + rotations.len()) * self.config.heads * width)
        {
            Split::Whole => tasks.for_each(|(index, out)| look(index, out)),
            Split::Parts(_) => threads.for_each(tasks.collect(), |(index, out)| look(index, out)),
        }

        multiply(threads, batch, [(&layer.attention_output, &mut *change)]);
        add(hidden, change);
    }

    fn feed_forward(&self, layer: &Layer, threads: &Threads, scratch: &mut Scratch) {
        let Scratch { batch, hidden, gate, up, change, .. } = scratch;
        self.normalise(hidden, &layer.feed_forward_norm, batch);
        let products = [(&layer.gate, &mut *gate), (&layer.up, &mut *up)];
        multiply(threads, batch, products);
        swiglu(gate, up);
        batch.refill(gate.len() / self.config.hidden, self.config.hidden).copy_from_slice(gate);
        multiply(threads, batch, [(&layer.down, &mut *change)]);
        add(hidden, change);
    }

    /// Fills the batch with normalised vectors.
    fn normalise(&self, hidden: &[f32], weights: &[f32], batch: &mut Batch) {
        let width = self.config.width;
        let out = batch.refill(hidden.len() / width, width);
        let simd = Simd::detect();
        for (x, out) in hidden.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
            rms_norm(simd, x, weights, self.config.epsilon, out);
        }
    }
}

/// The mean of the first `count` values, weighted by how well their keys fit
/// the query.
fn look_back(query: &[f32], head: &Head, count: usize, out: &mut [f32]) {
    let simd = Simd::detect();
    let width = query.len();
    let scale = 1.0 / (width as f32).sqrt();
    let keys = head.keys.chunks_exact(width).take(count);
    let mut weights: Vec<f32> = keys.map(|key| dot(simd, query, key) * scale).collect();
    softmax(&mut weights);
    out.fill(0.0);
    for (weight, value) in weights.iter().zip(head.values.chunks_exact(width)) {
        for (out, x) in out.iter_mut().zip(value) {
            *out += weight * x;
        }
    }
}

fn add(to: &mut [f32], numbers: &[f32]) {
    for (to, number) in to.iter_mut().zip(numbers) {
        *to += number;
    }
}
