/// A small model that is part of the program, as a GGUF file: llama
/// architecture, 2.75 million parameters, a vocabulary of 2,048 tokens.
///
/// It writes loose Bible and stage dialogue. `models/README.md` says what it
/// was made from.
pub static EMBEDDED_GGUF: &[u8] = include_bytes!("../models/logitchain-tiny-f16.gguf");
