use std::{num::NonZero, path::Path, sync::Arc, thread::available_parallelism};

use logitchain_core::{TokenId, Vocab};

use crate::{
    EMBEDDED_GGUF, EngineError, Gguf, GgufTokenizer, LoadError, Model, RecommendedSampling,
    Tokenizer,
    threads::Threads,
    transformer::{Architecture, CacheType, Piece, Scratch, State, Transformer},
};

/// How to load a model.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LoadOptions {
    /// How many threads compute; `None` for as many as the machine has. All
    /// sessions of the model share them. With 1, the caller's own thread
    /// computes. At most 512; the number never shows in a result.
    pub threads: Option<NonZero<usize>>,
    /// How many tokens a text may have, if fewer than the file says. Some
    /// models turn their positions otherwise for long texts, which this decides.
    pub context: Option<NonZero<usize>>,
    /// How a text's keys and values are remembered.
    pub cache: CacheType,
}

/// A model from a GGUF file. A clone shares everything.
///
/// The weights stay in the file, which is mapped into memory and must not be
/// changed meanwhile.
///
/// ```
/// use logitchain_engine::{GgufModel, Model, Special, Tokenizer};
///
/// let model = GgufModel::embedded();
/// let mut session = model.session();
/// let mut tokens = vec![model.tokenizer().beginning_of_text().expect("this model has one")];
/// tokens.extend(model.tokenizer().encode("In the beginning", Special::Plain));
/// let logits = session.forward(&tokens)?;
/// assert_eq!(logits.len(), 2048);
/// # Ok::<(), logitchain_engine::EngineError>(())
/// ```
#[derive(Clone, Debug)]
pub struct GgufModel {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    network: Transformer,
    tokenizer: GgufTokenizer,
    threads: Threads,
    cache: CacheType,
    recommended: Option<RecommendedSampling>,
}

impl GgufModel {
    /// The bytes that the keys and values of a text of so many tokens take.
    pub fn cache_bytes(&self, tokens: usize) -> usize {
        State::bytes(self.shared.network.config(), self.shared.cache, tokens)
    }

    /// How many tokens a text may have.
    pub fn context_length(&self) -> usize {
        self.shared.network.config().context
    }

    /// Whether a text can begin with these tokens.
    pub(crate) fn check(&self, tokens: &[TokenId]) -> Result<(), EngineError> {
        self.shared.check(0, tokens)
    }

    pub(crate) fn threads(&self) -> &Threads {
        &self.shared.threads
    }

    /// Computes, on the model's threads if a pass over so many tokens is worth it; they
    /// are then awake for all of it.
    pub(crate) fn run<R: Send>(&self, tokens: usize, compute: impl FnOnce() -> R + Send) -> R {
        let Shared { network, threads, .. } = &*self.shared;
        threads.run(network.work_per_token().saturating_mul(tokens), compute)
    }

    /// Loads the model of a GGUF file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is broken, or holds a model that the engine
    /// cannot run.
    pub fn load(path: &Path, options: &LoadOptions) -> Result<Self, EngineError> {
        Self::from_gguf(&Gguf::open(path)?, options)
    }

    /// Loads the model of a file that is already open.
    ///
    /// # Errors
    ///
    /// If it holds a model that the engine cannot run, or threads cannot be
    /// started.
    pub fn from_gguf(gguf: &Gguf, options: &LoadOptions) -> Result<Self, EngineError> {
        let architecture = gguf.require("general.architecture", Gguf::string)?;
        let architecture = Architecture::named(architecture)?;
        let context = options.context.map(NonZero::get);
        let network = Transformer::load(gguf, architecture, context)?;
        let tokenizer = GgufTokenizer::from_gguf(gguf)?;
        if tokenizer.size() != network.vocabulary() {
            let (tokens, scores) = (tokenizer.size(), network.vocabulary());
            return Err(LoadError::Vocabulary { tokens, scores }.into());
        }
        let key = format!("{}.vocab_size", architecture.name);
        if let Some(found) = gguf.u32(&key)?.filter(|&n| n as usize != tokenizer.size()) {
            let expected = format!("{}, the number of tokens", tokenizer.size());
            return Err(LoadError::Value { key, found: found.to_string(), expected }.into());
        }
        let threads = match options.threads {
            Some(count) => count.get(),
            None => available_parallelism().map_or(1, NonZero::get),
        };
        let threads = Threads::new(threads)?;
        let recommended = RecommendedSampling::read(gguf)?;
        let cache = options.cache;
        Ok(Self { shared: Arc::new(Shared { network, tokenizer, threads, cache, recommended }) })
    }

