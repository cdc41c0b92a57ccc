//! llama.cpp's vocabulary, for logitchain's stages.

use logitchain_core::{TokenId, Vocab};

use crate::llama::Model;

/// The tokens of a model that llama.cpp has loaded.
#[derive(Debug)]
pub struct LlamaVocab<'a> {
    model: &'a Model,
    pieces: Vec<Vec<u8>>,
}

impl<'a> LlamaVocab<'a> {
    /// Reads all pieces.
    pub fn of(model: &'a Model) -> Self {
        let pieces = (0..model.size() as u32).map(|token| model.piece(token)).collect();
        Self { model, pieces }
    }
}

impl Vocab for LlamaVocab<'_> {
    fn size(&self) -> usize {
        self.pieces.len()
    }

    fn bytes(&self, token: TokenId) -> &[u8] {
        self.pieces.get(token.index()).map_or(&[], Vec::as_slice)
    }

    fn is_special(&self, token: TokenId) -> bool {
        self.model.is_special(token.0)
    }

    fn end_of_turn(&self) -> Option<TokenId> {
        self.model.end_of_turn().map(TokenId)
    }

    fn is_end_of_generation(&self, token: TokenId) -> bool {
        self.model.is_end_of_generation(token.0)
    }

    fn tokenize(&self, text: &[u8]) -> Vec<TokenId> {
        self.model.tokenize(text, false, false).into_iter().map(TokenId).collect()
    }
}

/// A vocabulary without text, of a size.
#[derive(Debug)]
pub struct Sized(pub usize);

impl Vocab for Sized {
    fn size(&self) -> usize {
        self.0
    }

    fn bytes(&self, _: TokenId) -> &[u8] {
        &[]
    }
}
