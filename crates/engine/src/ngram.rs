use std::collections::{BTreeMap, BTreeSet, HashMap};

use logitchain_core::{TokenId, Vocab};

use crate::{EngineError, Model, Special, Tokenizer};

/// A model that has counted what followed what in one text.
///
/// Of order *n* it looks at the last *n* - 1 tokens: a bigram model (order 2) at
/// one. The logit of a token is ln(count) of how often it followed them, so that
/// a softmax gives the counts' proportions; it is -inf where the count is 0. If
/// nothing ever followed those tokens, the model backs off to one token fewer,
/// down to none: then the counts are those of the tokens themselves.
///
/// A prompt's characters or words that the text does not have are left out, for
/// there are no tokens for them.
///
/// Small enough to check by hand, which is what it is for.
///
/// ```
/// # fn main() -> Result<(), logitchain_engine::EngineError> {
/// use logitchain_engine::{Model, NgramModel, Special, Tokenizer};
///
/// let mut model = NgramModel::of_characters("banana", 2)?;
/// let prompt = model.tokenizer().encode("n", Special::Plain);
/// // Of a, b and n, only a follows n, and does so twice.
/// assert_eq!(model.forward(&prompt)?, [2_f32.ln(), f32::NEG_INFINITY, f32::NEG_INFINITY]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct NgramModel {
    tokenizer: NgramTokenizer,
    order: usize,
    // What followed each run of fewer than `order` tokens, how often.
    counts: HashMap<Vec<TokenId>, BTreeMap<TokenId, u32>>,
    text: Vec<TokenId>,
    logits: Vec<f32>,
}

impl NgramModel {
    /// Counts characters; the tokens are numbered by code point.
    ///
    /// # Errors
    ///
    /// If the text is empty or the order is 0.
    pub fn of_characters(text: &str, order: usize) -> Result<Self, EngineError> {
        Self::new(text, order, Unit::Character)
    }

    /// Counts words; the tokens are numbered in the order of their bytes.
    ///
    /// A word is a run of letters and digits, and any other character is a word
    /// of its own; the space before a word belongs to it, so that the words
    /// joined are the text. A word that begins a text is the same as after a
    /// space, if it is unknown without.
    ///
    /// # Errors
    ///
    /// If the text is empty or the order is 0.
    pub fn of_words(text: &str, order: usize) -> Result<Self, EngineError> {
        Self::new(text, order, Unit::Word)
    }

    fn new(text: &str, order: usize, unit: Unit) -> Result<Self, EngineError> {
        if text.is_empty() {
            return Err(EngineError::EmptyCorpus);
        }
        if order == 0 {
            return Err(EngineError::NgramOrder);
        }
        let tokenizer = NgramTokenizer::new(text, unit);
        let tokens = tokenizer.tokenize(text.as_bytes());
        let mut counts: HashMap<Vec<TokenId>, BTreeMap<TokenId, u32>> = HashMap::new();
        for (at, &next) in tokens.iter().enumerate() {
            for context in (0..order.min(at + 1)).map(|len| &tokens[at - len..at]) {
                *counts.entry(context.to_vec()).or_default().entry(next).or_default() += 1;
            }
        }
        let logits = vec![f32::NEG_INFINITY; tokenizer.size()];
        Ok(Self { tokenizer, order, counts, text: Vec::new(), logits })
    }

    /// How often each token followed the text so far or, where that is unseen,
    /// its longest seen end. Tokens that never did are left out.
    pub fn counts(&self) -> impl Iterator<Item = (TokenId, u32)> {
        let longest = self.text.len().min(self.order - 1);
        let mut contexts = (0..=longest).rev().map(|len| &self.text[self.text.len() - len..]);
        // No tokens at all are always followed: the text that was counted has some.
        let seen = contexts.find_map(|context| self.counts.get(context));
        seen.into_iter().flatten().map(|(&token, &count)| (token, count))
    }
}

impl Model for NgramModel {
    fn tokenizer(&self) -> &dyn Tokenizer {
        &self.tokenizer
    }

