//! The keys and values of a text's tokens.

use half::{f16, slice::HalfFloatSliceExt as _};

use super::Config;

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
    /// For each layer, for each of its kv heads.
    pub(super) layers: Vec<Vec<Head>>,
    head_width: usize,
}

/// Keys and values, position after position.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub(super) keys: Numbers,
    pub(super) values: Numbers,
}

#[derive(Clone, Debug)]
pub(super) enum Numbers {
    F16(Vec<f16>),
    F32(Vec<f32>),
}

impl State {
    pub(crate) fn new(config: &Config, kind: CacheType) -> Self {
        let head = Head { keys: Numbers::new(kind), values: Numbers::new(kind) };
        let layer = vec![head; config.kv_heads];
        let layers = vec![layer; config.layers.len()];
        Self { positions: 0, layers, head_width: config.head_width }
    }

    /// Number of tokens.
    pub(crate) fn len(&self) -> usize {
        self.positions
    }

    /// What a token takes.
    pub(crate) fn bytes_per_token(config: &Config, kind: CacheType) -> usize {
        let size = match kind {
            CacheType::F16 => size_of::<f16>(),
            CacheType::F32 => size_of::<f32>(),
        };
        2 * config.layers.len() * config.kv_heads * config.head_width * size
    }

    /// Makes room for a text of so many tokens, and for no more.
    pub(crate) fn reserve(&mut self, positions: usize) {
        let more = positions.saturating_sub(self.positions) * self.head_width;
        for head in self.layers.iter_mut().flatten() {
            head.keys.reserve(more);
            head.values.reserve(more);
        }
    }

    /// Counts tokens whose keys and values have been appended.
    pub(super) fn advance(&mut self, tokens: usize) {
        self.positions += tokens;
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

impl Head {
    /// The same numbers, as they are computed with.
    pub(super) fn in_f32(&self) -> Self {
        Self { keys: self.keys.in_f32(), values: self.values.in_f32() }
    }
}

impl Numbers {
    fn new(kind: CacheType) -> Self {
        match kind {
            CacheType::F16 => Self::F16(Vec::new()),
            CacheType::F32 => Self::F32(Vec::new()),
        }
    }

    pub(super) fn append(&mut self, numbers: &[f32]) {
        match self {
            Self::F32(own) => own.extend_from_slice(numbers),
            Self::F16(own) => {
                let start = own.len();
                own.resize(start + numbers.len(), f16::ZERO);
                own[start..].convert_from_f32_slice(numbers);
            }
        }
    }

    fn in_f32(&self) -> Self {
        Self::F32(match self {
            Self::F32(own) => own.clone(),
            Self::F16(own) => own.to_f32_vec(),
        })
    }

    pub(super) fn is_f32(&self) -> bool {
        matches!(self, Self::F32(_))
    }

    fn reserve(&mut self, more: usize) {
        match self {
            Self::F32(own) => own.reserve_exact(more),
            Self::F16(own) => own.reserve_exact(more),
        }
    }

    fn truncate(&mut self, length: usize) {
        match self {
            Self::F32(own) => own.truncate(length),
            Self::F16(own) => own.truncate(length),
        }
    }
}

/// A number as it is remembered.
pub(super) trait Stored: Copy {
    /// Memory in which so many numbers can be read.
    fn spare(count: usize) -> Vec<f32>;

    /// The numbers, in `spare` if they are not as they should be.
    fn read<'a>(numbers: &'a [Self], spare: &'a mut [f32]) -> &'a [f32];
}

impl Stored for f32 {
    fn spare(_: usize) -> Vec<f32> {
        Vec::new()
    }

    fn read<'a>(numbers: &'a [Self], _: &'a mut [f32]) -> &'a [f32] {
        numbers
    }
}

impl Stored for f16 {
    fn spare(count: usize) -> Vec<f32> {
        vec![0.0; count]
    }

    fn read<'a>(numbers: &'a [Self], spare: &'a mut [f32]) -> &'a [f32] {
        numbers.convert_to_f32_slice(spare);
        spare
    }
}
