use std::collections::HashMap;

use logitchain_core::{TokenId, Vocab};
use serde_json::Value;

use super::data::{bytes, ids, list, read};

/// A vocabulary in which token `i` is the `i`-th private-use character, so that
/// breakers that a case gives as token sequences can be written as text.
#[derive(Debug)]
pub(crate) struct Signs(Vec<String>);

impl Signs {
    pub(crate) fn new(size: usize) -> Self {
        Self((0..size as u32).map(|i| Self::sign(i).to_string()).collect())
    }

    fn sign(id: u32) -> char {
        char::from_u32(0xE000 + id).expect("a private-use character")
    }

    pub(crate) fn write(tokens: &Value) -> String {
        ids(tokens).into_iter().map(Self::sign).collect()
    }
}

impl Vocab for Signs {
    fn size(&self) -> usize {
        self.0.len()
    }

    fn bytes(&self, token: TokenId) -> &[u8] {
        self.0.get(token.index()).map_or(&[], |text| text.as_bytes())
    }
}

/// The vocabulary of `vocab.json`. Its tokenizer knows only the texts whose
/// tokens a case gives.
#[derive(Debug)]
pub(crate) struct Words {
    pieces: Vec<Vec<u8>>,
    special: Vec<bool>,
    endings: Vec<u32>,
    end_of_turn: u32,
    tokenized: HashMap<Vec<u8>, Vec<TokenId>>,
}

impl Words {
    pub(crate) fn new(tokenized: Option<&Value>) -> Self {
        let file: Value = serde_json::from_str(&read("vocab.json")).expect("a vocabulary");
        let pieces: Vec<_> = list(&file["piece_hex"]).iter().map(bytes).collect();
        // Special tokens are those whose text is empty unless it is asked for.
        let plain = list(&file["piece_nospecial_hex"]).iter().map(bytes);
        let special = pieces.iter().zip(plain).map(|(piece, plain)| *piece != plain).collect();
        let tokenized = tokenized.and_then(Value::as_object).into_iter().flatten();
        Self {
            pieces,
            special,
            endings: ids(&file["eog"]),
            end_of_turn: file["eot"].as_u64().expect("an id") as u32,
            tokenized: tokenized
                .map(|(text, tokens)| {
                    let tokens = ids(tokens).into_iter().map(TokenId).collect();
                    (bytes(&Value::from(text.as_str())), tokens)
                })
                .collect(),
        }
    }
}

impl Vocab for Words {
    fn size(&self) -> usize {
        self.pieces.len()
    }

    fn bytes(&self, token: TokenId) -> &[u8] {
        self.pieces.get(token.index()).map_or(&[], Vec::as_slice)
    }

    fn is_special(&self, token: TokenId) -> bool {
        self.special[token.index()]
    }

    fn is_end_of_generation(&self, token: TokenId) -> bool {
        self.endings.contains(&token.0)
    }

    fn end_of_turn(&self) -> Option<TokenId> {
        Some(TokenId(self.end_of_turn))
    }

    fn tokenize(&self, text: &[u8]) -> Vec<TokenId> {
        let known = self.tokenized.get(text);
        known.unwrap_or_else(|| panic!("the case does not give the tokens of {text:?}")).clone()
    }
}
