use logitchain_core::TokenId;

use super::{
    Config, Layer, State, Transformer,
    attention::{Look, Sharing},
    rope::{Rope, Rotation},
};
use crate::{
    math::{rms_norm, soft_cap},
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

/// Tokens to append to a text.
#[derive(Debug)]
pub(crate) struct Piece<'a> {
    pub(crate) tokens: &'a [TokenId],
    pub(crate) state: &'a mut State,
}

/// Where a token stands.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// In which of the pieces.
    piece: usize,
    /// In its text.
    position: usize,
}

/// The tokens that are appended, of all pieces in turn: where they stand, and the turns
/// of their positions.
struct Rows {
    places: Vec<Place>,
    whole: Vec<Rotation>,
    /// In layers with a window, if they turn otherwise.
    windowed: Option<Vec<Rotation>>,
}

/// What is done to a number between two products takes as long as so many
/// multiplications.
const WORK: usize = 32;

impl Transformer {
    /// About how many multiplications a token takes.
    pub(crate) fn work_per_token(&self) -> usize {
        let Config { width, heads, kv_heads, head_width, hidden, .. } = self.config;
        let layer = width * (2 * (heads + kv_heads) * head_width + 3 * hidden);
        layer * self.layers.len() + width * self.vocabulary()
    }

