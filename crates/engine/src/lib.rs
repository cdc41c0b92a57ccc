//! A CPU engine: models, tokenizers, and the decode loop.
//!
//! A [`GgufModel`] is loaded once and gives out [`Session`]s, one for each text.
//! What a [`Model`] scores next depends on its text alone, to the last bit: not
//! on the machine, the number of threads, or the slices in which the text came.
//!
//! ```
//! use logitchain_core::Vocab;
//! use logitchain_engine::{GgufModel, Model, Special, Tokenizer, prompt_tokens};
//!
//! let model = GgufModel::embedded();
//! let mut session = model.session();
//! let mut tokens = prompt_tokens(model.tokenizer(), "ROMEO.", Special::Plain)?;
//! let mut text = Vec::new();
//! for _ in 0..11 {
//!     let logits = session.forward(&tokens)?;
//!     let best = (0..).zip(&*logits).max_by(|a, b| a.1.total_cmp(b.1));
//!     let (id, _) = best.expect("a vocabulary is not empty");
//!     tokens = vec![logitchain_core::TokenId(id)];
//!     text.extend_from_slice(model.tokenizer().bytes(tokens[0]));
//! }
//! assert_eq!(text, b"\nI am a gentleman of the Greek");
//! # Ok::<(), logitchain_engine::EngineError>(())
//! ```
//!
//! | File | What it is about |
//! |---|---|
//! | `model` | [`Model`] and [`Tokenizer`]: what the rest of the crate is written against |
//! | `gguf/` | the file format, read as input from a stranger |
//! | `weights/` | formats of weights and their products with vectors; with `gguf/source`, all of the crate's `unsafe` |
//! | `math` | the functions between the products |
//! | `threads` | when and how work is divided |
//! | `transformer/` | the network; in `architectures/`, what each architecture has beyond others |
//! | `session/` | [`GgufModel`] and [`Session`]: a text with its keys and values |
//! | `embedded` | the model that is part of the program; see `models/README.md` |
//! | `tokenizer/` | tokenizers of GGUF files |
//! | `ngram` | a model to check by hand |
//! | `prompt`, `chat` | from a text or a conversation to tokens |
//! | `generate` | the decode loop |
//! | `stop`, `utf8` | from tokens to text, and when to stop |
//! | `sampling` | the settings that a model's maker recommends |
//! | `supported` | what files can be run, for people |
//! | `error`, `load_error` | what can go wrong |

mod chat;
mod embedded;
mod ending;
mod error;
mod generate;
mod gguf;
mod load_error;
mod math;
mod model;
mod ngram;
mod prompt;
mod sampling;
mod scheduler;
mod session;
mod stop;
mod supported;
mod threads;
mod tokenizer;
mod transformer;
mod utf8;
mod weights;

pub use crate::{
    chat::{ChatMessage, ChatTemplate},
    embedded::EMBEDDED_GGUF,
    error::EngineError,
    generate::{GenerateOptions, Generation, Step, StopReason, Timings, TokenPicker},
    gguf::{Gguf, GgufError, TensorInfo, TensorType},
    load_error::LoadError,
    model::{Model, Special, Tokenizer},
    ngram::NgramModel,
    prompt::prompt_tokens,
    sampling::RecommendedSampling,
    scheduler::{Event, Request, RequestId, Scheduler, SchedulerLimits},
    session::{GgufModel, JointStep, LoadOptions, Session},
    stop::StopStrings,
    supported::Supported,
    tokenizer::{GgufTokenizer, TokenizerError},
    transformer::CacheType,
    utf8::Utf8Stream,
};
