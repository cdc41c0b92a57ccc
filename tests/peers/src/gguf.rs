//! GGUF files with other weights, and with a vocabulary alone.

use std::collections::BTreeSet;

use rand::{SeedableRng as _, seq::SliceRandom as _};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::{
    llama::{dequantize, quantize, row_size},
    texts::PIECES,
};

/// Number of the type `F32`.
const F32: u32 = 0;
const ALIGNMENT: usize = 32;

/// Reads on in a sound file.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        self.at += count;
        &self.bytes[self.at - count..self.at]
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take(4).try_into().expect("4 bytes"))
    }

    fn size(&mut self) -> usize {
        u64::from_le_bytes(self.take(8).try_into().expect("8 bytes")) as usize
    }

    fn skip_text(&mut self) {
        let length = self.size();
        self.take(length);
    }

    fn skip_value(&mut self, kind: u32) {
        match kind {
            0 | 1 | 7 => drop(self.take(1)),
            2 | 3 => drop(self.take(2)),
            4..=6 => drop(self.take(4)),
            8 => self.skip_text(),
            9 => {
                let (kind, count) = (self.u32(), self.size());
                (0..count).for_each(|_| self.skip_value(kind));
            }
            10..=12 => drop(self.take(8)),
            _ => panic!("no value has the type {kind}"),
        }
    }
}

/// The same model with all weights as `F32`, which holds the numbers that the
/// file's blocks stand for exactly.
///
/// # Panics
///
/// If it is no sound file, or not aligned to 32 bytes.
pub fn in_f32(file: &[u8]) -> Vec<u8> {
    with_types(file, |_| F32)
}

/// The same model with its weights in types that depend on a tensor's shape, the
/// length of a row first. llama.cpp rounds them. Vectors become `F32`, as they
/// are in all files.
///
/// # Panics
///
/// If it is no sound file, or not aligned to 32 bytes.
pub fn with_types(file: &[u8], kind: impl Fn(&[usize]) -> u32) -> Vec<u8> {
    let mut reader = Reader { bytes: file, at: 8 };
    let (tensors, values) = (reader.size(), reader.size());
    for _ in 0..values {
        reader.skip_text();
        let kind = reader.u32();
        reader.skip_value(kind);
    }
    let mut out = file[..reader.at].to_vec();
    let mut entries = Vec::new();
    let mut end = 0_usize;
    for _ in 0..tensors {
        let start = reader.at;
        reader.skip_text();
        let dimensions = reader.u32();
        let shape: Vec<usize> = (0..dimensions).map(|_| reader.size()).collect();
        out.extend(&file[start..reader.at]);
        let (old_kind, offset) = (reader.u32(), reader.size());
        let new_kind = if dimensions == 1 { F32 } else { kind(&shape) };
        let new_offset = end.next_multiple_of(ALIGNMENT);
        out.extend(new_kind.to_le_bytes());
        out.extend((new_offset as u64).to_le_bytes());
        end = new_offset + row_size(new_kind, shape[0]) * shape[1..].iter().product::<usize>();
        entries.push((old_kind, new_kind, shape, offset, new_offset));
    }
    let data = &file[reader.at.next_multiple_of(ALIGNMENT)..];
    let start = out.len().next_multiple_of(ALIGNMENT);
    out.reserve_exact(start + end - out.len());
    for (old_kind, new_kind, shape, offset, new_offset) in entries {
        out.resize(start + new_offset, 0);
        let numbers = dequantize(old_kind, &data[offset..], shape.iter().product());
        out.extend(quantize(new_kind, &numbers, shape[0]));
    }
    out
}

