use std::io;

use thiserror::Error;

use crate::input_error::InputError;

/// Why a file's logits cannot be used.
#[derive(Debug, Error)]
pub(crate) enum LogitsError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Input(#[from] InputError),
    #[error("it is neither an .npy file nor a .safetensors file")]
    Format,
    /// The words of the header.
    #[error("its header is broken: {0}")]
    Header(String),
    #[error("it is stored by columns; save numpy.ascontiguousarray of it")]
    Columns,
    #[error("it has {found} bytes, and its header asks for {expected}")]
    Length { found: u64, expected: u64 },
    #[error(
        "{name} has the shape {shape:?}; right are [vocabulary] and [steps, vocabulary], \
         neither of them 0"
    )]
    Shape { name: String, shape: Vec<usize> },
    #[error("{name} is of type {found}; right are {expected}")]
    Type { name: String, found: String, expected: &'static str },
    #[error("no tensor is called `logits`; there are {}", list(.0))]
    Missing(Vec<String>),
    #[error("it holds no tensor")]
    Empty,
    #[error("`tokens` has {tokens} elements, and `logits` {steps} steps")]
    Tokens { tokens: usize, steps: usize },
    #[error("`{name}` has the shape {shape:?}; it needs one dimension")]
    Flat { name: &'static str, shape: Vec<usize> },
    /// Elements are counted from 0.
    #[error(
        "element {nth} of `{name}` is {id}, and tokens go from 0 to {} (the logits' number - 1)",
        .vocabulary - 1
    )]
    Token { name: &'static str, nth: usize, id: i64, vocabulary: usize },
    /// Steps are counted from 1.
    #[error("the logit of token {token} in step {step} is {value}; {right}")]
    Logit { token: usize, step: usize, value: f64, right: &'static str },
}

fn list(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
