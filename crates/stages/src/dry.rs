use std::collections::{HashMap, VecDeque};

use logitchain_core::{
    BuildContext, Candidates, Kind, ParamError, Sampler, Stage, TokenId, Vocab, register_stage,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Window;

/// Make tokens less likely that would continue a repetition.
///
/// If the text ends as it did once before, the token that followed then would
/// make the repetition one longer: for a match of `n` tokens its logit loses
/// `multiplier * base^(n - allowed_length)`, if `n` is at least `allowed_length`
/// (don't repeat yourself, p-e-w, 2024). Of several matches the longest counts.
/// A match does not reach back over a sequence breaker, and a token that contains
/// one loses nothing. The text is prompt and answer, the tokens of a chat template
/// included, as far back as the window reaches.
///
/// Breakers are text, matched against the tokens' text: a token that contains
/// one breaks a sequence, and so do tokens that spell one together. At most 40
/// bytes each; llama.cpp cuts longer ones off.
///
/// Place it before stages that drop tokens: it cannot bring a token back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Dry {
    /// Scales the penalty; 0 is off, below 0 it is a reward.
    #[schemars(extend("flags" = ["dry-multiplier"]))]
    pub multiplier: f64,
    /// By how much the penalty grows with every token of the match.
    #[schemars(range(min = 1.0), extend("flags" = ["dry-base"]))]
    pub base: f64,
    /// The shortest match that is penalised.
    #[schemars(extend("flags" = ["dry-allowed-length"]))]
    pub allowed_length: u32,
    /// How many of the last tokens are searched, or "all"; 0 is off.
    #[schemars(extend("flags" = ["dry-penalty-last-n"]))]
    pub last_n: Window,
    /// Texts over which no match reaches; "none" alone for no breakers.
    #[schemars(extend("flags" = ["dry-sequence-breaker"]))]
    pub breakers: Vec<String>,
}

register_stage!(Dry);

impl Default for Dry {
    fn default() -> Self {
        Self {
            multiplier: 0.0,
            base: 1.75,
            allowed_length: 2,
            last_n: Window::Last(64),
            breakers: ["\n", ":", "\"", "*"].map(str::to_owned).to_vec(),
        }
    }
}

impl Stage for Dry {
    const NAME: &'static str = "dry";
    const KIND: Kind = Kind::Penalty;
    const LETTER: Option<char> = Some('d');

    fn neutral() -> Option<Self> {
        Some(Self::default())
    }

    fn is_neutral(&self) -> bool {
        self.multiplier == 0.0 || self.last_n.is_empty()
    }

    fn build(self, cx: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> {
        ParamError::check_finite("multiplier", self.multiplier)?;
        ParamError::check_finite("base", self.base)?;
        if self.base < 1.0 {
            return Err(ParamError::new("base", format!("must be at least 1, got {}", self.base)));
        }
        let breakers = Breakers::new(&self.breakers, cx.vocab())?;
        let base = self.base as f32;
        // Beyond this exponent the penalty overflows an f32, whose logarithm
        // ends here.
        const LN_MAX: f32 = 88.722_84;
        let max_exponent = if base > 1.000_001 {
            (LN_MAX / libm::log(f64::from(base)) as f32) as u32
        } else {
            u32::MAX
        };
        Ok(Box::new(Running {
            multiplier: f64::from(self.multiplier as f32),
            base: f64::from(base),
            allowed_length: self.allowed_length as usize,
            max_exponent,
            last_n: self.last_n,
            breakers: breakers.into(),
            recent: VecDeque::new(),
            reversed: Vec::new(),
            matches: Vec::new(),
            penalties: HashMap::new(),
        }))
    }
}

/// The sequence breakers as tokens.
#[derive(Debug, PartialEq)]
struct Breakers {
    /// Every way in which tokens can spell a breaker, by its first token: the
    /// tokens that follow it. No tokens: the first contains the breaker.
    tails: HashMap<TokenId, Vec<Vec<TokenId>>>,
}

impl Breakers {
    /// The longest breaker in bytes.
    const MAX_BYTES: usize = 40;
    /// The longest breaker in tokens after the first.
    const MAX_TAIL: usize = 20;

