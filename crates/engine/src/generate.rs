use std::{
    fmt,
    time::{Duration, Instant},
};

use logitchain_core::{Chain, SampleError, TokenId};

use crate::{EngineError, Model, Session, StopStrings, ending::Ending};

/// Picks the tokens of a generation: a [`Chain`], or what stands before one to
/// look at the logits.
///
/// ```
/// use logitchain_core::{Chain, SampleError, TokenId};
/// use logitchain_engine::TokenPicker;
///
/// /// Counts the tokens that the model leaves possible.
/// struct Counted {
///     chain: Chain,
///     possible: Vec<usize>,
/// }
///
/// impl TokenPicker for Counted {
///     fn sample(&mut self, logits: &mut [f32]) -> Result<TokenId, SampleError> {
///         self.possible.push(logits.iter().filter(|logit| logit.is_finite()).count());
///         self.chain.sample(logits)
///     }
///
///     fn accept(&mut self, token: TokenId) {
///         self.chain.accept(token);
///     }
/// }
/// ```
pub trait TokenPicker {
    /// Picks the next token, without accepting it. May work in `logits`.
    ///
    /// # Errors
    ///
    /// If no token can be picked.
    fn sample(&mut self, logits: &mut [f32]) -> Result<TokenId, SampleError>;

    /// Hears that `token` was appended to the text.
    fn accept(&mut self, token: TokenId);
}

impl TokenPicker for Chain {
    fn sample(&mut self, logits: &mut [f32]) -> Result<TokenId, SampleError> {
        self.sample(logits)
    }

    fn accept(&mut self, token: TokenId) {
        self.accept(token);
    }
}

/// When to stop, and what to show.
#[derive(Clone, Debug, Default)]
pub struct GenerateOptions {
    /// How many tokens to generate at most; the one that ends the generation
    /// counts. `None`: until the model ends it, or its context is full.
    pub max_tokens: Option<usize>,
    /// Texts that end the generation. Only generated text is searched, not the
    /// prompt: a stop that began there is not found. Nor are special tokens that
    /// are not shown.
    pub stops: StopStrings,
    /// Whether special tokens are part of the text, as they are printed. The one
    /// that ends the generation never is.
    pub show_special: bool,
}

/// Why a generation stopped. If several reasons meet, the first here counts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopReason {
    /// The model ended its text with this token.
    EndOfGeneration(TokenId),
    /// The text came to this stop string, which is not part of it.
    StopString(String),
    /// All tokens that were asked for are there.
    TokenLimit,
    /// The text is as long as the model can read.
    ContextFull,
}

impl StopReason {
    /// The reason in a word that stays the same, for files: `end_of_generation`,
    /// `stop_string`, `token_limit` or `context_full`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::EndOfGeneration(_) => "end_of_generation",
            Self::StopString(_) => "stop_string",
            Self::TokenLimit => "token_limit",
            Self::ContextFull => "context_full",
        }
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EndOfGeneration(token) => write!(f, "the model ended the text (token {token})"),
            Self::StopString(stop) => write!(f, "stop string {stop:?}"),
            Self::TokenLimit => f.write_str("token limit"),
            Self::ContextFull => f.write_str("the model's context is full"),
        }
    }
}

/// One token of a generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The token.
    pub token: TokenId,
    /// What there is to show now: often the token's own text, but characters come
    /// whole, and what may be part of a stop string comes when it is known not to
    /// be. The last step brings all that was held back.
    pub text: String,
}

/// Where the time of a generation went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timings {
    /// Number of tokens in the prompt.
    pub prompt_tokens: usize,
    /// Number of tokens generated.
    pub tokens: usize,
    /// The model, over the prompt.
    pub prompt: Duration,
    /// The model, over generated tokens. The last one is never evaluated.
    pub forward: Duration,
    /// The chain, prompt included.
    pub sampling: Duration,
    /// Turning tokens into text, and looking for stops.
    pub decoding: Duration,
}