    /// Appends tokens to texts, of each as many as are given: the weights are read once
    /// for all. No text's numbers depend on the others. Tokens must be within the
    /// vocabulary.
    pub(crate) fn append(
        &self,
        pieces: &mut [Piece<'_>],
        threads: &Threads,
        scratch: &mut Scratch,
    ) {
        let width = self.config.width;
        let tokens = || pieces.iter().flat_map(|piece| piece.tokens);
        scratch.hidden.resize(tokens().count() * width, 0.0);
        for (hidden, token) in scratch.hidden.chunks_exact_mut(width).zip(tokens()) {
            self.embedding.decode_row(token.index(), hidden);
        }
        if self.architecture.scales_embedding {
            let scale = (width as f32).sqrt();
            scratch.hidden.iter_mut().for_each(|x| *x *= scale);
        }
        let places: Vec<Place> = pieces
            .iter()
            .enumerate()
            .flat_map(|(at, piece)| {
                let positions = piece.state.len()..piece.state.len() + piece.tokens.len();
                positions.map(move |position| Place { piece: at, position })
            })
            .collect();
        let turns = |rope: &Rope| places.iter().map(|place| rope.at(place.position)).collect();
        let (whole, windowed) = (turns(&self.rope), self.window_rope.as_ref().map(turns));
        let rows = Rows { places, whole, windowed };
        for (index, layer) in self.layers.iter().enumerate() {
            self.attend(layer, index, pieces, &rows, threads, scratch);
            self.feed_forward(layer, threads, scratch);
        }
        for piece in pieces {
            piece.state.advance(piece.tokens.len());
        }
    }

    /// The logits of what may follow some of the tokens that were appended last, given
    /// by their numbers: for each of them in turn, one per vocabulary entry.
    pub(crate) fn logits(
        &self,
        rows: &[usize],
        threads: &Threads,
        scratch: &mut Scratch,
        out: &mut Vec<f32>,
    ) {
        let width = self.config.width;
        let Scratch { hidden, batch, .. } = scratch;
        let vectors = rows.iter().map(|row| &hidden[row * width..][..width]);
        self.normalise(vectors, &self.norm, threads, batch);
        multiply(threads, batch, [(&self.output, out)]);
        if let Some(cap) = self.config.logit_cap {
            soft_cap(Simd::detect(), out, cap);
        }
    }

    /// Lets each token look at those before it, and at itself.
    fn attend(
        &self,
        layer: &Layer,
        index: usize,
        pieces: &mut [Piece<'_>],
        rows: &Rows,
        threads: &Threads,
        scratch: &mut Scratch,
    ) {
        let Scratch { batch, hidden, query, key, value, change, spare, .. } = scratch;
        let places = &rows.places[..];
        let Config { heads: queries, kv_heads: count, head_width: width, .. } = self.config;
        self.normalise(
            hidden.chunks_exact(self.config.width),
            &layer.attention_norm,
            threads,
            batch,
        );
        let products = [(&layer.query, &mut *query), (&layer.key, key), (&layer.value, value)];
        multiply(threads, batch, products);
        add_to_each(query, layer.query_bias.as_deref());
        add_to_each(key, layer.key_bias.as_deref());
        add_to_each(value, layer.value_bias.as_deref());
        self.normalise_each(query, layer.query_norm.as_deref(), spare);
        self.normalise_each(key, layer.key_norm.as_deref(), spare);

        if layer.config.turned {
            let windowed = rows.windowed.as_ref().filter(|_| layer.config.window.is_some());
            for (at, rotation) in windowed.unwrap_or(&rows.whole).iter().enumerate() {
                for (numbers, heads) in [(&mut *query, queries), (&mut *key, count)] {
                    let token = &mut numbers[at * heads * width..][..heads * width];
                    token.chunks_exact_mut(width).for_each(|head| rotation.apply(head));
                }
            }
        }
        if let Some(temperature) = &self.config.position_temperature {
            for (token, place) in query.chunks_exact_mut(queries * width).zip(places) {
                let factor = temperature.at(place.position);
                token.iter_mut().for_each(|x| *x *= factor);
            }
        }
        // All tokens' keys come first: how many are appended at a time does
        // not show in what a token sees, because it sees only earlier ones.
        let pairs = key.chunks_exact(width).zip(value.chunks_exact(width));
        for (at, (key, value)) in pairs.enumerate() {
            let Place { piece, position } = places[at / count];
            pieces[piece].state.layers[index].append(at % count, position, key, value);
        }

        let out = batch.refill(places.len(), queries * width);
        self.look_back(layer, index, pieces, places, query, threads, out);
        multiply(threads, batch, [(&layer.attention_output, &mut *change)]);
        add_to_each(change, layer.attention_output_bias.as_deref());
        self.normalise_each(change, layer.attention_post_norm.as_deref(), spare);
        add(hidden, change);
    }

    /// Answers the queries of all tokens.
    #[allow(clippy::too_many_arguments, reason = "a part of what attends")]
    fn look_back(
        &self,
        layer: &Layer,
        index: usize,
        pieces: &[Piece<'_>],
        places: &[Place],
        query: &[f32],
        threads: &Threads,
        out: &mut [f32],
    ) {
        let Config { heads: queries, kv_heads: count, head_width: width, .. } = self.config;
        // Twice as many multiplications, and several times as many bytes for each
        // as in a product with weights.
        let seen: usize = places.iter().map(|place| place.position + 1).sum();
        let work = 4 * seen * queries * width;
        let sharing = Sharing { heads: queries, kv_heads: count };
        let together = match threads.split(work) {
            Split::Whole => sharing.whole(),
            Split::Parts(parts) => sharing.in_parts(parts.div_ceil(pieces.len() * count)),
        };
        let tokens = places.iter().map(|&Place { piece, position }| {
            let end = position + 1;
            let start = layer.config.window.map_or(0, |window| end.saturating_sub(window));
            (piece, start..end)
        });
        let tasks = sharing.tasks(together, tokens, query, out);
        let look = Look { scale: self.config.attention_scale, cap: self.config.attention_cap };
        threads.each(work, tasks.into_iter(), |mut task| {
            let heads = &pieces[task.text].state.layers[index];
            look.back(heads, task.head, &mut task.queries);
        });
    }

    fn feed_forward(&self, layer: &Layer, threads: &Threads, scratch: &mut Scratch) {
        let Scratch { batch, hidden, gate, up, change, spare, .. } = scratch;
        self.normalise(
            hidden.chunks_exact(self.config.width),
            &layer.feed_forward_norm,
            threads,
            batch,
        );
        let products = [(&layer.gate, &mut *gate), (&layer.up, &mut *up)];
        multiply(threads, batch, products);
        add_to_each(gate, layer.gate_bias.as_deref());
        add_to_each(up, layer.up_bias.as_deref());
        let hidden_width = self.config.hidden;
        let rows = gate.chunks_exact_mut(hidden_width).zip(up.chunks_exact(hidden_width));
        threads.each(WORK * up.len(), rows, |(gate, up)| {
            self.architecture.activation.apply(gate, up);
        });
        batch.refill(gate.len() / self.config.hidden, self.config.hidden).copy_from_slice(gate);
        multiply(threads, batch, [(&layer.down, &mut *change)]);
        add_to_each(change, layer.down_bias.as_deref());
        self.normalise_each(change, layer.feed_forward_post_norm.as_deref(), spare);
        add(hidden, change);
    }

    /// Fills the batch with normalised vectors.
    fn normalise<'a>(
        &self,
        vectors: impl ExactSizeIterator<Item = &'a [f32]>,
        weights: &[f32],
        threads: &Threads,
        batch: &mut Batch,
    ) {
        let width = self.config.width;
        let out = batch.refill(vectors.len(), width);
        let work = WORK * out.len();
        threads.each(work, vectors.zip(out.chunks_exact_mut(width)), |(x, out)| {
            rms_norm(Simd::detect(), x, weights, self.config.epsilon, out);
        });
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
