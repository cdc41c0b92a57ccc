//! The keys and values of a text's tokens.

use std::ops::Range;

use half::f16;

use super::{
    Config,
    vectors::{LANES, Vectors},
};

/// How a text's keys and values are remembered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheType {
    /// In 16 bits each, as llama.cpp does by default.
    #[default]
    F16,
    /// In 32 bits each, as they are computed.
    F32,
}

/// The keys and values of a text's tokens. They grow with the text.
#[derive(Clone, Debug)]
pub(crate) struct State {
    positions: usize,
    pub(super) layers: Vec<Heads>,
}

/// The kv heads of a layer.
#[derive(Clone, Debug)]
pub(super) enum Heads {
    F16(Vec<Head<f16>>),
    F32(Vec<Head<f32>>),
}

/// Keys and values of a head.
///
/// Keys lie in blocks of as many positions as kernels take side by side: the first
/// element of all of them, then the second, and so on; the last block may have room for
/// more. Values lie one position after the other, filled up with zeros to whole vectors.
#[derive(Clone, Debug)]
pub(super) struct Head<T> {
    keys: Vec<T>,
    values: Vec<T>,
    width: usize,
}

impl State {
    pub(crate) fn new(config: &Config, kind: CacheType) -> Self {
        let width = config.head_width;
        let layer = match kind {
            CacheType::F16 => Heads::F16(vec![Head::new(width); config.kv_heads]),
            CacheType::F32 => Heads::F32(vec![Head::new(width); config.kv_heads]),
        };
        let layers = vec![layer; config.layers.len()];
        Self { positions: 0, layers }
    }

    /// Number of tokens.
    pub(crate) fn len(&self) -> usize {
        self.positions
    }

    /// What so many tokens take.
    pub(crate) fn bytes(config: &Config, kind: CacheType, tokens: usize) -> usize {
        let size = match kind {
            CacheType::F16 => size_of::<f16>(),
            CacheType::F32 => size_of::<f32>(),
        };
        let width = config.head_width;
        let values = tokens.saturating_mul(width.next_multiple_of(LANES));
        let numbers = key_room(tokens, width).saturating_add(values);
        numbers.saturating_mul(config.layers.len() * config.kv_heads * size)
    }

    /// Its first tokens, at most so many.
    pub(crate) fn prefix(&self, positions: usize) -> Self {
        let positions = self.positions.min(positions);
        let layers = self.layers.iter().map(|layer| match layer {
            Heads::F16(heads) => Heads::F16(heads.iter().map(|h| h.prefix(positions)).collect()),
            Heads::F32(heads) => Heads::F32(heads.iter().map(|h| h.prefix(positions)).collect()),
        });
        Self { positions, layers: layers.collect() }
    }

    /// Makes room for a text of so many tokens, and for no more.
    pub(crate) fn reserve(&mut self, positions: usize) {
        self.for_each_head(|head| head.reserve(positions));
    }

    /// Gives back the memory beyond its tokens.
    pub(crate) fn shrink(&mut self) {
        self.for_each_head(|head| head.shrink());
    }

    /// Counts tokens whose keys and values have been appended.
    pub(super) fn advance(&mut self, tokens: usize) {
        self.positions += tokens;
    }

    /// Forgets all tokens from `position` on.
    pub(crate) fn truncate(&mut self, position: usize) {
        self.positions = self.positions.min(position);
        let positions = self.positions;
        self.for_each_head(|head| head.truncate(positions));
    }

    fn for_each_head(&mut self, act: impl Fn(&mut dyn Memory)) {
        for layer in &mut self.layers {
            match layer {
                Heads::F16(heads) => heads.iter_mut().for_each(|head| act(head)),
                Heads::F32(heads) => heads.iter_mut().for_each(|head| act(head)),
            }
        }
    }
}

impl Heads {
    /// Appends a key and a value to a head that has so many.
    pub(super) fn append(&mut self, head: usize, position: usize, key: &[f32], value: &[f32]) {
        match self {
            Self::F16(heads) => heads[head].append(position, key, value),
            Self::F32(heads) => heads[head].append(position, key, value),
        }
    }
}

/// The numbers of all blocks of so many keys.
fn key_room(positions: usize, width: usize) -> usize {
    positions.div_ceil(LANES).saturating_mul(LANES * width)
}

impl<T: Stored> Head<T> {
    fn new(width: usize) -> Self {
        Self { keys: Vec::new(), values: Vec::new(), width }
    }

    /// The blocks of keys from position `first` on, which begins one.
    pub(super) fn keys(&self, first: usize, positions: usize) -> &[T] {
        &self.keys[first * self.width..][..positions * self.width]
    }

    pub(super) fn values(&self, positions: &Range<usize>) -> &[T] {
        let width = self.value_width();
        &self.values[positions.start * width..positions.end * width]
    }

    /// The numbers of a value, with those that fill up its last vector.
    pub(super) fn value_width(&self) -> usize {
        self.width.next_multiple_of(LANES)
    }

    fn append(&mut self, position: usize, key: &[f32], value: &[f32]) {
        let (block, lane) = (position / LANES * LANES * self.width, position % LANES);
        self.keys.resize(key_room(position + 1, self.width), T::default());
        let (block, _) = self.keys[block..].as_chunks_mut::<LANES>();
        for (to, number) in block.iter_mut().zip(key) {
            to[lane] = T::from(*number);
        }
        let width = self.value_width();
        self.values.resize(position * width, T::default());
        self.values.extend(value.iter().map(|number| T::from(*number)));
        self.values.resize((position + 1) * width, T::default());
    }

    /// The numbers of so many keys, and of so many values.
    fn rooms(&self, positions: usize) -> (usize, usize) {
        (key_room(positions, self.width), positions * self.value_width())
    }

    fn prefix(&self, positions: usize) -> Self {
        let (keys, values) = self.rooms(positions);
        let (keys, values) = (self.keys[..keys].to_vec(), self.values[..values].to_vec());
        Self { keys, values, width: self.width }
    }
}

/// What a head does with its memory, however it remembers numbers.
trait Memory {
    fn reserve(&mut self, positions: usize);
    fn shrink(&mut self);
    fn truncate(&mut self, positions: usize);
}

impl<T: Stored> Memory for Head<T> {
    fn reserve(&mut self, positions: usize) {
        let (keys, values) = self.rooms(positions);
        self.keys.reserve_exact(keys.saturating_sub(self.keys.len()));
        self.values.reserve_exact(values.saturating_sub(self.values.len()));
    }

    fn shrink(&mut self) {
        self.keys.shrink_to_fit();
        self.values.shrink_to_fit();
    }

    fn truncate(&mut self, positions: usize) {
        let (keys, values) = self.rooms(positions);
        self.keys.truncate(keys);
        self.values.truncate(values);
    }
}

/// A number as it is remembered.
pub(super) trait Stored: Copy + Default {
    /// The nearest to a number.
    fn from(number: f32) -> Self;

    /// To compute with.
    fn load<V: Vectors>(vectors: V, numbers: &[Self; LANES]) -> V::Vector;
}

impl Stored for f32 {
    #[inline(always)]
    fn from(number: f32) -> Self {
        number
    }

    #[inline(always)]
    fn load<V: Vectors>(vectors: V, numbers: &[Self; LANES]) -> V::Vector {
        vectors.load_f32(numbers)
    }
}

impl Stored for f16 {
    #[inline(always)]
    fn from(number: f32) -> Self {
        Self::from_f32(number)
    }

    #[inline(always)]
    fn load<V: Vectors>(vectors: V, numbers: &[Self; LANES]) -> V::Vector {
        vectors.load_f16(numbers)
    }
}
