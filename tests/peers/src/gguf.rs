//! GGUF files with other weights.

use crate::llama::dequantize;

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
        let count: usize = (0..dimensions).map(|_| reader.size()).product();
        out.extend(&file[start..reader.at]);
        let (kind, offset) = (reader.u32(), reader.size());
        let new_offset = end.next_multiple_of(ALIGNMENT);
        out.extend(F32.to_le_bytes());
        out.extend((new_offset as u64).to_le_bytes());
        end = new_offset + 4 * count;
        entries.push((kind, count, offset, new_offset));
    }
    let data = &file[reader.at.next_multiple_of(ALIGNMENT)..];
    let start = out.len().next_multiple_of(ALIGNMENT);
    out.reserve_exact(start + end - out.len());
    for (kind, count, offset, new_offset) in entries {
        out.resize(start + new_offset, 0);
        out.extend(dequantize(kind, &data[offset..], count).iter().flat_map(|x| x.to_le_bytes()));
    }
    out
}
