use regex::Regex;

use super::TokenizerError;
use crate::gguf::Shown;

/// Cuts a text into the words within which byte-level BPE merges.
///
/// Each pass cuts the pieces that the pass before it left; what its pattern
/// does not match is a piece too, so that the pieces joined are the text.
///
/// The published patterns end in `\s+(?!\S)|\s+`: a run of white space gives
/// its last character to the word after it. A look-ahead needs an engine that
/// backtracks; here the pattern ends in `\s+` and [`Pass::cut`] gives the
/// character back, so that the time is linear whatever the text.
#[derive(Debug)]
pub(super) struct PreTokenizer {
    passes: Vec<Pass>,
    whole_words: bool,
    begins_with_bos: bool,
}

#[derive(Debug)]
struct Pass {
    regex: Regex,
    /// Whether a run that ends in a line break keeps it.
    keeps_line_breaks: bool,
}

const GPT_2: &str = r"'(?:[stmd]|re|ve|ll)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+";
const LLAMA_3: &str = r"'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+";
const QWEN_2: &str = r"'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+";
const EACH_DIGIT: &str = r"\p{N}";
const PUNCTUATION: &str = r"[\p{P}$+<=>^~|]+";
const DIGITS: &str = r"\p{N}+";
const THREE_DIGITS: &str = r"[0-9][0-9][0-9]";

/// With case told apart for the Latin letters of ASCII alone, as llama.cpp does.
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{L}--[a-z]]*[\p{L}--[A-Z]]+|[^\r\n\p{L}\p{N}]?[\p{L}--[a-z]]+[\p{L}--[A-Z]]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+";

const GPT_4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{L}--[a-z]]*[\p{L}--[A-Z]]+(?:'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL]))?|[^\r\n\p{L}\p{N}]?[\p{L}--[a-z]]+[\p{L}--[A-Z]]*(?:'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL]))?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+";

/// A kind of pre-tokenizer.
struct Known {
    /// Values of `tokenizer.ggml.pre`.
    names: &'static [&'static str],
    /// The pattern of each pass.
    patterns: &'static [&'static str],
    /// Whether a word that is a token is that token, whatever the merges say.
    whole_words: bool,
    /// Whether texts begin with a token unless the file says otherwise.
    begins_with_bos: bool,
}

const fn known(names: &'static [&'static str], patterns: &'static [&'static str]) -> Known {
    Known { names, patterns, whole_words: false, begins_with_bos: false }
}

static KNOWN: [Known; 8] = [
    known(&["default"], &[PUNCTUATION, GPT_2, DIGITS, THREE_DIGITS]),
    known(&["gpt-2", "phi-2", "mpt", "olmo"], &[GPT_2]),
    known(&["smollm", "starcoder", "refact", "command-r"], &[EACH_DIGIT, GPT_2]),
    Known {
        whole_words: true,
        begins_with_bos: true,
        ..known(&["llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral"], &[LLAMA_3])
    },
    known(&["smaug-bpe", "dbrx"], &[LLAMA_3]),
    known(&["qwen2", "deepseek-r1-qwen", "stablelm2", "megrez"], &[QWEN_2]),
    Known { whole_words: true, begins_with_bos: true, ..known(&["tekken"], &[TEKKEN]) },
    known(&["gpt-4o", "llama4"], &[GPT_4O]),
];

/// Every name that is known.
pub(crate) fn names() -> Vec<&'static str> {
    KNOWN.iter().flat_map(|known| known.names.iter().copied()).collect()
}

impl PreTokenizer {
    /// The pre-tokenizer of that name.
    pub(super) fn named(name: &str) -> Result<Self, TokenizerError> {
        let Some(known) = KNOWN.iter().find(|known| known.names.contains(&name)) else {
            return Err(TokenizerError::UnknownPreTokenizer {
                found: Shown(name).to_string(),
                known: self::names().join(", "),
            });
        };
        let pass = |&pattern: &&str| Pass {
            regex: Regex::new(pattern).expect("the patterns are constants, and tested"),
            keeps_line_breaks: pattern.contains(r"\s*[\r\n]+"),
        };
        Ok(Self {
            passes: known.patterns.iter().map(pass).collect(),
            whole_words: known.whole_words,
            begins_with_bos: known.begins_with_bos,
        })
    }

    /// Whether a word that is a token is that token, whatever the merges say.
    pub(super) fn whole_words(&self) -> bool {
        self.whole_words
    }

    /// Whether models of this kind want a beginning-of-text token unless their
    /// file says otherwise.
    pub(super) fn begins_with_bos(&self) -> bool {
        self.begins_with_bos
    }

