use thiserror::Error;

/// What is wrong with a GGUF file.
///
/// Names that come from the file are escaped and shortened: each message is
/// one line, whatever the file holds.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GgufError {
    /// The file is something else.
    #[error("not a GGUF file: it begins with '{found}', not with 'GGUF'")]
    NotGguf {
        /// The first four bytes, escaped.
        found: String,
    },

    /// A version that is too old or too new.
    #[error("GGUF version {found} is not supported; versions 2 and 3 are")]
    Version {
        /// The file's version.
        found: u32,
    },

    /// A file for another kind of machine.
    #[error("the GGUF file is big-endian; only little-endian files are supported")]
    BigEndian,

    /// The file is cut short, or a length in it is a lie.
    #[error("the file ends too early: {what} needs {needed} bytes at byte {at}, {left} are left")]
    Truncated {
        /// What was to be read.
        what: String,
        /// Where it begins.
        at: usize,
        /// How long it claims to be.
        needed: u64,
        /// How many bytes there are.
        left: usize,
    },

    /// A name or text that is not UTF-8.
    #[error("{what} at byte {at} is not UTF-8")]
    NotUtf8 {
        /// What was to be read.
        what: String,
        /// Where it begins.
        at: usize,
    },

    /// A name longer than the format permits.
    #[error("{what} has {length} bytes; at most {limit} are permitted")]
    NameTooLong {
        /// What was to be read.
        what: String,
        /// Its length.
        length: usize,
        /// The format's limit.
        limit: usize,
    },

    /// A number that stands for no type of metadata.
    #[error("the metadata value {key} has the unknown type {found}; types are 0 to 12")]
    UnknownValueType {
        /// The value's key.
        key: String,
        /// The file's number.
        found: u32,
    },

    /// An array whose elements are arrays.
    #[error("the metadata value {key} is an array of arrays, which is not supported")]
    NestedArray {
        /// The value's key.
        key: String,
    },

    /// A truth value other than 0 and 1.
    #[error("the metadata value {key} holds a bool of {found}; 0 and 1 are permitted")]
    NotBool {
        /// The value's key.
        key: String,
        /// The byte.
        found: u8,
    },

    /// One key stands twice.
    #[error("the metadata key {key} stands twice")]
    DuplicateKey {
        /// The key.
        key: String,
    },

    /// A key that the model cannot do without.
    #[error("the file lacks the metadata key '{key}'")]
    MissingKey {
        /// The key.
        key: String,
    },

    /// A value of another type than its key asks for, or out of range.
    #[error("the metadata value '{key}' is {found}; it must be {expected}")]
    WrongType {
        /// The value's key.
        key: String,
        /// What it is.
        found: String,
        /// What would be right.
        expected: &'static str,
    },

    /// One tensor name stands twice.
    #[error("the tensor {name} stands twice")]
    DuplicateTensor {
        /// The name.
        name: String,
    },

    /// A number that stands for no type of tensor.
    #[error("the tensor {name} has the unknown type number {found}")]
    UnknownTensorType {
        /// The tensor.
        name: String,
        /// The file's number.
        found: u32,
    },

    /// No dimension, or too many.
    #[error("the tensor {name} has {found} dimensions; 1 to 4 are permitted")]
    DimensionCount {
        /// The tensor.
        name: String,
        /// The file's number.
        found: u32,
    },

    /// A dimension of 0, or more elements than can be counted.
    #[error("the tensor {name} has the impossible shape {shape:?}")]
    Shape {
        /// The tensor.
        name: String,
        /// Its dimensions, row length first.
        shape: Vec<u64>,
    },

    /// Rows that are no whole number of the type's blocks.
    #[error("the tensor {name} has rows of {found} elements; {kind} needs a multiple of {block}")]
    RowLength {
        /// The tensor.
        name: String,
        /// Elements in a row.
        found: u64,
        /// The tensor's type.
        kind: &'static str,
        /// Elements in a block.
        block: u64,
    },

    /// Data that do not begin where data may.
    #[error("the tensor {name} begins at offset {offset}; the file's alignment is {alignment}")]
    Misaligned {
        /// The tensor.
        name: String,
        /// Its offset.
        offset: u64,
        /// What the offset must be a multiple of.
        alignment: usize,
    },

    /// Data beyond the end of the file.
    #[error(
        "the tensor {name} needs {needed} bytes at offset {offset}; the file has {available} bytes of tensor data"
    )]
    OutOfRange {
        /// The tensor.
        name: String,
        /// Its size.
        needed: u64,
        /// Its offset.
        offset: u64,
        /// The size of the file's data section.
        available: u64,
    },

    /// Data of one tensor within those of another.
    #[error(
        "the tensor {second} begins at offset {offset}, within the tensor {first}, which ends at {end}"
    )]
    Overlap {
        /// The tensor that begins first.
        first: String,
        /// The tensor that begins within it.
        second: String,
        /// Where that one begins.
        offset: u64,
        /// Where the first one ends.
        end: u64,
    },

    /// A part of a model, without the others.
    #[error("this is part {number} of {count} of a model; open its first file by its path")]
    PartAlone {
        /// Which part, from 1.
        number: u32,
        /// How many there are.
        count: u32,
    },

    /// A part of a model that is not its first.
    #[error("the file is part {number} of {count} of a model; give the first one, '{first}'")]
    NotFirstPart {
        /// Which part, from 1.
        number: u32,
        /// How many there are.
        count: u32,
        /// The first one's path.
        first: String,
    },

    /// A part whose name does not tell where the others are.
    #[error(
        "the file is part {number} of {count} of a model, so its name must end in '{end}', or the others cannot be found"
    )]
    PartName {
        /// Which part, from 1.
        number: u32,
        /// How many there are.
        count: u32,
        /// How its name should end.
        end: String,
    },

    /// A part that is another one than its name says.
    #[error("it should be part {number} of {count} of the model, and is {found}")]
    OtherPart {
        /// Which part, from 1.
        number: u32,
        /// How many there are.
        count: u32,
        /// What it is.
        found: String,
    },

    /// Parts that do not make up the model.
    #[error("the model's parts have {found} tensors together; the first one says {expected}")]
    PartTensors {
        /// How many there are.
        found: usize,
        /// How many there should be.
        expected: u32,
    },
}
