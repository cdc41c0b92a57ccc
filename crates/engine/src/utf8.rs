use std::mem;

/// Gives out bytes as text, in whole characters.
///
/// A character that is not yet complete waits, at most three bytes of it; bytes
/// that cannot become a character are replaced at once by U+FFFD, one for each
/// maximal subpart, as Unicode recommends and browsers do. So the text does not
/// depend on how the bytes were cut.
///
/// ```
/// # use logitchain_engine::Utf8Stream;
/// let mut stream = Utf8Stream::default();
/// assert_eq!(stream.push(b"\xF0\x9F"), "");
/// assert_eq!(stream.push(b"\x98\x80!"), "😀!");
/// assert_eq!(stream.push(b"\xC3("), "\u{FFFD}(");
/// assert_eq!(stream.push(b"\xE2\x80"), "");
/// assert_eq!(stream.finish(), "\u{FFFD}");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Utf8Stream {
    waiting: Vec<u8>,
}

impl Utf8Stream {
    /// Takes bytes and gives what has become text.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.waiting.extend_from_slice(bytes);
        let mut rest = self.waiting.as_slice();
        let incomplete = loop {
            match std::str::from_utf8(rest) {
                Ok(_) => break 0,
                Err(error) => {
                    rest = &rest[error.valid_up_to()..];
                    match error.error_len() {
                        Some(invalid) => rest = &rest[invalid..],
                        None => break rest.len(),
                    }
                }
            }
        };
        let incomplete = self.waiting.split_off(self.waiting.len() - incomplete);
        let complete = mem::replace(&mut self.waiting, incomplete);
        String::from_utf8_lossy(&complete).into_owned()
    }

    /// Ends the text: an incomplete character becomes one U+FFFD.
    ///
    /// Dropping it would hide that the model had begun one; other programs do
    /// either.
    pub fn finish(&mut self) -> &'static str {
        let incomplete = !self.waiting.is_empty();
        self.waiting.clear();
        if incomplete { "\u{FFFD}" } else { "" }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Utf8Stream;

    fn stream(pieces: &[&[u8]]) -> Vec<String> {
        let mut stream = Utf8Stream::default();
        let mut texts: Vec<String> = pieces.iter().map(|piece| stream.push(piece)).collect();
        texts.push(stream.finish().to_owned());
        texts
    }

    #[test]
    fn a_character_split_over_tokens_comes_out_once_and_whole() {
        assert_eq!(stream(&[b"\xF0\x9F", b"\x98\x80"]), ["", "😀", ""]);
        assert_eq!(stream(&[b"\xF0", b"\x9F", b"\x98", b"\x80"]), ["", "", "", "😀", ""]);
        assert_eq!(stream(&[b"\xE6\xAD", b"\xAA"]), ["", "歪", ""]);
    }

    #[test]
    fn an_incomplete_character_at_the_end_becomes_one_replacement() {
        assert_eq!(stream(&[b"\xF0\x9F\x98"]), ["", "\u{FFFD}"]);
        assert_eq!(stream(&[b"a", b"\xC3"]), ["a", "", "\u{FFFD}"]);
    }

    #[test]
    fn bytes_that_are_no_character_are_replaced_at_once() {
        assert_eq!(stream(&[b"\xED\xA0\x80"]), ["\u{FFFD}\u{FFFD}\u{FFFD}", ""]);
        assert_eq!(stream(&[b"\xE2\x80A"]), ["\u{FFFD}A", ""]);
        assert_eq!(stream(&[b"\xC3", b"("]), ["", "\u{FFFD}(", ""]);
        assert_eq!(stream(&[b"\xFF", b"\x80", b"x"]), ["\u{FFFD}", "\u{FFFD}", "x", ""]);
    }

    proptest! {
        #[test]
        fn cuts_do_not_change_the_text(
            bytes in prop::collection::vec(
                prop_oneof![any::<u8>(), prop::sample::select(b"\xF0\x9F\x98\x80\xE2\x80\x94a".to_vec())],
                0..40,
            ),
            cuts in prop::collection::vec(any::<bool>(), 40),
        ) {
            let mut stream = Utf8Stream::default();
            let mut text = String::new();
            let mut piece = Vec::new();
            for (&byte, &cut) in bytes.iter().zip(&cuts) {
                piece.push(byte);
                if cut {
                    text += &stream.push(&piece);
                    piece.clear();
                    prop_assert!(stream.waiting.len() <= 3);
                }
            }
            text += &stream.push(&piece);
            text += stream.finish();
            prop_assert_eq!(text, String::from_utf8_lossy(&bytes));
        }
    }
}
