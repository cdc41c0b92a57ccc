use logitchain_core::TokenId;

use crate::{EngineError, Special, Tokenizer};

/// The tokens of a prompt: its text, begun with the beginning-of-text token if
/// the model asks for one and the text does not bring it along.
///
/// An empty text is just that token.
///
/// # Errors
///
/// If there would be no token at all, or a character has none.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use logitchain_engine::{NgramModel, Model, Special, prompt_tokens};
///
/// let model = NgramModel::of_characters("abc", 2)?;
/// assert_eq!(prompt_tokens(model.tokenizer(), "ab", Special::Plain)?.len(), 2);
/// assert!(prompt_tokens(model.tokenizer(), "", Special::Plain).is_err());
/// # Ok(())
/// # }
/// ```
pub fn prompt_tokens(
    tokenizer: &dyn Tokenizer,
    text: &str,
    special: Special,
) -> Result<Vec<TokenId>, EngineError> {
    begun(tokenizer, tokenizer.try_encode_parts(&[(text, special)])?)
}

/// A text of the model's, from the tokens of its visible part.
pub(crate) fn begun(
    tokenizer: &dyn Tokenizer,
    mut tokens: Vec<TokenId>,
) -> Result<Vec<TokenId>, EngineError> {
    if let Some(bos) = tokenizer.beginning_of_text()
        && tokens.first() != Some(&bos)
    {
        tokens.insert(0, bos);
    }
    if tokens.is_empty() { Err(EngineError::EmptyPrompt) } else { Ok(tokens) }
}
