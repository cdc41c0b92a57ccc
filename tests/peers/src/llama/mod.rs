//! llama.cpp's samplers and models behind safe types.
#![allow(unsafe_code, reason = "llama.cpp is C")]

mod model;
mod sampler;
mod weights;

pub use self::{
    model::{Context, Model},
    sampler::{Chain, Entry, Sampler, sample},
    weights::{dequantize, quantize, row_size},
};
