use logitchain_core::{TokenId, Vocab};

/// A vocabulary of which each token is its own id in decimal: token 12 is the
/// text `12`.
///
/// ```
/// # use logitchain_conformance::NumberVocab;
/// # use logitchain_core::{TokenId, Vocab};
/// let vocab = NumberVocab::new(20).ending_generation(&[3]);
/// assert_eq!(vocab.bytes(TokenId(12)), b"12");
/// assert_eq!(vocab.tokenize(b"127"), [TokenId(12), TokenId(7)]);
/// assert!(vocab.is_end_of_generation(TokenId(3)));
/// ```
#[derive(Clone, Debug)]
pub struct NumberVocab {
    texts: Vec<String>,
    ends: Vec<TokenId>,
}

impl NumberVocab {
    /// A vocabulary of `n` tokens, none of which ends a generation.
    pub fn new(n: usize) -> Self {
        Self { texts: (0..n).map(|id| id.to_string()).collect(), ends: Vec::new() }
    }

    /// The same, in which these tokens end a generation; the first of them is
    /// the one that ends a turn.
    #[must_use]
    pub fn ending_generation(mut self, tokens: &[u32]) -> Self {
        self.ends = tokens.iter().copied().map(TokenId).collect();
        self
    }
}

impl Vocab for NumberVocab {
    fn size(&self) -> usize {
        self.texts.len()
    }

    fn bytes(&self, token: TokenId) -> &[u8] {
        self.texts.get(token.index()).map_or(&[], String::as_bytes)
    }

    fn is_special(&self, token: TokenId) -> bool {
        self.is_end_of_generation(token)
    }

    fn is_end_of_generation(&self, token: TokenId) -> bool {
        self.ends.contains(&token)
    }

    fn end_of_turn(&self) -> Option<TokenId> {
        self.ends.first().copied()
    }
}
