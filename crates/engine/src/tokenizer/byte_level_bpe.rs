use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::{
    TokenizerError, TokenizerSpec, error::cut, merge::merge_all, pre_tokenizer::PreTokenizer,
    vocabulary::Vocabulary,
};

/// Byte-pair encoding over bytes, as GPT-2 introduced it.
///
/// A vocabulary file is text, so every byte is written as a character of its
/// own: printable ones of Latin-1 as themselves, the others from U+0100 on.
///
/// Bytes that are not UTF-8 are words of their own. A byte for which there is no
/// token is left out, as in llama.cpp, and whoever asks for tokens is told.
#[derive(Debug)]
pub(super) struct ByteLevelBpe {
    pre_tokenizer: PreTokenizer,
    chars: [char; 256],
    of_byte: [Option<u32>; 256],
    // Rank, and the token that the two make.
    merges: HashMap<(u32, u32), (u32, u32), RandomState>,
}

impl ByteLevelBpe {
    pub(super) fn new(
        spec: &TokenizerSpec,
        pre_tokenizer: PreTokenizer,
        vocabulary: &Vocabulary,
    ) -> Result<Self, TokenizerError> {
        let key = TokenizerSpec::MERGES;
        let lines = spec.merges.as_ref().ok_or(TokenizerError::MissingKey { key })?;
        let mut merges = HashMap::with_capacity_and_hasher(lines.len(), RandomState::default());
        let mut both = String::new();
        for ((index, rank), line) in lines.iter().enumerate().map(|(i, line)| ((i, i as u32), line))
        {
            let text = || cut(line);
            let (left, right) = line
                .char_indices()
                .find(|&(at, c)| at > 0 && c == ' ')
                .map(|(at, _)| (&line[..at], &line[at + 1..]))
                .filter(|(_, right)| !right.is_empty())
                .ok_or_else(|| TokenizerError::MergeSyntax { index, text: text() })?;
            let id = |token: &str| {
                let token_error =
                    || TokenizerError::MergeToken { index, text: text(), token: cut(token) };
                vocabulary.id(token.as_bytes()).ok_or_else(token_error)
            };
            both.clear();
            both.extend([left, right]);
            let (left_id, right_id, joined) = (id(left)?, id(right)?, id(&both)?);
            // Else plain text could become a special token.
            if !vocabulary.is_special(joined) {
                merges.entry((left_id, right_id)).or_insert((rank, joined));
            }
        }
        let chars = byte_chars();
        let of_byte = chars.map(|c| vocabulary.plain_id(c.encode_utf8(&mut [0; 4]).as_bytes()));
        Ok(Self { pre_tokenizer, chars, of_byte, merges })
    }

    /// Appends the tokens of a text. Returns the first character that has none.
    pub(super) fn encode(
        &self,
        text: &[u8],
        vocabulary: &Vocabulary,
        tokens: &mut Vec<u32>,
    ) -> Option<char> {
        let mut left_out = None;
        for chunk in text.utf8_chunks() {
            for word in self.pre_tokenizer.split(chunk.valid()) {
                if let Some(at) = self.encode_word(word.as_bytes(), vocabulary, tokens)
                    && left_out.is_none()
                {
                    let from = word.char_indices().take_while(|&(start, _)| start <= at);
                    left_out = from.last().map(|(_, c)| c);
                }
            }
            if self.encode_word(chunk.invalid(), vocabulary, tokens).is_some() {
                left_out = left_out.or(Some(char::REPLACEMENT_CHARACTER));
            }
        }
        left_out
    }

    /// Returns where the first byte is that has no token.
    fn encode_word(
        &self,
        word: &[u8],
        vocabulary: &Vocabulary,
        tokens: &mut Vec<u32>,
    ) -> Option<usize> {
        if self.pre_tokenizer.whole_words() {
            let text: String = word.iter().map(|&byte| self.chars[usize::from(byte)]).collect();
            if let Some(id) = vocabulary.plain_id(text.as_bytes()) {
                tokens.push(id);
                return None;
            }
        }
        let bytes = word.iter().map(|&byte| self.of_byte[usize::from(byte)]);
        let merged = merge_all(bytes, |&left, &right| {
            let &(rank, joined) = self.merges.get(&(left?, right?))?;
            Some((rank, Some(joined)))
        });
        tokens.extend(merged.into_iter().flatten());
        word.iter().position(|&byte| self.of_byte[usize::from(byte)].is_none())
    }
}

/// The characters in which a vocabulary file writes bytes.
pub(super) fn byte_chars() -> [char; 256] {
    let mut others = '\u{100}'..;
    std::array::from_fn(|byte| match byte as u8 {
        printable @ (b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF) => char::from(printable),
        _ => others.next().expect("there are characters after U+0100"),
    })
}

/// What appends the bytes that a token's text in a vocabulary file stands for;
/// characters that stand for no byte stand for themselves.
pub(super) fn decoder() -> impl Fn(&str, &mut Vec<u8>) {
    let mut of_char = [None; 0x144];
    for (byte, c) in (0..=u8::MAX).zip(byte_chars()) {
        of_char[c as usize] = Some(byte);
    }
    move |text, bytes| {
        for c in text.chars() {
            match of_char.get(c as usize) {
                Some(&Some(byte)) => bytes.push(byte),
                _ => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{byte_chars, decoder};

    #[test]
    fn every_byte_has_a_character_of_its_own_that_gives_it_back() {
        let chars = byte_chars();
        assert_eq!(
            [chars[b' ' as usize], chars[b'\n' as usize], chars[b'a' as usize]],
            ['Ġ', 'Ċ', 'a']
        );
        let decode = decoder();
        for byte in 0..=255 {
            let mut bytes = vec![7];
            decode(&chars[usize::from(byte)].to_string(), &mut bytes);
            assert_eq!(bytes, [7, byte]);
        }
    }
}