/// A text in the making: an iterator over its tokens.
///
/// After each token the gates are asked in this order: is it one that ends a
/// generation, is the text at a stop string, is the token limit reached, is the
/// context full? The step that goes through a gate is the last one, and
/// [`stop_reason`](Self::stop_reason) then says which it was.
///
/// Every token goes into the chain: those of the prompt, with beginning-of-text
/// and the template's own, and those generated, with the one that ends the text.
/// When it is over, the model has read all but the last token.
///
/// An incomplete character at the end of the text becomes one U+FFFD.
///
/// ```
/// use logitchain_core::{ChainConfig, Registry};
/// use logitchain_engine::*;
/// use logitchain_stages as _;
///
/// let mut model = NgramModel::of_characters("one two three. one two four.", 5)?;
/// let config = ChainConfig::from_samplers("greedy")?;
/// let mut chain = config.build(&Registry::linked()?, model.tokenizer())?;
/// let prompt = prompt_tokens(model.tokenizer(), "one", Special::Plain)?;
/// let options = GenerateOptions { stops: StopStrings::new(["."])?, ..Default::default() };
/// let mut generation = Generation::new(&mut model, &mut chain, &prompt, options)?;
/// let mut text = String::new();
/// for step in &mut generation {
///     text += &step?.text;
/// }
/// assert_eq!(text, " two four");
/// assert_eq!(generation.stop_reason(), Some(&StopReason::StopString(".".into())));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Generation<'a> {
    model: &'a mut dyn Model,
    picker: &'a mut dyn TokenPicker,
    ending: Ending,
    next: Next,
    stop_reason: Option<StopReason>,
    timings: Timings,
}

/// Where the logits of the next step are.
#[derive(Debug)]
enum Next {
    /// After the prompt.
    Logits(Vec<f32>),
    /// To be computed from this token.
    Token(TokenId),
    /// Nowhere: there are no more steps.
    Over,
}

impl<'a> Generation<'a> {
    /// Reads a prompt: appends its tokens to the model's text and tells the chain.
    ///
    /// # Errors
    ///
    /// If the prompt is empty or does not fit into what is left of the context,
    /// or the model fails.
    pub fn new(
        model: &'a mut dyn Model,
        picker: &'a mut dyn TokenPicker,
        prompt: &[TokenId],
        options: GenerateOptions,
    ) -> Result<Self, EngineError> {
        Self::with_progress(model, picker, prompt, options, |_| {})
    }

    /// As [`new`](Self::new), and says now and then how many of the prompt's
    /// tokens are read.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn with_progress(
        model: &'a mut dyn Model,
        picker: &'a mut dyn TokenPicker,
        prompt: &[TokenId],
        options: GenerateOptions,
        mut progress: impl FnMut(usize),
    ) -> Result<Self, EngineError> {
        if prompt.is_empty() {
            return Err(EngineError::EmptyPrompt);
        }
        if let Some(context) = model.context_length() {
            let left = context.saturating_sub(model.position());
            if prompt.len() > left {
                return Err(EngineError::ContextFull { tokens: prompt.len(), left, context });
            }
        }
        let mut timings = Timings { prompt_tokens: prompt.len(), ..Timings::default() };
        let mut read = 0;
        let mut logits = Vec::new();
        for chunk in prompt.chunks(Session::CHUNK) {
            let start = Instant::now();
            let after = model.forward(chunk)?;
            read += chunk.len();
            if read == prompt.len() {
                logits = after.to_vec();
            }
            timings.prompt += start.elapsed();
            progress(read);
        }
        let start = Instant::now();
        for &token in prompt {
            picker.accept(token);
        }
        timings.sampling = start.elapsed();
        let ending = Ending::new(options);
        let (next, stop_reason) = if ending.is_over_at_once() {
            (Next::Over, Some(StopReason::TokenLimit))
        } else {
            (Next::Logits(logits), None)
        };
        Ok(Self { model, picker, ending, next, stop_reason, timings })
    }

    /// Why there are no more steps; `None` while there are, and after an error.
    pub fn stop_reason(&self) -> Option<&StopReason> {
        self.stop_reason.as_ref()
    }

    /// Where the time went so far.
    pub fn timings(&self) -> Timings {
        self.timings
    }

    fn step(&mut self) -> Result<Option<Step>, EngineError> {
        let mut start = Instant::now();
        let token = match std::mem::replace(&mut self.next, Next::Over) {
            Next::Over => return Ok(None),
            Next::Logits(mut logits) => self.picker.sample(&mut logits)?,
            Next::Token(token) => {
                let logits = self.model.forward(&[token])?;
                self.timings.forward += lap(&mut start);
                self.picker.sample(logits)?
            }
        };
        self.picker.accept(token);
        self.timings.sampling += lap(&mut start);
        self.timings.tokens += 1;

        let full = self.model.context_length().is_some_and(|len| self.model.position() >= len);
        let (text, reason) = self.ending.push(token, self.model.tokenizer(), full);
        self.timings.decoding += lap(&mut start);
        match reason {
            None => self.next = Next::Token(token),
            reason => self.stop_reason = reason,
        }
        Ok(Some(Step { token, text }))
    }
}

