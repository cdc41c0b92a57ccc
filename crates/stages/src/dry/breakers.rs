use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use foldhash::fast::FixedState;
use logitchain_core::{ParamError, TokenId, Vocab};

/// The sequence breakers as tokens.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Breakers {
    /// Every way in which tokens can spell a breaker, by its first token: the
    /// tokens that follow it. No tokens: the first contains the breaker.
    tails: HashMap<TokenId, Vec<Vec<TokenId>>, FixedState>,
}

impl Breakers {
    /// The longest breaker in bytes.
    const MAX_BYTES: usize = 40;
    /// The longest breaker in tokens after the first.
    const MAX_TAIL: usize = 20;

    pub(super) fn new(texts: &[String], vocab: &dyn Vocab) -> Result<Self, ParamError> {
        let mut breakers = Self::default();
        for text in Self::check(texts)? {
            breakers.add(text.as_bytes(), vocab);
        }
        Ok(breakers)
    }

    /// Of texts that could be breakers none, for who does not look for them: the whole
    /// vocabulary must be read to find them.
    pub(super) fn unused(texts: &[String]) -> Result<Self, ParamError> {
        Self::check(texts).map(|_| Self::default())
    }

    /// The texts that are to be breakers.
    fn check(texts: &[String]) -> Result<&[String], ParamError> {
        if texts == ["none"] {
            return Ok(&[]);
        }
        for text in texts {
            if text == "none" {
                let problem = "has \"none\", for no breakers, beside others; it must stand alone";
                return Err(ParamError::new("breakers", problem));
            }
            if text.is_empty() {
                return Err(ParamError::new("breakers", "has an empty text, which breaks nothing"));
            }
            if text.len() > Self::MAX_BYTES {
                let (bytes, start) = (text.len(), text.chars().take(10).collect::<String>());
                let problem =
                    format!("has one of {bytes} bytes, `{start}…`; at most 40 are allowed");
                return Err(ParamError::new("breakers", problem));
            }
        }
        Ok(texts)
    }

    fn add(&mut self, breaker: &[u8], vocab: &dyn Vocab) {
        let mut tokenized = HashMap::<usize, Vec<TokenId>>::new();
        for token in (0..vocab.size() as u32).map(TokenId) {
            let text = vocab.bytes(token);
            if text.windows(breaker.len()).any(|window| window == breaker) {
                self.tails.entry(token).or_default().push(Vec::new());
                continue;
            }
            // Where the token ends with a beginning of the breaker, other
            // tokens must spell the rest.
            for start in 0..text.len() {
                let end = &text[start..];
                if end.len() < breaker.len() && breaker.starts_with(end) {
                    let rest = &breaker[end.len()..];
                    let tail = tokenized.entry(end.len()).or_insert_with(|| {
                        let mut tail = vocab.tokenize(rest);
                        tail.truncate(Self::MAX_TAIL);
                        tail
                    });
                    // A vocabulary that cannot spell the rest has skipped some
                    // of it: other texts would break the sequence.
                    let spelled: Vec<u8> =
                        tail.iter().flat_map(|token| vocab.bytes(*token)).copied().collect();
                    let whole = spelled.len() == rest.len() || tail.len() == Self::MAX_TAIL;
                    if !(whole && rest.starts_with(&spelled)) {
                        continue;
                    }
                    let tails = self.tails.entry(token).or_default();
                    if !tails.contains(tail) {
                        tails.push(tail.clone());
                    }
                }
            }
        }
    }

    /// Whether the token alone breaks a sequence.
    fn is_single(&self, token: TokenId) -> bool {
        self.tails.get(&token).is_some_and(|tails| tails.iter().any(Vec::is_empty))
    }

    /// Whether these tokens, from `head` to the last, are a breaker.
    fn end(&self, tokens: &VecDeque<TokenId>, head: usize) -> bool {
        let mut tails = self.tails.get(&tokens[head]).into_iter().flatten();
        tails.any(|tail| tokens.range(head + 1..).eq(tail))
    }
}

/// The breakers in a text, of which only the newest counts.
#[derive(Clone, Debug)]
pub(super) struct Breaks {
    breakers: Arc<Breakers>,
    /// The tokens of the longest tail.
    longest: usize,
    /// The last tokens of the text, as many as the longest breaker has.
    recent: VecDeque<TokenId>,
    newest: Option<Break>,
}

/// A breaker in the text.
#[derive(Clone, Copy, Debug)]
struct Break {
    /// How many tokens stand after the first.
    age: usize,
    /// How many of them belong to it.
    tail: usize,
}

