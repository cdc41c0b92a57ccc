/// Reads backslash sequences in a text from the command line, as llama.cpp does:
/// `\n`, `\r`, `\t`, `\\`, `\'`, `\"` and `\xHH`, the last with a value below
/// 0x80. Any other backslash is itself.
pub(crate) fn unescape(text: &str) -> String {
    let mut read = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        read.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let (char, length) = match after.as_bytes() {
            [b'n', ..] => ('\n', 1),
            [b'r', ..] => ('\r', 1),
            [b't', ..] => ('\t', 1),
            [c @ (b'\\' | b'\'' | b'"'), ..] => (char::from(*c), 1),
            [b'x', high @ b'0'..=b'7', low, ..] if low.is_ascii_hexdigit() => {
                let digit = |b: u8| char::from(b).to_digit(16).unwrap_or_default();
                let code = 16 * digit(*high) + digit(*low);
                (char::from_u32(code).unwrap_or_default(), 3)
            }
            _ => ('\\', 0),
        };
        read.push(char);
        rest = &after[length..];
    }
    read + rest
}

#[cfg(test)]
mod tests {
    use super::unescape;

    #[test]
    fn known_sequences_are_read_and_others_kept() {
        assert_eq!(unescape(r"a\nb\tc\\n"), "a\nb\tc\\n");
        assert_eq!(unescape(r#"\"\'\r"#), "\"'\r");
        assert_eq!(unescape(r"\x41\x7E\x0a"), "A~\n");
        assert_eq!(unescape(r"\q \x9f \x4 \xé \"), r"\q \x9f \x4 \xé \");
    }
}