impl Iterator for Generation<'_> {
    type Item = Result<Step, EngineError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}

impl fmt::Debug for Generation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Generation")
            .field("ending", &self.ending)
            .field("next", &self.next)
            .field("stop_reason", &self.stop_reason)
            .field("timings", &self.timings)
            .finish_non_exhaustive()
    }
}

/// The time since `start`, which becomes now.
fn lap(start: &mut Instant) -> Duration {
    let now = Instant::now();
    now.duration_since(std::mem::replace(start, now))
}

#[cfg(test)]
mod tests {
    use logitchain_core::{SampleError, TokenId, Vocab};
    use proptest::prelude::*;

    use super::{GenerateOptions, Generation, Step, StopReason, TokenPicker};
    use crate::{EngineError, Model, NgramModel, Special, StopStrings, Tokenizer};

    /// Says what it is told to, one token per piece. Token 0 begins a text, 1
    /// ends it, and 2 is special.
    #[derive(Debug)]
    struct Script {
        pieces: Vec<Vec<u8>>,
        says: Vec<u32>,
        prompt: usize,
        position: usize,
        context: Option<usize>,
        calls: Vec<usize>,
        logits: Vec<f32>,
    }

    impl Script {
        /// Says these pieces; `None` is the end of the text.
        fn new(says: &[Option<&[u8]>]) -> Self {
            let mut pieces = vec![b"<s>".to_vec(), b"</s>".to_vec(), b"<x>".to_vec()];
            let ids = says.iter().map(|piece| match piece {
                None => 1,
                Some(b"<x>") => 2,
                Some(piece) => {
                    pieces.push(piece.to_vec());
                    pieces.len() as u32 - 1
                }
            });
            let says = ids.collect();
            let logits = vec![0.0; pieces.len()];
            Self { pieces, says, prompt: 1, position: 0, context: None, calls: vec![], logits }
        }
    }

    impl Vocab for Script {
        fn size(&self) -> usize {
            self.pieces.len()
        }

        fn bytes(&self, token: TokenId) -> &[u8] {
            &self.pieces[token.index()]
        }

        fn is_special(&self, token: TokenId) -> bool {
            token.0 < 3
        }

        fn is_end_of_generation(&self, token: TokenId) -> bool {
            token.0 == 1
        }
    }

    impl Tokenizer for Script {
        fn encode(&self, _: &str, _: Special) -> Vec<TokenId> {
            vec![]
        }
    }

    impl Model for Script {
        fn tokenizer(&self) -> &dyn Tokenizer {
            self
        }

