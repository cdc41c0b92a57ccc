use std::fmt::Debug;

use logitchain_core::{TokenId, Vocab};

use crate::EngineError;

/// Whether printed forms of special tokens in a text stand for those tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// `<|im_end|>` becomes the control token: for rendered chat templates.
    Parse,
    /// `<|im_end|>` is ten characters of plain text: for what a user typed.
    Plain,
}

/// Turns text into tokens; a [`Vocab`] turns them back.
pub trait Tokenizer: Vocab + Send + Sync {
    /// The tokens of a text, without any beginning-of-text token.
    fn encode(&self, text: &str, special: Special) -> Vec<TokenId>;

    /// The tokens of a text that comes in parts, some of which a user typed: no
    /// special token is found that has a byte in a [`Special::Plain`] part.
    ///
    /// The provided method encodes the parts one by one; a tokenizer that joins
    /// text across their seams overrides it.
    fn encode_parts(&self, parts: &[(&str, Special)]) -> Vec<TokenId> {
        parts.iter().flat_map(|&(text, special)| self.encode(text, special)).collect()
    }

    /// The same, or an error that names the first character for which there is
    /// no token: [`encode`](Self::encode) and
    /// [`encode_parts`](Self::encode_parts) leave it out, and a model would
    /// answer another text than it was given.
    ///
    /// The provided method knows of no such character.
    ///
    /// # Errors
    ///
    /// If there is such a character.
    fn try_encode_parts(&self, parts: &[(&str, Special)]) -> Result<Vec<TokenId>, EngineError> {
        Ok(self.encode_parts(parts))
    }

    /// The token that must begin every text, if the model was trained with one.
    fn beginning_of_text(&self) -> Option<TokenId> {
        None
    }

    /// What chat templates call `bos_token`, whether texts must begin with it or
    /// not.
    fn bos_token(&self) -> Option<TokenId> {
        self.beginning_of_text()
    }

    /// What chat templates call `eos_token`.
    fn eos_token(&self) -> Option<TokenId> {
        self.end_of_turn()
    }

    /// The Jinja template that renders a conversation, if the model has one.
    fn chat_template(&self) -> Option<&str> {
        None
    }
}

/// A language model in the middle of one text.
///
/// Tokens go in, the logits of what may follow come out.
pub trait Model: Debug + Send {
    /// The model's tokens.
    fn tokenizer(&self) -> &dyn Tokenizer;

    /// Appends `tokens` to the text and scores what may come next: one logit
    /// per vocabulary entry, the index being the token id. The slice is the
    /// model's own memory and may be overwritten at will: the next call
    /// computes it anew.
    ///
    /// # Errors
    ///
    /// If `tokens` is empty, holds an id outside the vocabulary or does not
    /// fit into what is left of the context.
    fn forward(&mut self, tokens: &[TokenId]) -> Result<&mut [f32], EngineError>;

    /// Number of tokens in the text so far.
    fn position(&self) -> usize;

    /// How many tokens a text may have; `None` if there is no limit.
    fn context_length(&self) -> Option<usize>;

    /// Forgets all tokens from `position` on. Later results are the same, bit
    /// for bit, as if those had never been appended.
    fn rewind(&mut self, position: usize);
}
