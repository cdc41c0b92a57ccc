use std::{io, path::PathBuf};

use logitchain_core::{SampleError, TokenId};
use thiserror::Error;

use crate::{GgufError, LoadError, TokenizerError};

/// Why a model could not be loaded or run.
///
/// `Display` leaves the cause to `source`.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A call to a model gave it no tokens.
    #[error("no tokens to evaluate; a text needs at least one")]
    NoTokens,

    /// A token that the model does not have.
    #[error("the model has no token {token}; ids are below {size}")]
    UnknownToken {
        /// The token.
        token: TokenId,
        /// Number of tokens.
        size: usize,
    },

    /// A text is longer than the model can read.
    #[error("{tokens} more tokens do not fit: {left} of the model's {context} positions are left")]
    ContextFull {
        /// How many were to be appended.
        tokens: usize,
        /// How many would fit.
        left: usize,
        /// The model's limit.
        context: usize,
    },

    /// Texts of several models cannot be continued in one step.
    #[error("a session belongs to another model than the first: one step is of one model")]
    AnotherModel,

    /// A text needs more memory than there will ever be for it.
    #[error(
        "a text of this length needs {needed} bytes for its keys and values, and there are \
         {limit}: shorten the prompt, ask for fewer tokens, or allow more memory"
    )]
    CacheLimit {
        /// Bytes for all its tokens.
        needed: usize,
        /// Bytes for all texts together.
        limit: usize,
    },

    /// More threads than any use of them.
    #[error("{count} threads are too many; at most {limit} can be asked for")]
    TooManyThreads {
        /// How many were asked for.
        count: usize,
        /// How many may be.
        limit: usize,
    },

    /// The system does not give the threads that were asked for.
    #[error("cannot start {count} threads")]
    Threads {
        /// How many.
        count: usize,
        /// Why not.
        source: rayon::ThreadPoolBuildError,
    },

    /// A model that cannot be run.
    #[error(transparent)]
    Load(#[from] LoadError),

    /// A model's file cannot be read.
    #[error("cannot open the model '{}'", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },

    /// One of the files that make up a model is missing, or not what it should
    /// be.
    #[error("the model's part '{}' cannot be used", path.display())]
    Part {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: Box<Self>,
    },

    /// A model's file is not what it should be.
    #[error(transparent)]
    Gguf(#[from] GgufError),

    /// A generation was to begin from nothing.
    #[error("the prompt is empty, and the model has no token that begins a text")]
    EmptyPrompt,

    /// A prompt's character cannot be given to the model.
    #[error(
        "the model has no token for the character {character:?} (U+{:04X}), and none for unknown ones",
        u32::from(*character)
    )]
    Unspelled {
        /// The character.
        character: char,
    },

    /// An empty stop string would end every text before it begins.
    #[error("a stop string is empty; it needs at least one character")]
    EmptyStop,

    /// An n-gram model was to be counted from nothing.
    #[error("the text to count is empty")]
    EmptyCorpus,

    /// An n-gram model was to have no tokens at a time.
    #[error("an n-gram model's order is 0; it is at least 1, and 2 for a bigram model")]
    NgramOrder,

    /// A model without a chat template was to chat.
    #[error("the model has no chat template")]
    NoChatTemplate,

    /// A chat template is not one, refuses a conversation, or fails.
    #[error("the chat template is faulty, or refuses the conversation")]
    ChatTemplate(#[source] Box<dyn std::error::Error + Send + Sync>),

    /// A chat template that is longer than any published one.
    #[error("the chat template has {found} bytes; at most {limit} are permitted")]
    ChatTemplateLength {
        /// Its length.
        found: usize,
        /// How long it may be.
        limit: usize,
    },

    /// The system does not give the thread that chat templates need.
    #[error("cannot start a thread for the chat template")]
    ChatThread(#[source] io::Error),

    /// The chain picked no token.
    #[error("no token could be sampled")]
    Sample(#[from] SampleError),

    /// A model's file has a tokenizer that cannot be used.
    #[error("the model's tokenizer cannot be used")]
    Tokenizer(#[from] TokenizerError),
}