        fn forward(&mut self, tokens: &[TokenId]) -> Result<&mut [f32], EngineError> {
            self.calls.push(tokens.len());
            self.position += tokens.len();
            self.logits.fill(0.0);
            if let Some(&next) = self.says.get(self.position.saturating_sub(self.prompt)) {
                self.logits[next as usize] = 1.0;
            }
            Ok(&mut self.logits)
        }

        fn position(&self) -> usize {
            self.position
        }

        fn context_length(&self) -> Option<usize> {
            self.context
        }

        fn rewind(&mut self, position: usize) {
            self.position = position;
        }
    }

    /// Takes the best token, and remembers what it accepted.
    #[derive(Default)]
    struct Greedy(Vec<TokenId>);

    impl TokenPicker for Greedy {
        fn sample(&mut self, logits: &mut [f32]) -> Result<TokenId, SampleError> {
            let best = (0..logits.len()).rev().max_by(|&a, &b| logits[a].total_cmp(&logits[b]));
            best.map(|id| TokenId(id as u32)).ok_or(SampleError::Empty)
        }

        fn accept(&mut self, token: TokenId) {
            self.0.push(token);
        }
    }

    fn options(stops: &[&str], max_tokens: Option<usize>) -> GenerateOptions {
        let stops = StopStrings::new(stops.iter().copied()).unwrap();
        GenerateOptions { max_tokens, stops, show_special: false }
    }

    fn run(model: &mut Script, options: GenerateOptions) -> (Vec<String>, StopReason) {
        let mut picker = Greedy::default();
        let mut generation = Generation::new(model, &mut picker, &[TokenId(0)], options).unwrap();
        let texts = generation.by_ref().map(|step| step.unwrap().text).collect();
        let reason = generation.stop_reason().unwrap().clone();
        (texts, reason)
    }

    fn says(
        pieces: &[&[u8]],
        stops: &[&str],
        max_tokens: Option<usize>,
    ) -> (Vec<String>, StopReason) {
        let pieces: Vec<_> = pieces.iter().map(|&piece| Some(piece)).chain([None]).collect();
        run(&mut Script::new(&pieces), options(stops, max_tokens))
    }

    const ENDED: StopReason = StopReason::EndOfGeneration(TokenId(1));

    fn stopped(stop: &str) -> StopReason {
        StopReason::StopString(stop.into())
    }

    #[test]
    fn a_stop_string_split_over_tokens_stops_and_is_never_shown() {
        let (texts, reason) = says(&[b"Hi", b"\nUs", b"er", b":", b" x"], &["\nUser:"], None);
        assert_eq!(texts, ["Hi", "", "", ""]);
        assert_eq!(reason, stopped("\nUser:"));
        assert_eq!(says(&[b"aab"], &["ab"], None), (vec!["a".into()], stopped("ab")));
        assert_eq!(says(&[b"a", b"a", b"b"], &["ab"], None).0.concat(), "a");
    }

    #[test]
    fn text_that_was_held_back_comes_when_the_generation_ends_otherwise() {
        let pieces: [&[u8]; 4] = [b"UNO", b" DUE", b" TR", b"E"];
        let (texts, reason) = says(&pieces, &["TRE\nA"], None);
        assert_eq!((texts.concat().as_str(), reason), ("UNO DUE TRE", ENDED));
        let (texts, reason) = says(&pieces, &["TRE\nA"], Some(3));
        assert_eq!((texts.concat().as_str(), reason), ("UNO DUE TR", StopReason::TokenLimit));
    }

    #[test]
    fn characters_split_over_tokens_stream_whole() {
        let texts = |pieces: &[&[u8]]| says(pieces, &[], None).0;
        assert_eq!(texts(&[b"\xF0\x9F", b"\x98\x80"]), ["", "😀", ""]);
        assert_eq!(texts(&[b"\xE6\xAD", b"\xAA"]), ["", "歪", ""]);
        assert_eq!(texts(&[b"\xF0", b"\x9F", b"\x98", b"\x80"]), ["", "", "", "😀", ""]);
        assert_eq!(texts(&[b"\xED\xA0\x80"]), ["\u{FFFD}\u{FFFD}\u{FFFD}", ""]);
        assert_eq!(texts(&[b"\xE2\x80A"]), ["\u{FFFD}A", ""]);
        assert_eq!(texts(&[b"\xC3", b"("]), ["", "\u{FFFD}(", ""]);
    }

