//! The contract between sampling stages and everything that runs them.

#![forbid(unsafe_code)]

mod token;

pub use crate::token::{TokenId, Vocab};
