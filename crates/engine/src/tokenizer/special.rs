use std::{
    collections::{HashMap, HashSet},
    ops::Range,
};

use super::{vocabulary::Kind, vocabulary::Vocabulary};

/// A part of a text: a token that was found by its printed form, or what lies
/// between two of them.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fragment {
    Token(u32),
    Text(Range<usize>),
}

/// Finds tokens by their printed form, before any other tokenization.
///
/// As in llama.cpp longer ones are looked for first, in the whole text, and of
/// one length from left to right.
#[derive(Debug)]
pub(super) struct SpecialTokens {
    // Longest first.
    lengths: Vec<Length>,
    /// Tokens that take the white space behind them away.
    strips: HashSet<u32>,
}

/// Special tokens of Phi-3 that leave white space behind them alone.
const PHI_3_KEEPS: [&str; 3] = ["<unk>", "<s>", "<|endoftext|>"];

#[derive(Debug)]
struct Length {
    bytes: usize,
    has_user_defined: bool,
    first_bytes: [bool; 256],
}

impl SpecialTokens {
    /// `name` is the model's: files do not say which tokens strip white space,
    /// so that llama.cpp goes by the name, too.
    pub(super) fn new(vocabulary: &Vocabulary, name: Option<&str>) -> Self {
        let name = name.unwrap_or_default().to_lowercase();
        let is_phi_3 = name.contains("phi-3") || name.contains("phi3");
        let mut strips = HashSet::new();
        let mut lengths: HashMap<usize, Length> = HashMap::new();
        for (id, text, kind) in vocabulary.printed_forms() {
            let Some(&first) = text.as_bytes().first() else { continue };
            let length = lengths.entry(text.len()).or_insert_with(|| Length {
                bytes: text.len(),
                has_user_defined: false,
                first_bytes: [false; 256],
            });
            length.has_user_defined |= kind == Kind::UserDefined;
            length.first_bytes[usize::from(first)] = true;
            if is_phi_3 && !PHI_3_KEEPS.contains(&text) {
                strips.insert(id);
            }
        }
        let mut lengths: Vec<Length> = lengths.into_values().collect();
        lengths.sort_unstable_by_key(|length| std::cmp::Reverse(length.bytes));
        Self { lengths, strips }
    }

    /// Cuts a text. User-defined tokens are always found; special ones if
    /// `parse`, and then only where they touch none of the sorted `plain` ranges.
    pub(super) fn split(
        &self,
        vocabulary: &Vocabulary,
        text: &[u8],
        parse: bool,
        plain: &[Range<usize>],
    ) -> Vec<Fragment> {
        let search = Search { vocabulary, strips: &self.strips, text, parse, plain };
        let mut fragments = vec![Fragment::Text(0..text.len())];
        for length in self.lengths.iter().filter(|length| parse || length.has_user_defined) {
            let mut cut = Vec::with_capacity(fragments.len());
            for fragment in fragments {
                match fragment {
                    Fragment::Text(range) => search.cut(length, range, &mut cut),
                    token @ Fragment::Token(_) => cut.push(token),
                }
            }
            fragments = cut;
        }
        fragments
    }
}

/// A text to cut.
struct Search<'a> {
    vocabulary: &'a Vocabulary,
    strips: &'a HashSet<u32>,
    text: &'a [u8],
    parse: bool,
    plain: &'a [Range<usize>],
}

impl Search<'_> {
    fn cut(&self, length: &Length, range: Range<usize>, fragments: &mut Vec<Fragment>) {
        let mut start = range.start;
        let mut at = range.start;
        while at + length.bytes <= range.end {
            let end = at + length.bytes;
            let may_begin = length.first_bytes[usize::from(self.text[at])];
            let Some(id) = may_begin.then(|| self.token(at..end)).flatten() else {
                at += 1;
                continue;
            };
            if start < at {
                fragments.push(Fragment::Text(start..at));
            }
            fragments.push(Fragment::Token(id));
            at = end;
            if self.strips.contains(&id) {
                // As C's `isspace` knows it.
                let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
                at += self.text[end..range.end].iter().take_while(|byte| is_space(byte)).count();
            }
            start = at;
        }
        if start < range.end {
            fragments.push(Fragment::Text(start..range.end));
        }
    }

    /// The token whose printed form stands there, if it counts there.
    fn token(&self, place: Range<usize>) -> Option<u32> {
        let id = self.vocabulary.id(&self.text[place.clone()])?;
        let counts = match self.vocabulary.kind(id) {
            Kind::UserDefined => true,
            kind => kind.is_special() && self.parse && !touches(self.plain, place),
        };
        counts.then_some(id)
    }
}

fn touches(plain: &[Range<usize>], place: Range<usize>) -> bool {
    let next = plain.partition_point(|range| range.end <= place.start);
    plain.get(next).is_some_and(|range| range.start < place.end)
}