    /// The words of a text; joined, they are the text.
    pub(super) fn split<'t>(&self, text: &'t str) -> Vec<&'t str> {
        let mut pieces = vec![text];
        for pass in &self.passes {
            let mut cut = Vec::with_capacity(pieces.len());
            for piece in pieces {
                pass.cut(piece, &mut cut);
            }
            pieces = cut;
        }
        pieces
    }
}

impl Pass {
    fn cut<'t>(&self, text: &'t str, pieces: &mut Vec<&'t str>) {
        let mut start = 0;
        while let Some(found) = self.regex.find_at(text, start) {
            if start < found.start() {
                pieces.push(&text[start..found.start()]);
            }
            let mut end = found.end();
            // Only a run of white space can end in white space, but for the
            // line breaks that some patterns append to other words.
            if let Some(last) = found.as_str().chars().next_back()
                && last.is_whitespace()
                && !(self.keeps_line_breaks && matches!(last, '\r' | '\n'))
                && end < text.len()
                && found.len() > last.len_utf8()
            {
                end -= last.len_utf8();
            }
            pieces.push(&text[found.start()..end]);
            start = end;
        }
        if start < text.len() {
            pieces.push(&text[start..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{KNOWN, Known, PreTokenizer};

    fn split<'t>(name: &str, text: &'t str) -> Vec<&'t str> {
        PreTokenizer::named(name).unwrap().split(text)
    }

    #[test]
    fn gpt_2_gives_the_last_space_of_a_run_to_the_next_word() {
        assert_eq!(split("gpt-2", "a   b"), ["a", "  ", " b"]);
        assert_eq!(split("gpt-2", "a \n b\n\nc  "), ["a", " \n", " b", "\n", "\n", "c", "  "]);
        assert_eq!(split("gpt-2", "a\u{3000}\u{3000}b"), ["a", "\u{3000}", "\u{3000}", "b"]);
        assert_eq!(split("gpt-2", " \tx"), [" ", "\t", "x"]);
    }

    #[test]
    fn gpt_2_cuts_contractions_numbers_and_punctuation() {
        assert_eq!(
            split("gpt-2", "I'll pay 1234½, don't?!"),
            ["I", "'ll", " pay", " 1234½", ",", " don", "'t", "?!"]
        );
        assert_eq!(split("gpt-2", "HE'S"), ["HE", "'", "S"]);
    }

    #[test]
    fn smollm_cuts_every_digit_first_so_a_run_before_one_stays_whole() {
        assert_eq!(split("smollm", "a  12"), ["a", "  ", "1", "2"]);
    }

    #[test]
    fn llama_3_takes_three_digits_and_keeps_line_breaks_together() {
        assert_eq!(
            split("llama-bpe", "12345 HE'LL\n\n  go.\n\nx"),
            ["123", "45", " HE", "'LL", "\n\n", " ", " go", ".\n\n", "x"]
        );
    }

    #[test]
    fn qwen_2_takes_one_digit() {
        assert_eq!(split("qwen2", "12 \t3x"), ["1", "2", " ", "\t", "3", "x"]);
    }

    /// By hand from the published pattern.
    #[test]
    fn tekken_cuts_before_a_capital_and_keeps_slashes() {
        assert_eq!(
            split("tekken", "helloWorld HTTPServer 12 a/b //\nx"),
            ["hello", "World", " HTTPServer", " ", "1", "2", " a", "/b", " //\n", "x"]
        );
    }

    /// By hand from the published pattern.
    #[test]
    fn gpt_4o_keeps_a_contraction_with_its_word() {
        assert_eq!(
            split("gpt-4o", "don't camelCase 1234"),
            ["don't", " camel", "Case", " ", "123", "4"]
        );
    }

    #[test]
    fn the_default_sets_punctuation_apart_and_cuts_numbers_in_threes() {
        assert_eq!(split("default", "It's 12345.6"), ["It", "'", "s", " ", "123", "45", ".", "6"]);
    }

    #[test]
    fn an_unknown_name_is_an_error_that_lists_the_known_ones() {
        let error = PreTokenizer::named("bloom").unwrap_err().to_string();
        assert!(error.contains("`bloom`") && error.contains("smollm, starcoder"), "{error}");
    }

    #[test]
    fn the_pieces_joined_are_the_text() {
        let text = "  Ça va?\r\n\r\n 12\u{a0}345 'S  ’s\t\t\u{85}漢字カナ 🦀🦀 e\u{301}  \n";
        for Known { names, .. } in &KNOWN {
            assert_eq!(split(names[0], text).concat(), text, "{names:?}");
        }
    }

    #[test]
    fn a_megabyte_of_white_space_is_no_trouble() {
        let text = " ".repeat(1 << 20) + "x";
        assert_eq!(split("gpt-2", &text).len(), 2);
    }
}
