use half::{bf16, f16};

/// How a number of a file is stored, the lowest byte first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    F16,
    Bf16,
    F32,
    F64,
}

impl Element {
    /// In bytes.
    pub(super) fn size(self) -> usize {
        match self {
            Self::F16 | Self::Bf16 => 2,
            Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    /// The numbers that `bytes` hold. All types go into an `f64` exactly.
    pub(super) fn read(self, bytes: &[u8]) -> impl Iterator<Item = f64> {
        bytes.chunks_exact(self.size()).map(move |bytes| match (self, bytes) {
            (Self::F16, &[a, b]) => f16::from_le_bytes([a, b]).to_f64(),
            (Self::Bf16, &[a, b]) => bf16::from_le_bytes([a, b]).to_f64(),
            (Self::F32, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]).into(),
            (Self::F64, &[a, b, c, d, e, f, g, h]) => f64::from_le_bytes([a, b, c, d, e, f, g, h]),
            _ => unreachable!("the chunks are of the element's size"),
        })
    }
}