    fn forward(&mut self, tokens: &[TokenId]) -> Result<&mut [f32], EngineError> {
        if tokens.is_empty() {
            return Err(EngineError::NoTokens);
        }
        let size = self.tokenizer.size();
        if let Some(&token) = tokens.iter().find(|token| token.index() >= size) {
            return Err(EngineError::UnknownToken { token, size });
        }
        self.text.extend_from_slice(tokens);
        let mut logits = std::mem::take(&mut self.logits);
        logits.fill(f32::NEG_INFINITY);
        for (token, count) in self.counts() {
            logits[token.index()] = (count as f32).ln();
        }
        self.logits = logits;
        Ok(&mut self.logits)
    }

    fn position(&self) -> usize {
        self.text.len()
    }

    fn context_length(&self) -> Option<usize> {
        None
    }

    fn rewind(&mut self, position: usize) {
        self.text.truncate(position);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Character,
    Word,
}

#[derive(Clone, Debug)]
struct NgramTokenizer {
    unit: Unit,
    tokens: Vec<String>,
    ids: HashMap<String, TokenId>,
}

impl NgramTokenizer {
    fn new(text: &str, unit: Unit) -> Self {
        let tokens: BTreeSet<&str> = split(text, unit).collect();
        let tokens: Vec<String> = tokens.into_iter().map(str::to_owned).collect();
        let ids = (0..).map(TokenId).zip(&tokens).map(|(id, text)| (text.clone(), id)).collect();
        Self { unit, tokens, ids }
    }
}

fn split(text: &str, unit: Unit) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let end = match unit {
            Unit::Character => first.len_utf8(),
            Unit::Word => {
                let start = usize::from(first == ' ');
                let word = rest[start..].find(|c: char| !c.is_alphanumeric());
                match start + word.unwrap_or(rest.len() - start) {
                    0 => first.len_utf8(),
                    // A space and a character that is a word of its own.
                    1 if start == 1 => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
                    end => end,
                }
            }
        };
        let (token, after) = rest.split_at(end);
        rest = after;
        Some(token)
    })
}

impl Vocab for NgramTokenizer {
    fn size(&self) -> usize {
        self.tokens.len()
    }

    fn bytes(&self, token: TokenId) -> &[u8] {
        self.tokens.get(token.index()).map_or(&[], |text| text.as_bytes())
    }

    fn tokenize(&self, text: &[u8]) -> Vec<TokenId> {
        text.utf8_chunks().flat_map(|chunk| self.encode(chunk.valid(), Special::Plain)).collect()
    }
}