/// The same file with another text for a key that it has.
///
/// # Panics
///
/// If it is no sound file, or lacks the key.
pub fn with_text(file: &[u8], key: &str, text: &str) -> Vec<u8> {
    let mut reader = Reader { bytes: file, at: 8 };
    let (tensors, values) = (reader.size(), reader.size());
    let mut found = None;
    for _ in 0..values {
        let start = reader.at;
        reader.skip_text();
        let is_it = &file[start + 8..reader.at] == key.as_bytes();
        let kind = reader.u32();
        let value = reader.at;
        reader.skip_value(kind);
        if is_it && kind == 8 {
            found = Some(value..reader.at);
        }
    }
    for _ in 0..tensors {
        reader.skip_text();
        let dimensions = reader.u32() as usize;
        reader.take(8 * dimensions + 12);
    }
    let found = found.unwrap_or_else(|| panic!("no text for {key}"));
    let mut out = file[..found.start].to_vec();
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
    out.extend(&file[found.end..reader.at]);
    out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
    out.extend(&file[reader.at.next_multiple_of(ALIGNMENT)..]);
    out
}

/// A vocabulary of SentencePiece's kind without a model: three special tokens,
/// all bytes, two tokens that are found anywhere, and parts of the texts that
/// tests are made of, some better than others.
pub fn sentencepiece() -> Vec<u8> {
    sentencepiece_of("none")
}

/// The same for a model of this name, which llama.cpp goes by for Phi-3.
pub fn sentencepiece_of(name: &str) -> Vec<u8> {
    let [normal, unknown, control, user_defined, byte_type] = [1_i32, 2, 3, 4, 6];
    let mut tokens: Vec<(String, f32, i32)> = vec![
        ("<unk>".into(), 0.0, unknown),
        ("<s>".into(), 0.0, control),
        ("</s>".into(), 0.0, control),
        ("<|endoftext|>".into(), 0.0, control),
        ("<|im_start|>".into(), 0.0, control),
    ];
    tokens.extend((0..=255).map(|byte: u8| (format!("<0x{byte:02X}>"), 0.0, byte_type)));
    tokens.extend(["<|im_end|>", "    "].map(|text| (text.to_owned(), 0.0, user_defined)));
    let taken: BTreeSet<String> = tokens.iter().map(|(text, ..)| text.clone()).collect();
    let mut parts = BTreeSet::new();
    for text in PIECES {
        let text: Vec<char> = format!("▁{}▁", text.replace(' ', "▁")).chars().collect();
        for length in 1..=5 {
            parts.extend(text.windows(length).map(|part| part.iter().collect::<String>()));
        }
    }
    let mut parts: Vec<String> = parts.difference(&taken).cloned().collect();
    // llama.cpp reads names up to a zero.
    parts.retain(|part| !part.contains('\0'));
    parts.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(1));
    // Where two pieces have the same score, the left one is joined first.
    let score = |rank: usize| -((rank / 3) as f32);
    tokens.extend(parts.into_iter().enumerate().map(|(rank, text)| (text, score(rank), normal)));

    let mut out = b"GGUF\x03\0\0\0".to_vec();
    for count in [0_u64, 9] {
        out.extend(count.to_le_bytes());
    }
    let text = |out: &mut Vec<u8>, text: &str| {
        out.extend((text.len() as u64).to_le_bytes());
        out.extend(text.as_bytes());
    };
    for (key, value) in [
        ("general.architecture", "llama"),
        ("general.name", name),
        ("tokenizer.ggml.model", "llama"),
    ] {
        text(&mut out, key);
        out.extend(8_u32.to_le_bytes());
        text(&mut out, value);
    }
    let ids = [("unknown", 0_u32), ("bos", 1), ("eos", 2)];
    for (name, id) in ids {
        text(&mut out, &format!("tokenizer.ggml.{name}_token_id"));
        out.extend(4_u32.to_le_bytes());
        out.extend(id.to_le_bytes());
    }
    for (key, kind) in [("tokens", 8_u32), ("scores", 6), ("token_type", 5)] {
        text(&mut out, &format!("tokenizer.ggml.{key}"));
        out.extend(9_u32.to_le_bytes());
        out.extend(kind.to_le_bytes());
        out.extend((tokens.len() as u64).to_le_bytes());
        for (token, score, attribute) in &tokens {
            match key {
                "tokens" => text(&mut out, token),
                "scores" => out.extend(score.to_le_bytes()),
                _ => out.extend(attribute.to_le_bytes()),
            }
        }
    }
    out
}