    fn new(texts: &[String], vocab: &dyn Vocab) -> Result<Self, ParamError> {
        let mut breakers = Self { tails: HashMap::new() };
        if texts == ["none"] {
            return Ok(breakers);
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
            breakers.add(text.as_bytes(), vocab);
        }
        Ok(breakers)
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

    /// How far back, from the end of the text, a match may reach. `reversed`
    /// has the newest token first.
    fn reach(&self, reversed: &[TokenId]) -> usize {
        for (at, token) in reversed.iter().enumerate() {
            // Only the newest breaker counts; of several that begin at the same
            // token, the longest.
            let longest = self.tails.get(token).into_iter().flatten().filter(|tail| {
                tail.len() <= at && tail.iter().eq(reversed[at - tail.len()..at].iter().rev())
            });
            if let Some(length) = longest.map(Vec::len).max() {
                return at - length;
            }
        }
        reversed.len()
    }
}

#[derive(Clone, Debug)]
struct Running {
    multiplier: f64,
    base: f64,
    allowed_length: usize,
    max_exponent: u32,
    last_n: Window,
    breakers: std::sync::Arc<Breakers>,
    /// The tokens in the window, oldest first.
    recent: VecDeque<TokenId>,
    /// The same, newest first, while `apply` works.
    reversed: Vec<TokenId>,
    /// How long the text's end matches the text that ends so far back.
    matches: Vec<usize>,
    /// The longest match that each token would continue.
    penalties: HashMap<TokenId, usize>,
}

impl Running {
    /// Fills `matches`: for each distance, how many tokens before the end equal
    /// those before that distance. Linear time: what lies inside an earlier
    /// match need not be compared again (the Z algorithm, Gusfield, 1997).
    fn find_matches(&mut self) {
        let text = &self.reversed;
        self.matches.clear();
        self.matches.resize(text.len(), 0);
        let (mut left, mut right) = (0, 0);
        for at in 1..text.len() {
            let mut length = if at < right { self.matches[at - left].min(right - at) } else { 0 };
            while at + length < text.len() && text[length] == text[at + length] {
                length += 1;
            }
            self.matches[at] = length;
            if at + length > right {
                (left, right) = (at, at + length);
            }
        }
    }
}

impl Sampler for Running {
    fn apply(&mut self, candidates: &mut Candidates<'_>) {
        if self.recent.len() <= self.allowed_length {
            return;
        }
        self.reversed.clear();
        self.reversed.extend(self.recent.iter().rev());
        let reach = self.breakers.reach(&self.reversed);
        if reach < self.allowed_length {
            return;
        }
        self.find_matches();
        self.penalties.clear();
        for (at, &length) in self.matches.iter().enumerate().skip(1) {
            let length = length.min(reach);
            let follower = self.reversed[at - 1];
            if length >= self.allowed_length && !self.breakers.is_single(follower) {
                let longest = self.penalties.entry(follower).or_default();
                *longest = length.max(*longest);
            }
        }
        candidates.adjust(&self.penalties, |logit, &length| {
            let exponent = (length - self.allowed_length).min(self.max_exponent as usize);
            logit - (self.multiplier * libm::pow(self.base, exponent as f64)) as f32
        });
    }

    fn accept(&mut self, token: TokenId) {
        if self.last_n.is_empty() {
            return;
        }
        if self.last_n.is_full(self.recent.len()) {
            self.recent.pop_front();
        }
        self.recent.push_back(token);
    }

    fn reset(&mut self) {
        self.recent.clear();
    }
}

#[cfg(test)]
mod tests {
    use logitchain_conformance::{Trial, assert_laws_of, assert_stage_laws};
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

    #[test]
    fn obeys_the_laws() {
        assert_stage_laws::<Dry>();
        assert_laws_of(|| Dry { multiplier: 0.8, ..Default::default() });
        assert_laws_of(|| Dry {
            multiplier: 2.0,
            base: 1.1,
            allowed_length: 1,
            last_n: Window::All,
            breakers: vec!["1".to_owned()],
        });
    }

    /// What token 3 of ten equals loses, and that no other does.
    fn loss(stage: Dry, history: &[u32]) -> f32 {
        let left = Trial::of(stage).after(history).logits(&[0.0; 10]);
        assert!(left.iter().all(|(id, logit)| *id == 3 || *logit == 0.0), "{left:?}");
        -left.iter().find(|c| c.0 == 3).expect("token 3").1
    }

    fn doubling() -> Dry {
        Dry { multiplier: 1.0, base: 2.0, ..Default::default() }
    }

    /// "1 2" is a match of two tokens, 2^0; with the 7 before it of three, 2^1.
    #[test]
    fn the_penalty_grows_with_the_match() {
        assert_eq!(loss(doubling(), &[1, 2, 3, 9, 1, 2]), 1.0);
        assert_eq!(loss(doubling(), &[7, 1, 2, 3, 9, 7, 1, 2]), 2.0);
        assert_eq!(loss(doubling(), &[2, 3, 9, 2]), 0.0);
    }

    /// 1 is a breaker here: "7 1 2" matches no further back than 2.
    #[test]
    fn no_match_reaches_over_a_breaker() {
        let stage = |breaker: &str| Dry {
            breakers: vec![breaker.to_owned()],
            allowed_length: 1,
            ..doubling()
        };
        assert_eq!(loss(stage("none"), &[7, 1, 2, 3, 9, 7, 1, 2]), 4.0);
        assert_eq!(loss(stage("1"), &[7, 1, 2, 3, 9, 7, 1, 2]), 1.0);
        // 3 would continue the match, but contains the breaker.
        assert_eq!(loss(stage("3"), &[7, 1, 2, 3, 9, 7, 1, 2]), 0.0);
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