impl Tokenizer for NgramTokenizer {
    fn encode(&self, text: &str, _: Special) -> Vec<TokenId> {
        let begin = |token: &str| self.ids.get(&format!(" {token}"));
        let ids = split(text, self.unit).enumerate().filter_map(|(at, token)| {
            let known = self.ids.get(token);
            known.or_else(|| begin(token).filter(|_| at == 0 && self.unit == Unit::Word))
        });
        ids.copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use logitchain_core::TokenId;

    use super::NgramModel;
    use crate::{EngineError, Model, Special};

    const TEXT: &str = "the cat sat on the mat. the dog sat on the log. the cat saw the dog. \
                        the dog saw the cat. a cat and a dog sat on a mat.";

    fn counts(model: &mut NgramModel, text: &str) -> Vec<(String, u32)> {
        let tokens = model.tokenizer().encode(text, Special::Plain);
        model.rewind(0);
        model.forward(&tokens).unwrap();
        let name = |token| String::from_utf8(model.tokenizer().bytes(token).to_vec()).unwrap();
        model.counts().map(|(token, count)| (name(token), count)).collect()
    }

    fn pairs(list: &[(&str, u32)]) -> Vec<(String, u32)> {
        list.iter().map(|&(text, count)| (text.to_owned(), count)).collect()
    }

    fn greedy(model: &mut NgramModel, text: &str, steps: usize) -> String {
        let mut tokens = model.tokenizer().encode(text, Special::Plain);
        let mut out = text.to_owned();
        for _ in 0..steps {
            let logits = model.forward(&tokens).unwrap();
            let best = (0..logits.len()).rev().max_by(|&a, &b| logits[a].total_cmp(&logits[b]));
            tokens = vec![TokenId(best.unwrap() as u32)];
            out += std::str::from_utf8(model.tokenizer().bytes(tokens[0])).unwrap();
        }
        out
    }

    #[test]
    fn the_characters_after_a_space_are_counted_as_by_hand() {
        let mut model = NgramModel::of_characters(TEXT, 2).unwrap();
        let expected =
            [("a", 4), ("c", 4), ("d", 4), ("l", 1), ("m", 2), ("o", 3), ("s", 5), ("t", 7)];
        assert_eq!(counts(&mut model, " "), pairs(&expected));
        let logits = model.forward(&[TokenId(0)]).unwrap().to_vec();
        assert_eq!(logits.len(), model.tokenizer().size());
        let sum: f32 = logits.iter().map(|logit| logit.exp()).sum();
        assert!((sum - 30.0).abs() < 1e-4, "{sum}");
        assert_eq!(
            logits.iter().filter(|logit| **logit == f32::NEG_INFINITY).count(),
            logits.len() - 8
        );
    }

    #[test]
    fn the_best_characters_after_t_go_round_in_a_loop() {
        let mut model = NgramModel::of_characters(TEXT, 2).unwrap();
        assert_eq!(greedy(&mut model, "t", 15), "the the the the ");
    }

    #[test]
    fn an_unseen_context_backs_off_to_a_shorter_one() {
        let mut model = NgramModel::of_characters("abcabd", 3).unwrap();
        assert_eq!(counts(&mut model, "ab"), pairs(&[("c", 1), ("d", 1)]));
        // "cb" was never seen, "b" was.
        assert_eq!(counts(&mut model, "cb"), pairs(&[("c", 1), ("d", 1)]));
        // Nothing follows "d": all tokens.
        assert_eq!(counts(&mut model, "d"), pairs(&[("a", 2), ("b", 2), ("c", 1), ("d", 1)]));
    }

    #[test]
    fn words_keep_the_space_before_them() {
        let mut model = NgramModel::of_words("a cat, a dog!  A cat.", 2).unwrap();
        let tokens = model.tokenizer().encode("a cat, a dog!  A cat.", Special::Plain);
        let bytes: Vec<u8> =
            tokens.iter().flat_map(|&t| model.tokenizer().bytes(t)).copied().collect();
        assert_eq!(bytes, b"a cat, a dog!  A cat.");
        assert_eq!(counts(&mut model, " a"), pairs(&[(" dog", 1)]));
        assert_eq!(counts(&mut model, " cat"), pairs(&[(",", 1), (".", 1)]));
        // Unknown at the beginning without a space; "zebra" is unknown altogether.
        assert_eq!(counts(&mut model, "dog zebra"), pairs(&[("!", 1)]));
    }

    #[test]
    fn rewinding_forgets() {
        let mut model = NgramModel::of_characters(TEXT, 4).unwrap();
        let [prompt, other] =
            ["the c", "dog"].map(|text| model.tokenizer().encode(text, Special::Plain));
        let expected = model.forward(&prompt).unwrap().to_vec();
        model.forward(&other).unwrap();
        model.rewind(4);
        assert_eq!(model.position(), 4);
        assert_eq!(model.forward(&prompt[4..]).unwrap(), expected);
    }

    #[test]
    fn wrong_uses_are_errors() {
        assert!(matches!(NgramModel::of_words("", 2), Err(EngineError::EmptyCorpus)));
        assert!(matches!(NgramModel::of_words("a", 0), Err(EngineError::NgramOrder)));
        let mut model = NgramModel::of_characters("ab", 2).unwrap();
        assert!(matches!(model.forward(&[]), Err(EngineError::NoTokens)));
        let error = model.forward(&[TokenId(1), TokenId(2)]).unwrap_err();
        assert!(error.to_string().contains("token 2"), "{error}");
        assert_eq!(model.position(), 0);
    }
}
