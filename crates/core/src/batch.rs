use thiserror::Error;

use crate::{Chain, SampleError, TokenId};

/// Many requests at once: a [`Chain`] for each row of logits.
///
/// Rows come and go between any two steps. A row's chain has its own seed, random
/// streams and history, and shares none of them: what it chooses depends on its own
/// logits and on nothing else in the batch, whatever its place, the neighbours, or
/// the number of threads.
///
/// The memory in which candidates are worked on belongs to the threads, so that a row
/// costs what its chain remembers. Clones of one chain share what its stages have
/// prepared for the vocabulary; [`Chain::reseed`] gives each a seed of its own.
///
/// ```
/// # use logitchain_core::*;
/// # #[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
/// # struct First {}
/// # impl Sampler for First { fn apply(&mut self, c: &mut Candidates<'_>) { c.choose(c.best().id); } }
/// # impl Stage for First {
/// #     const NAME: &'static str = "first";
/// #     const KIND: Kind = Kind::Select;
/// #     fn build(self, _: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> { Ok(Box::new(self)) }
/// # }
/// # let registry = Registry::default().with::<First>()?;
/// let template = ChainConfig::from_samplers("first")?.build(&registry, &NoVocab)?;
/// let mut batch = Batch::default();
/// for seed in [7, 8] {
///     let mut chain = template.clone();
///     chain.reseed(seed)?;
///     batch.push(chain);
/// }
/// // Two rows of three logits, of which the model pads each to four.
/// let mut logits = [0.5, 2.0, 1.0, 0.0, f32::NAN, 0.0, 0.0, 0.0];
/// let tokens = batch.sample(&mut logits, 3, 4)?;
/// assert_eq!(tokens[0], Ok(TokenId(1)));
/// assert!(tokens[1].is_err());
///
/// batch.chain_mut(0).expect("row 0").accept(TokenId(1));
/// batch.remove(1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Batch {
    chains: Vec<Chain>,
    tokens: Vec<Result<TokenId, SampleError>>,
}

/// Logits that are no rows for the batch.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BatchError {
    /// A row of no logits.
    #[error("rows of 0 logits: give the size of the vocabulary")]
    NoVocabulary,
    /// Rows overlap.
    #[error("rows of {vocab} logits cannot begin {stride} apart: a stride is {vocab} at least")]
    Stride {
        /// Logits in a row.
        vocab: usize,
        /// From the beginning of a row to the next one's.
        stride: usize,
    },
    /// Some rows have no logits, or some logits no row.
    #[error(
        "{given} logits for {rows} rows of {vocab}, {stride} apart: give {} or, with the last \
         row padded, {}",
        least(*rows, *vocab, *stride), rows.saturating_mul(*stride)
    )]
    Length {
        /// Logits given.
        given: usize,
        /// Rows in the batch.
        rows: usize,
        /// Logits in a row.
        vocab: usize,
        /// From the beginning of a row to the next one's.
        stride: usize,
    },
}

/// The logits of so many rows, the last of which is not padded.
fn least(rows: usize, vocab: usize, stride: usize) -> usize {
    match rows {
        0 => 0,
        rows => (rows - 1).saturating_mul(stride).saturating_add(vocab),
    }
}

impl Batch {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.chains.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.chains.is_empty()
    }

    /// Adds a row at the end.
    pub fn push(&mut self, chain: Chain) {
        self.chains.push(chain);
    }

    /// Takes a row out; those after it move up. `None` if there is no such row.
    pub fn remove(&mut self, row: usize) -> Option<Chain> {
        (row < self.len()).then(|| self.chains.remove(row))
    }

    /// Takes a row out, and puts the last one in its place. `None` if there is no such
    /// row.
    pub fn swap_remove(&mut self, row: usize) -> Option<Chain> {
        (row < self.len()).then(|| self.chains.swap_remove(row))
    }

    /// Exchanges two rows. Returns whether there are both; if not, all stay.
    #[must_use = "rows that are not there are not exchanged"]
    pub fn swap(&mut self, a: usize, b: usize) -> bool {
        let both = a.max(b) < self.len();
        if both {
            self.chains.swap(a, b);
        }
        both
    }

    /// The chains, row by row.
    pub fn chains(&self) -> &[Chain] {
        &self.chains
    }

    /// The chain of a row, such as to tell it of a token.
    pub fn chain_mut(&mut self, row: usize) -> Option<&mut Chain> {
        self.chains.get_mut(row)
    }

    /// Picks the next token of every row, one after the other, without accepting it.
    ///
    /// A row has `vocab` logits, the index being the token id, and begins `stride`
    /// after the one before; the last may lack its padding. The logits are worked in
    /// and left overwritten.
    ///
    /// The result has an entry for each row. One that fails leaves the others as they
    /// are.
    ///
    /// # Errors
    ///
    /// If the logits do not fit the rows; then none is sampled.
    pub fn sample(
        &mut self,
        logits: &mut [f32],
        vocab: usize,
        stride: usize,
    ) -> Result<&[Result<TokenId, SampleError>], BatchError> {
        self.check(logits.len(), vocab, stride)?;
        self.tokens.clear();
        let rows = self.chains.iter_mut().zip(logits.chunks_mut(stride));
        self.tokens.extend(rows.map(|(chain, logits)| chain.sample(&mut logits[..vocab])));
        Ok(&self.tokens)
    }

    /// As [`sample`](Self::sample), on all threads of the rayon pool in which it is
    /// called: [`ThreadPool::install`](rayon::ThreadPool::install) chooses one. The
    /// tokens are the same.
    ///
    /// A step that is called from within the pool allocates nothing after a while; from
    /// outside, handing it over does now and then.
    ///
    /// # Errors
    ///
    /// As there.
    #[cfg(feature = "rayon")]
    pub fn par_sample(
        &mut self,
        logits: &mut [f32],
        vocab: usize,
        stride: usize,
    ) -> Result<&[Result<TokenId, SampleError>], BatchError> {
        use rayon::prelude::*;

        self.check(logits.len(), vocab, stride)?;
        self.tokens.resize(self.chains.len(), Err(SampleError::Empty));
        // Rows differ in what they cost, so each is to be had on its own.
        let rows = self.chains.par_iter_mut().zip(&mut self.tokens).with_max_len(1);
        rows.zip(logits.par_chunks_mut(stride))
            .for_each(|((chain, token), logits)| *token = chain.sample(&mut logits[..vocab]));
        Ok(&self.tokens)
    }

    fn check(&self, given: usize, vocab: usize, stride: usize) -> Result<(), BatchError> {
        let rows = self.len();
        if vocab == 0 {
            return Err(BatchError::NoVocabulary);
        }
        if stride < vocab {
            return Err(BatchError::Stride { vocab, stride });
        }
        let fits = given == least(rows, vocab, stride) || Some(given) == rows.checked_mul(stride);
        if fits { Ok(()) } else { Err(BatchError::Length { given, rows, vocab, stride }) }
    }
}