impl Breaks {
    pub(super) fn new(breakers: Breakers) -> Self {
        let longest = breakers.tails.values().flatten().map(Vec::len).max().unwrap_or_default();
        let recent = VecDeque::with_capacity(longest + 1);
        Self { breakers: Arc::new(breakers), longest, recent, newest: None }
    }

    /// Appends a token. Whether it alone breaks a sequence.
    pub(super) fn accept(&mut self, token: TokenId) -> bool {
        if self.recent.len() > self.longest {
            self.recent.pop_front();
        }
        self.recent.push_back(token);
        let oldest = match &mut self.newest {
            Some(newest) => {
                newest.age += 1;
                newest.age
            }
            None => usize::MAX,
        };
        // Which breaker the token completes: of several the one that begins
        // last, and none that begins before the newest. From the same first
        // token the longest counts, and that is the one completed last.
        let mut tails = 0..self.recent.len().min(oldest.saturating_add(1));
        let last = self.recent.len() - 1;
        let completed = tails.find(|tail| self.breakers.end(&self.recent, last - tail));
        if let Some(tail) = completed {
            self.newest = Some(Break { age: tail, tail });
        }
        self.breakers.is_single(token)
    }

    /// How far back, from the end of the text, a match may reach in a window of
    /// so many tokens.
    pub(super) fn reach(&self, window: usize) -> usize {
        match self.newest {
            Some(newest) if newest.age < window => newest.age - newest.tail,
            _ => window,
        }
    }

    pub(super) fn clear(&mut self) {
        self.recent.clear();
        self.newest = None;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// The vocabulary of the golden cases. Its tokenizer knows the texts whose
    /// tokens the case gives.
    #[derive(Debug)]
    struct Words {
        pieces: Vec<Vec<u8>>,
        tokenized: HashMap<Vec<u8>, Vec<TokenId>>,
    }

    impl Vocab for Words {
        fn size(&self) -> usize {
            self.pieces.len()
        }

        fn bytes(&self, token: TokenId) -> &[u8] {
            &self.pieces[token.index()]
        }

        fn tokenize(&self, text: &[u8]) -> Vec<TokenId> {
            self.tokenized[text].clone()
        }
    }

    fn golden(file: &str) -> String {
        let path = format!("{}/../../tests/golden/{file}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
    }

    fn bytes(hex: &str) -> Vec<u8> {
        let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal digits");
        (0..hex.len()).step_by(2).map(byte).collect()
    }

    fn all_bytes(list: &Value) -> Vec<Vec<u8>> {
        let list = list.as_array().expect("a list");
        list.iter().map(|hex| bytes(hex.as_str().expect("text"))).collect()
    }

    fn tokens(list: &Value) -> Vec<TokenId> {
        let list = list.as_array().expect("a list").iter();
        list.map(|id| TokenId(id.as_u64().expect("an id") as u32)).collect()
    }

    /// What llama.cpp prints for breakers over a small vocabulary in which
    /// tokens contain, begin and overlap them.
    #[test]
    fn breakers_become_the_token_sequences_that_they_become_in_llama_cpp() {
        let vocab: Value = serde_json::from_str(&golden("vocab.json")).expect("JSON");
        let pieces = all_bytes(&vocab["piece_hex"]);
        let mut compared = 0;
        for line in golden("dry_breakers.jsonl").lines() {
            let case: Value = serde_json::from_str(line).expect("JSON");
            let tokenized = case["suffix_tokens_hex"].as_object().expect("a table");
            let words = Words {
                pieces: pieces.clone(),
                tokenized: tokenized.iter().map(|(k, v)| (bytes(k), tokens(v))).collect(),
            };
            let texts = all_bytes(&case["breakers_hex"]).into_iter().map(String::from_utf8);
            let texts: Vec<String> = texts.map(|text| text.expect("UTF-8")).collect();
            // Breakers that llama.cpp skips or cuts are refused.
            let Ok(breakers) = Breakers::new(&texts, &words) else { continue };
            let tails = breakers.tails.iter();
            let mut ours: Vec<(TokenId, Vec<TokenId>)> = tails
                .flat_map(|(head, tails)| tails.iter().map(|tail| (*head, tail.clone())))
                .collect();
            let theirs = case["expected"]["processed"].as_array().expect("a list");
            let mut theirs: Vec<_> = theirs
                .iter()
                .map(|pair| (TokenId(pair[0].as_u64().expect("an id") as u32), tokens(&pair[1])))
                .collect();
            ours.sort();
            theirs.sort();
            assert_eq!(ours, theirs, "{}", case["name"]);
            compared += 1;
        }
        assert_eq!(compared, 16);
    }
}