    #[test]
    fn an_incomplete_character_at_the_end_counts_and_becomes_one_replacement() {
        assert_eq!(
            says(&[b"\xF0\x9F\x98"], &[], None),
            (vec!["".into(), "\u{FFFD}".into()], ENDED)
        );
        let mut model = Script::new(&[Some(b"\xF0\x9F\x98"), None]);
        let mut picker = Greedy::default();
        let mut generation =
            Generation::new(&mut model, &mut picker, &[TokenId(0)], options(&[], Some(1))).unwrap();
        let steps: Vec<Step> = generation.by_ref().map(Result::unwrap).collect();
        assert_eq!(steps, [Step { token: TokenId(3), text: "\u{FFFD}".into() }]);
        assert_eq!(generation.timings().tokens, 1);
    }

    #[test]
    fn a_stop_string_may_be_a_character_split_over_tokens() {
        let (texts, reason) = says(&[b"caf", b"\xC3", b"\xA9", b"s"], &["é"], None);
        assert_eq!((texts.concat().as_str(), reason), ("caf", stopped("é")));
        let (texts, _) = says(&[b"x\xE2\x80", b"END"], &["END"], None);
        assert_eq!(texts.concat(), "x\u{FFFD}");
    }

    #[test]
    fn the_first_stop_to_be_complete_wins_in_any_order_and_cut() {
        for stops in [["HALT", "END"], ["END", "HALT"]] {
            assert_eq!(
                says(&[b"abcENDdefHALT"], &stops, None),
                (vec!["abc".into()], stopped("END"))
            );
        }
        for pieces in [&[b"abcd" as &[u8]] as &[&[u8]], &[b"a", b"b", b"c", b"d"]] {
            let (texts, reason) = says(pieces, &["bcd", "c"], None);
            assert_eq!((texts.concat().as_str(), reason), ("ab", stopped("c")));
        }
    }

    #[test]
    fn a_stop_in_the_prompt_or_across_its_end_does_not_fire() {
        let mut model = NgramModel::of_characters("abcdabcd", 3).unwrap();
        let prompt = model.tokenizer().encode("ab", Special::Plain);
        let mut picker = Greedy::default();
        let options = options(&["ab", "bc"], Some(2));
        let mut generation = Generation::new(&mut model, &mut picker, &prompt, options).unwrap();
        let text: String = generation.by_ref().map(|step| step.unwrap().text).collect();
        assert_eq!(
            (text.as_str(), generation.stop_reason()),
            ("cd", Some(&StopReason::TokenLimit))
        );
    }

    #[test]
    fn an_end_of_generation_comes_before_a_token_limit_and_a_stop_string_too() {
        assert_eq!(says(&[b"a"], &[], Some(2)).1, ENDED);
        assert_eq!(says(&[b"a", b"b"], &["b"], Some(2)).1, stopped("b"));
        assert_eq!(says(&[b"a", b"b"], &[], Some(2)).1, StopReason::TokenLimit);
        assert_eq!(says(&[b"a"], &[], Some(0)), (vec![], StopReason::TokenLimit));
    }

    #[test]
    fn a_full_context_ends_the_generation_and_gives_out_all_text() {
        let mut model = Script::new(&[Some(b"a"), Some(b"b"), Some(b"c"), None]);
        model.context = Some(3);
        let (texts, reason) = run(&mut model, options(&["cx"], None));
        // Three positions: the prompt, a and b; c is sampled, and never read.
        assert_eq!((texts.concat().as_str(), reason), ("abc", StopReason::ContextFull));
        assert_eq!(model.position, 3);
    }

