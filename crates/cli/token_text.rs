use logitchain_core::{TokenId, Vocab};

/// A token's text in quotes, with everything that cannot be seen escaped, and
/// bytes that are no text as `\xHH`; empty if the vocabulary does not know it.
pub(crate) fn shown(vocab: &dyn Vocab, token: TokenId) -> String {
    if token.index() >= vocab.size() {
        return String::new();
    }
    let mut text = String::from("\"");
    for chunk in vocab.bytes(token).utf8_chunks() {
        text.extend(chunk.valid().escape_debug());
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02X}")));
    }
    text + "\""
}

/// `token 7 " the"`.
pub(crate) fn named(vocab: &dyn Vocab, token: TokenId) -> String {
    let text = shown(vocab, token);
    let space = if text.is_empty() { "" } else { " " };
    format!("token {token}{space}{text}")
}

/// A token's text as data: what is no whole UTF-8 character reads `\u{FFFD}`. `None`
/// if the vocabulary does not know it.
pub(crate) fn plain(vocab: &dyn Vocab, token: TokenId) -> Option<String> {
    let known = token.index() < vocab.size();
    known.then(|| String::from_utf8_lossy(vocab.bytes(token)).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of one token.
    #[derive(Debug)]
    struct One(&'static [u8]);

    impl Vocab for One {
        fn size(&self) -> usize {
            1
        }

        fn bytes(&self, _: TokenId) -> &[u8] {
            self.0
        }
    }

    #[test]
    fn what_cannot_be_seen_is_escaped() {
        for (bytes, text) in [
            (&b" the"[..], r#"" the""#),
            (b"\n\t\x1B[1m", r#""\n\t\u{1b}[1m""#),
            (b"\"\\", r#""\"\\""#),
            (b"a\xE2\x80b", r#""a\xE2\x80b""#),
            // Right-to-left override.
            ("\u{202E}".as_bytes(), r#""\u{202e}""#),
            ("ä".as_bytes(), r#""ä""#),
        ] {
            assert_eq!(shown(&One(bytes), TokenId(0)), text);
        }
        assert_eq!(named(&One(b"a"), TokenId(0)), r#"token 0 "a""#);
        assert_eq!(named(&One(b"a"), TokenId(1)), "token 1");
    }
}