    /// The small model that is part of the program, computed by the caller's
    /// own thread: it is too small to be faster on more.
    #[allow(clippy::missing_panics_doc, reason = "never: the file is always the same")]
    pub fn embedded() -> Self {
        let options =
            LoadOptions { threads: Some(NonZero::<usize>::MIN), ..LoadOptions::default() };
        Gguf::from_static(EMBEDDED_GGUF)
            .map_err(EngineError::from)
            .and_then(|gguf| Self::from_gguf(&gguf, &options))
            .expect("the embedded model is sound: a test loads it")
    }

    /// The model's tokens.
    pub fn tokenizer(&self) -> &dyn Tokenizer {
        &self.shared.tokenizer
    }

    /// The settings for sampling that the model's maker recommends, if any.
    pub fn recommended_sampling(&self) -> Option<&RecommendedSampling> {
        self.shared.recommended.as_ref()
    }

    /// Begins a text.
    pub fn session(&self) -> Session {
        Session {
            state: State::new(self.shared.network.config(), self.shared.cache),
            shared: Arc::clone(&self.shared),
            scratch: Scratch::default(),
            logits: Vec::new(),
        }
    }
}

/// A text that a [`GgufModel`] continues.
///
/// It remembers a key and a value for each token, head and layer, in 16 bits
/// unless [`LoadOptions::cache`] says otherwise; the memory grows with the text. A
/// clone continues on its own from where the text is, and [`fork_at`](Self::fork_at)
/// from an earlier place.
///
/// A prompt may be given whole or in slices: the logits after the last slice
/// are the same, bit for bit.
#[derive(Debug)]
pub struct Session {
    shared: Arc<Shared>,
    state: State,
    scratch: Scratch,
    logits: Vec<f32>,
}

impl Clone for Session {
    fn clone(&self) -> Self {
        self.fork_at(self.len())
    }
}

impl Session {
    /// How many tokens of a prompt are computed at a time: each weight is read once for
    /// all of them. A prompt in slices of so many, or of a multiple, takes no longer
    /// than the whole, and lets the caller show how far it got.
    pub const CHUNK: usize = 128;

    /// Makes room for a text of so many tokens, and for no more.
    pub(crate) fn reserve(&mut self, tokens: usize) {
        self.state.reserve(tokens);
    }

    /// Gives back the memory that the text does not need.
    pub(crate) fn shrink(&mut self) {
        self.state.shrink();
        (self.scratch, self.logits) = (Scratch::default(), Vec::new());
    }

    /// Number of tokens in the text.
    pub(crate) fn len(&self) -> usize {
        self.state.len()
    }

    /// A text of its own that begins with the first `position` tokens of this one, or
    /// all of them if there are fewer: their keys and values are copied, not computed.
    ///
    /// The logits of whatever is appended to it are the same, bit for bit, as if the
    /// whole text had been read anew. So a prompt that begins as a text that is there
    /// already need be read from where the two part only; but the last token of it
    /// must be, for its logits.
    ///
    /// ```
    /// use logitchain_engine::{GgufModel, Model, Special, prompt_tokens};
    ///
    /// let model = GgufModel::embedded();
    /// let tokens = |text| prompt_tokens(model.tokenizer(), text, Special::Plain);
    /// let (old, new) = (tokens("The king said unto them")?, tokens("The king said: Nay")?);
    /// let mut session = model.session();
    /// session.forward(&old)?;
    ///
    /// let common = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    /// let common = common.min(new.len() - 1);
    /// let mut fork = session.fork_at(common);
    /// let logits = fork.forward(&new[common..])?;
    /// assert_eq!(logits, model.session().forward(&new)?);
    /// # Ok::<(), logitchain_engine::EngineError>(())
    /// ```
    pub fn fork_at(&self, position: usize) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            state: self.state.prefix(position),
            scratch: Scratch::default(),
            logits: Vec::new(),
        }
    }

    fn forward_in_chunks(&mut self, tokens: &[TokenId], chunk: usize) -> Result<(), EngineError> {
        let Self { shared, state, scratch, logits } = self;
        shared.check(state.len(), tokens)?;
        let Shared { network, threads, .. } = &**shared;
        let work = network.work_per_token() * tokens.len().min(chunk);
        threads.run(work, || {
            let mut last = 0;
            for tokens in tokens.chunks(chunk) {
                network.append(&mut [Piece { tokens, state }], threads, scratch);
                last = tokens.len() - 1;
            }
            network.logits(&[last], threads, scratch, logits);
        });
        Ok(())
    }
}