    #[test]
    fn special_tokens_are_shown_only_where_asked_for() {
        let pieces: [Option<&[u8]>; 4] = [Some(b"a"), Some(b"<x>"), Some(b"b"), None];
        assert_eq!(run(&mut Script::new(&pieces), options(&["<x>"], None)).0.concat(), "ab");
        let shown = GenerateOptions { show_special: true, ..options(&[], None) };
        assert_eq!(run(&mut Script::new(&pieces), shown).0.concat(), "a<x>b");
    }

    #[test]
    fn the_chain_hears_every_token_of_prompt_and_text() {
        let mut model = Script::new(&[Some(b"a"), None]);
        model.prompt = 150;
        let mut picker = Greedy::default();
        let prompt = vec![TokenId(0); 150];
        let mut seen = vec![];
        let progress = |read| seen.push(read);
        let generation = Generation::with_progress(
            &mut model,
            &mut picker,
            &prompt,
            options(&[], None),
            progress,
        );
        let mut generation = generation.unwrap();
        assert_eq!(generation.by_ref().count(), 2);
        assert!(generation.next().is_none());
        let timings = generation.timings();
        assert_eq!((timings.prompt_tokens, timings.tokens), (150, 2));
        assert_eq!(seen, [128, 150]);
        assert_eq!(model.calls, [128, 22, 1]);
        assert_eq!(picker.0, [prompt, vec![TokenId(3), TokenId(1)]].concat());
    }

    #[test]
    fn a_prompt_that_is_empty_or_too_long_is_refused_before_anything_is_read() {
        let mut model = Script::new(&[None]);
        model.context = Some(2);
        let mut picker = Greedy::default();
        let empty = Generation::new(&mut model, &mut picker, &[], options(&[], None));
        assert!(matches!(empty, Err(EngineError::EmptyPrompt)));
        let long = Generation::new(&mut model, &mut picker, &[TokenId(0); 3], options(&[], None));
        let expected = "3 more tokens do not fit: 2 of the model's 2 positions are left";
        assert_eq!(long.unwrap_err().to_string(), expected);
        assert_eq!((model.position, picker.0.len()), (0, 0));
    }

    #[test]
    fn after_an_error_there_are_no_more_steps() {
        struct Fails;
        impl TokenPicker for Fails {
            fn sample(&mut self, _: &mut [f32]) -> Result<TokenId, SampleError> {
                Err(SampleError::Empty)
            }
            fn accept(&mut self, _: TokenId) {}
        }
        let mut model = Script::new(&[None]);
        let mut picker = Fails;
        let mut generation =
            Generation::new(&mut model, &mut picker, &[TokenId(0)], options(&[], None)).unwrap();
        assert!(matches!(generation.next(), Some(Err(EngineError::Sample(SampleError::Empty)))));
        assert!(generation.next().is_none());
        assert_eq!(generation.stop_reason(), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn how_a_text_is_cut_into_tokens_does_not_change_it(
            text in prop::collection::vec(prop::sample::select(b"ab\xC3\xA9\xF0\x9F".to_vec()), 1..40),
            cuts in prop::collection::vec(any::<bool>(), 40),
            stops in prop::collection::vec("[ab\u{e9}]{1,4}", 0..3),
        ) {
            let stops: Vec<&str> = stops.iter().map(String::as_str).collect();
            let mut pieces = vec![vec![]];
            for (&byte, &cut) in text.iter().zip(&cuts) {
                if cut {
                    pieces.push(vec![]);
                }
                pieces.last_mut().unwrap().push(byte);
            }
            let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            let (streamed, reason) = says(&pieces, &stops, None);
            let (whole, expected_reason) = says(&[&text], &stops, None);
            prop_assert_eq!(streamed.concat(), whole.concat());
            prop_assert_eq!(reason, expected_reason);
            if stops.is_empty() {
                prop_assert_eq!(streamed.concat(), String::from_utf8_lossy(&text));
            }
        }
    }
}
