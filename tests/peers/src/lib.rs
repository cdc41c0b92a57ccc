//! The same work by logitchain and by llama.cpp, compared.
//!
//! llama.cpp is linked through its C interface, in the version that
//! `llama-cpp-sys-2` carries, built with its default flags.

pub mod compare;
pub mod gguf;
pub mod llama;
pub mod models;
pub mod random;
pub mod rounding;
pub mod settings;
pub mod stages;
pub mod texts;
pub mod vocab;
