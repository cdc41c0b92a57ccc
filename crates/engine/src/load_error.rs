use thiserror::Error;

use crate::GgufError;

/// Why a sound GGUF file is no model that the engine can run.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file is not even sound.
    #[error(transparent)]
    Gguf(#[from] GgufError),

    /// A kind of network that the engine does not have.
    #[error("the architecture '{found}' is not supported; known are: {known}")]
    Architecture {
        /// The file's `general.architecture`.
        found: String,
        /// What is supported.
        known: String,
    },

    /// Something that the engine leaves out of the architecture.
    #[error("the model needs {feature}, which is not supported ({evidence})")]
    Feature {
        /// What is needed.
        feature: &'static str,
        /// What in the file says so.
        evidence: String,
    },

    /// A key that says something about the network, which the engine does not
    /// know.
    #[error(
        "the metadata key '{key}' is unknown for the architecture {architecture}; the model may need what it asks for"
    )]
    UnknownKey {
        /// The key.
        key: String,
        /// The model's architecture.
        architecture: &'static str,
    },

    /// A number that should divide the speed of rotary positions and cannot.
    #[error("the tensor '{tensor}' holds {found}; it must be finite and positive")]
    RopeFactor {
        /// The tensor.
        tensor: String,
        /// The number.
        found: String,
    },

    /// A number in the metadata that makes no sense.
    #[error("the metadata value '{key}' is {found}; it must be {expected}")]
    Value {
        /// The number's key.
        key: String,
        /// The number.
        found: String,
        /// What would be right.
        expected: String,
    },

    /// A tensor is not there.
    #[error("the file lacks the tensor '{name}'")]
    MissingTensor {
        /// Its name.
        name: String,
    },

    /// A tensor that no part of the network would use.
    #[error(
        "the file has the tensor '{name}', which a model of the architecture {architecture} does not use"
    )]
    UnusedTensor {
        /// Its name.
        name: String,
        /// The model's architecture.
        architecture: &'static str,
    },

    /// A tensor's dimensions contradict the metadata.
    #[error("the tensor '{name}' has the shape {found:?}; the metadata ask for {expected:?}")]
    Shape {
        /// Its name.
        name: String,
        /// Its dimensions, row length first.
        found: Vec<usize>,
        /// What they should be.
        expected: Vec<usize>,
    },

    /// Weights in a format that the engine cannot compute with.
    #[error("the tensor '{name}' has the type {found}; supported are: {supported}")]
    TensorType {
        /// Its name.
        name: String,
        /// Its type.
        found: &'static str,
        /// What is supported.
        supported: String,
    },

    /// Tokenizer and network do not fit together.
    #[error("the tokenizer has {tokens} tokens, the network scores {scores}")]
    Vocabulary {
        /// Tokens in the tokenizer.
        tokens: usize,
        /// Rows of the embedding.
        scores: usize,
    },
}
