use logitchain_core::TokenId;

use super::{
    Config, Layer, State, Transformer, activation::soft_cap, attention::Look, cache::Head,
    rope::Rotation,
};
use crate::{
    math::rms_norm,
    threads::{Split, Threads},
    weights::{Batch, Simd, multiply},
};

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
    spare: Vec<f32>,
}

/// The turns of some positions.
struct Rotations {
    whole: Vec<Rotation>,
    /// In layers with a window, if they turn otherwise.
    windowed: Option<Vec<Rotation>>,
}

impl Transformer {
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
        if self.architecture.scales_embedding {
            let scale = (width as f32).sqrt();
            scratch.hidden.iter_mut().for_each(|x| *x *= scale);
        }
        let before = state.len();
        let positions = before..before + tokens.len();
        let rotations = Rotations {
            whole: positions.clone().map(|p| self.rope.at(p)).collect(),
            windowed: self
                .window_rope
                .as_ref()
                .map(|rope| positions.map(|position| rope.at(position)).collect()),
        };
        for (layer, heads) in self.layers.iter().zip(&mut state.layers) {
            self.attend(layer, heads, before, &rotations, threads, scratch);
            self.feed_forward(layer, threads, scratch);
        }
        state.advance(tokens.len());
    }

    /// The logits of what may follow the token that was appended last.
    pub(crate) fn logits(&self, threads: &Threads, scratch: &mut Scratch, out: &mut Vec<f32>) {
        let width = self.config.width;
        let Scratch { hidden, batch, .. } = scratch;
        let last = hidden.len() - width;
        self.normalise(&hidden[last..], &self.norm, batch);
        multiply(threads, batch, [(&self.output, out)]);
        if let Some(cap) = self.config.logit_cap {
            soft_cap(out, cap);
        }
    }

    /// Lets each token look at those before it, and at itself.
    fn attend(
        &self,
        layer: &Layer,
        heads: &mut [Head],
        before: usize,
        rotations: &Rotations,
        threads: &Threads,
        scratch: &mut Scratch,
    ) {
        let Scratch { batch, hidden, query, key, value, change, spare, .. } = scratch;
        let Config { heads: queries, head_width: width, .. } = self.config;
        self.normalise(hidden, &layer.attention_norm, batch);
        let products = [(&layer.query, &mut *query), (&layer.key, key), (&layer.value, value)];
        multiply(threads, batch, products);
        add_to_each(query, layer.query_bias.as_deref());
        add_to_each(key, layer.key_bias.as_deref());
        add_to_each(value, layer.value_bias.as_deref());
        self.normalise_each(query, layer.query_norm.as_deref(), spare);
        self.normalise_each(key, layer.key_norm.as_deref(), spare);

        let tokens = query.len() / (queries * width);
        if layer.config.turned {
            let windowed = rotations.windowed.as_ref().filter(|_| layer.config.window.is_some());
            for (at, rotation) in windowed.unwrap_or(&rotations.whole).iter().enumerate() {
                for (numbers, heads) in [(&mut *query, queries), (&mut *key, heads.len())] {
                    let token = &mut numbers[at * heads * width..][..heads * width];
                    token.chunks_exact_mut(width).for_each(|head| rotation.apply(head));
                }
            }
        }
        if let Some(temperature) = &self.config.position_temperature {
            for (at, token) in query.chunks_exact_mut(queries * width).enumerate() {
                let factor = temperature.at(before + at);
                token.iter_mut().for_each(|x| *x *= factor);
            }
        }
        // All tokens' keys come first: how many are appended at a time does
        // not show in what a token sees, because it sees only earlier ones.
        let count = heads.len();
        let pairs = key.chunks_exact(width).zip(value.chunks_exact(width));
        for (at, (key, value)) in pairs.enumerate() {
            heads[at % count].keys.append(key);
            heads[at % count].values.append(value);
        }

        let out = batch.refill(tokens, queries * width);
        let shared = queries / count;
        // For many queries, what they look at is made ready once.
        let ready: Vec<Head>;
        let heads = match tokens > 1 && !heads[0].keys.is_f32() {
            true => {
                ready = heads.iter().map(Head::in_f32).collect();
                &ready
            }
            false => &*heads,
        };
        let look = Look { scale: self.config.attention_scale, cap: self.config.attention_cap };
        let look = |index: usize, out: &mut [f32]| {
            let (token, head) = (index / queries, index % queries);
            let query = &query[index * width..][..width];
            let end = before + token + 1;
            let start = layer.config.window.map_or(0, |window| end.saturating_sub(window));
            look.back(query, &heads[head / shared], start..end, out);
        };
        let tasks = out.chunks_exact_mut(width).enumerate();
        // Twice as many multiplications, and several times as many bytes for each
        // as in a product with weights.
        match threads.split(4 * tokens * (before + tokens) * queries * width) {
            Split::Whole => tasks.for_each(|(index, out)| look(index, out)),
            Split::Parts(_) => threads.for_each(tasks.collect(), |(index, out)| look(index, out)),
        }

        multiply(threads, batch, [(&layer.attention_output, &mut *change)]);
        add_to_each(change, layer.attention_output_bias.as_deref());
        self.normalise_each(change, layer.attention_post_norm.as_deref(), spare);
        add(hidden, change);
    }

    fn feed_forward(&self, layer: &Layer, threads: &Threads, scratch: &mut Scratch) {
        let Scratch { batch, hidden, gate, up, change, spare, .. } = scratch;
        self.normalise(hidden, &layer.feed_forward_norm, batch);
        let products = [(&layer.gate, &mut *gate), (&layer.up, &mut *up)];
        multiply(threads, batch, products);
        add_to_each(gate, layer.gate_bias.as_deref());
        add_to_each(up, layer.up_bias.as_deref());
        self.architecture.activation.apply(gate, up);
        batch.refill(gate.len() / self.config.hidden, self.config.hidden).copy_from_slice(gate);
        multiply(threads, batch, [(&layer.down, &mut *change)]);
        add_to_each(change, layer.down_bias.as_deref());
        self.normalise_each(change, layer.feed_forward_post_norm.as_deref(), spare);
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

    /// Normalises vectors where they are, if there are weights for it.
    fn normalise_each(&self, numbers: &mut [f32], weights: Option<&[f32]>, spare: &mut Vec<f32>) {
        let Some(weights) = weights else { return };
        let simd = Simd::detect();
        spare.resize(weights.len(), 0.0);
        for vector in numbers.chunks_exact_mut(weights.len()) {
            rms_norm(simd, vector, weights, self.config.epsilon, spare);
            vector.copy_from_slice(spare);
        }
    }
}

/// Adds a bias to each vector, if there is one.
fn add_to_each(numbers: &mut [f32], bias: Option<&[f32]>) {
    if let Some(bias) = bias {
        numbers.chunks_exact_mut(bias.len()).for_each(|vector| add(vector, bias));
    }
}

fn add(to: &mut [f32], numbers: &[f32]) {
    for (to, number) in to.iter_mut().zip(numbers) {
        *to += number;
    }
}
