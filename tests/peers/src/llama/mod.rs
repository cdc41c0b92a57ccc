//! llama.cpp's samplers and models behind safe types.
#![allow(unsafe_code, reason = "llama.cpp is C")]

mod model;
mod sampler;

pub use self::{
    model::{Context, Model},
    sampler::{Entry, Sampler, sample},
};
