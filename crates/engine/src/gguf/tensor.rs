use std::{fmt, ops::Range};

use super::{Cursor, GgufError, Source, cursor::quoted};

/// The format's limit on the length of a tensor's name.
const LONGEST_NAME: usize = 64;

/// Every element type that GGUF has a number for, with the number of elements
/// and of bytes in one block.
macro_rules! tensor_types {
    ($($number:literal $name:ident $block:literal $bytes:literal;)*) => {
        /// How the elements of a tensor are stored. The engine cannot compute
        /// with all of them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[allow(non_camel_case_types, reason = "the names are the file format's")]
        pub enum TensorType {
            $(#[doc = concat!("Number ", $number, ": ", $bytes, " bytes for ", $block, " elements.")]
            $name,)*
        }

        impl TensorType {
            fn from_number(number: u32) -> Option<Self> {
                match number {
                    $($number => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// The type's name, as the format writes it.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// Elements in one block.
            pub fn block_len(self) -> usize {
                match self { $(Self::$name => $block,)* }
            }

            /// Bytes in one block.
            pub fn block_bytes(self) -> usize {
                match self { $(Self::$name => $bytes,)* }
            }
        }
    };
}

tensor_types! {
    0 F32 1 4;
    1 F16 1 2;
    2 Q4_0 32 18;
    3 Q4_1 32 20;
    6 Q5_0 32 22;
    7 Q5_1 32 24;
    8 Q8_0 32 34;
    9 Q8_1 32 36;
    10 Q2_K 256 84;
    11 Q3_K 256 110;
    12 Q4_K 256 144;
    13 Q5_K 256 176;
    14 Q6_K 256 210;
    15 Q8_K 256 292;
    16 IQ2_XXS 256 66;
    17 IQ2_XS 256 74;
    18 IQ3_XXS 256 98;
    19 IQ1_S 256 50;
    20 IQ4_NL 32 18;
    21 IQ3_S 256 110;
    22 IQ2_S 256 82;
    23 IQ4_XS 256 136;
    24 I8 1 1;
    25 I16 1 2;
    26 I32 1 4;
    27 I64 1 8;
    28 F64 1 8;
    29 IQ1_M 256 56;
    30 BF16 1 2;
    34 TQ1_0 256 54;
    35 TQ2_0 256 66;
    39 MXFP4 32 17;
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a file says about one tensor. Its data lie within the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// One to four dimensions, the length of a row first. None is 0, and the
    /// product is a `usize`.
    pub shape: Vec<usize>,
    /// How the elements are stored.
    pub kind: TensorType,
    /// Which of a model's files they are in, from 0.
    pub(super) part: usize,
    pub(super) range: Range<usize>,
}

impl TensorInfo {
    /// Size of the data in bytes.
    pub fn size(&self) -> usize {
        self.range.len()
    }
}

/// The bytes of one tensor. A clone shares them.
#[derive(Clone)]
pub(crate) struct TensorData {
    source: Source,
    range: Range<usize>,
}

impl TensorData {
    pub(super) fn new(source: Source, range: Range<usize>) -> Self {
        Self { source, range }
    }

    #[cfg(test)]
    pub(crate) fn from_bytes(bytes: Vec<u8>) -> Self {
        Self { range: 0..bytes.len(), source: Source::Owned(bytes.into()) }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.source.bytes()[self.range.clone()]
    }

    /// Some of the bytes.
    pub(crate) fn part(self, range: Range<usize>) -> Self {
        let start = self.range.start;
        assert!(range.end <= self.range.len(), "a part of the tensor");
        Self { range: start + range.start..start + range.end, ..self }
    }
}

impl fmt::Debug for TensorData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TensorData({:?})", self.range)
    }
}

/// A tensor's entry, before it is known where the data begin.
pub(super) struct TensorHeader<'a> {
    pub(super) name: &'a str,
    shape: Vec<usize>,
    kind: TensorType,
    size: usize,
    offset: u64,
}

/// Reads one entry and checks what can be checked of it alone.
pub(super) fn read_header<'a>(
    cursor: &mut Cursor<'a>,
    index: u64,
) -> Result<TensorHeader<'a>, GgufError> {
    let name = cursor.name(LONGEST_NAME, format_args!("the name of tensor {index}"))?;
    let what = format!("the entry of the tensor {}", quoted(name));
    let rank = cursor.u32(format_args!("{what}"))?;
    if !(1..=4).contains(&rank) {
        return Err(GgufError::DimensionCount { name: quoted(name), found: rank });
    }
    let shape =
        (0..rank).map(|_| cursor.u64(format_args!("{what}"))).collect::<Result<Vec<_>, _>>()?;
    let number = cursor.u32(format_args!("{what}"))?;
    let offset = cursor.u64(format_args!("{what}"))?;
    let kind = TensorType::from_number(number)
        .ok_or_else(|| GgufError::UnknownTensorType { name: quoted(name), found: number })?;

    let impossible = || GgufError::Shape { name: quoted(name), shape: shape.clone() };
    let dimensions: Option<Vec<usize>> =
        shape.iter().map(|&n| usize::try_from(n).ok().filter(|&n| n > 0)).collect();
    let dimensions = dimensions.ok_or_else(impossible)?;
    let count = dimensions.iter().try_fold(1_usize, |product, &n| product.checked_mul(n));
    let count = count.ok_or_else(impossible)?;
    if !dimensions[0].is_multiple_of(kind.block_len()) {
        return Err(GgufError::RowLength {
            name: quoted(name),
            found: shape[0],
            kind: kind.name(),
            block: kind.block_len() as u64,
        });
    }
    // A block of one element may take eight bytes: this, too, can overflow.
    let size = (count / kind.block_len()).checked_mul(kind.block_bytes()).ok_or_else(impossible)?;
    Ok(TensorHeader { name, shape: dimensions, kind, size, offset })
}

impl TensorHeader<'_> {
    /// Finds the data in a file of `file_len` bytes.
    pub(super) fn place(
        &self,
        data_start: usize,
        alignment: usize,
        file_len: usize,
    ) -> Result<TensorInfo, GgufError> {
        if !self.offset.is_multiple_of(alignment as u64) {
            let name = quoted(self.name);
            return Err(GgufError::Misaligned { name, offset: self.offset, alignment });
        }
        let start = usize::try_from(self.offset).ok().and_then(|n| n.checked_add(data_start));
        let end = start.and_then(|start| start.checked_add(self.size));
        match (start, end) {
            (Some(start), Some(end)) if end <= file_len => Ok(TensorInfo {
                shape: self.shape.clone(),
                kind: self.kind,
                part: 0,
                range: start..end,
            }),
            _ => Err(GgufError::OutOfRange {
                name: quoted(self.name),
                needed: self.size as u64,
                offset: self.offset,
                available: file_len.saturating_sub(data_start) as u64,
            }),
        }
    }
}