impl Shared {
    /// Whether tokens can be appended to a text of some length.
    fn check(&self, length: usize, tokens: &[TokenId]) -> Result<(), EngineError> {
        if tokens.is_empty() {
            return Err(EngineError::NoTokens);
        }
        let size = self.network.vocabulary();
        if let Some(&token) = tokens.iter().find(|token| token.index() >= size) {
            return Err(EngineError::UnknownToken { token, size });
        }
        let context = self.network.config().context;
        let left = context - length;
        if tokens.len() > left {
            return Err(EngineError::ContextFull { tokens: tokens.len(), left, context });
        }
        Ok(())
    }
}

/// What a step of several sessions at once works in, and its logits.
#[derive(Debug, Default)]
pub struct JointStep {
    scratch: Scratch,
    rows: Vec<usize>,
    logits: Vec<f32>,
}

impl JointStep {
    /// Appends tokens to the texts of several sessions of one model, reading the
    /// weights once for all, and scores what may come next in each: a row of one logit
    /// per vocabulary entry for each of the sessions, in their order. The memory may be
    /// overwritten at will.
    ///
    /// Every row has the bits that [`Model::forward`] gives the session alone.
    ///
    /// # Errors
    ///
    /// If the tokens of one are empty, hold an id outside the vocabulary, or do not fit
    /// into what is left of the context, or a session is another model's. Then no text
    /// has grown.
    ///
    /// ```
    /// use logitchain_core::TokenId;
    /// use logitchain_engine::{GgufModel, JointStep, Model};
    ///
    /// let model = GgufModel::embedded();
    /// let (mut a, mut b) = (model.session(), model.session());
    /// let (long, short) = ([1, 771, 262].map(TokenId), [1].map(TokenId));
    /// let mut step = JointStep::default();
    /// let logits = step.forward(&mut [(&mut a, &long), (&mut b, &short)])?;
    /// assert_eq!(logits.len(), 2 * 2048);
    /// let second = logits[2048..].to_vec();
    /// assert_eq!(second, model.session().forward(&short)?);
    /// # Ok::<(), logitchain_engine::EngineError>(())
    /// ```
    pub fn forward(
        &mut self,
        texts: &mut [(&mut Session, &[TokenId])],
    ) -> Result<&mut [f32], EngineError> {
        self.forward_for(texts, |_| true)
    }

    /// The rows of the last step.
    pub(crate) fn logits(&mut self) -> &mut [f32] {
        &mut self.logits
    }

    /// As [`forward`](Self::forward), with rows for some of the texts only, given by
    /// their numbers.
    pub(crate) fn forward_for(
        &mut self,
        texts: &mut [(&mut Session, &[TokenId])],
        wanted: impl Fn(usize) -> bool,
    ) -> Result<&mut [f32], EngineError> {
        let Self { scratch, rows, logits } = self;
        logits.clear();
        let Some((first, _)) = texts.first() else { return Ok(logits) };
        let shared = Arc::clone(&first.shared);
        let mut all = 0;
        rows.clear();
        for (at, (session, tokens)) in texts.iter().enumerate() {
            if !Arc::ptr_eq(&session.shared, &shared) {
                return Err(EngineError::AnotherModel);
            }
            shared.check(session.state.len(), tokens)?;
            all += tokens.len();
            if wanted(at) {
                rows.push(all - 1);
            }
        }
        let Shared { network, threads, .. } = &*shared;
        let mut pieces = Vec::with_capacity(texts.len());
        for (session, tokens) in texts {
            pieces.push(Piece { tokens, state: &mut session.state });
        }
        threads.run(network.work_per_token() * all, || {
            network.append(&mut pieces, threads, scratch);
            if !rows.is_empty() {
                network.logits(rows, threads, scratch, logits);
            }
        });
        Ok(logits)
    }
}

impl Model for Session {
    fn tokenizer(&self) -> &dyn Tokenizer {
        &self.shared.tokenizer
    }

    fn forward(&mut self, tokens: &[TokenId]) -> Result<&mut [f32], EngineError> {
        self.forward_in_chunks(tokens, Self::CHUNK)?;
        Ok(&mut self.logits)
    }

    fn position(&self) -> usize {
        self.state.len()
    }

    fn context_length(&self) -> Option<usize> {
        Some(self.shared.network.config().context)
    }

    fn rewind(&mut self, position: usize) {
        self.state.truncate(position);
    }
}

#[cfg(test)]
mod tests;
