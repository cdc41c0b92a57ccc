//! The GGUF file format, versions 2 and 3.
//!
//! A file is input from a stranger. Every length, count, offset, type and
//! product is checked before use, text is borrowed from the file rather than
//! copied, and no count in the file decides how much memory is reserved.

mod cursor;
mod error;
mod source;
mod split;
mod strings;
mod tensor;
#[cfg(test)]
pub(crate) mod test_file;
#[cfg(test)]
mod tests;
mod value;

use std::{collections::BTreeMap, fmt, path::Path};

pub(crate) use self::{
    cursor::Shown, source::Source, strings::StringArray, tensor::TensorData, value::Pattern,
};
use self::{
    cursor::{Cursor, quoted},
    split::Split,
    value::{Kind, Value},
};
pub use self::{
    error::GgufError,
    tensor::{TensorInfo, TensorType},
};
use crate::EngineError;

/// An opened GGUF file: what it says about the model, and where the weights
/// are.
///
/// The getters return `Ok(None)` for a key that is not there and an error for
/// one of another type; [`require`](Self::require) makes the first an error
/// too.
///
/// ```
/// # use logitchain_engine::{EMBEDDED_GGUF, Gguf};
/// let file = Gguf::from_static(EMBEDDED_GGUF)?;
/// assert_eq!(file.string("general.architecture")?, Some("llama"));
/// assert_eq!(file.require("llama.block_count", Gguf::u32)?, 6);
/// assert_eq!(file.bool("no.such.key")?, None);
/// assert!(file.bool("llama.block_count").is_err());
/// # Ok::<(), logitchain_engine::GgufError>(())
/// ```
pub struct Gguf {
    /// Of a model in several files, the first. All metadata are in it.
    source: Source,
    /// The others.
    further: Vec<Source>,
    metadata: BTreeMap<Box<str>, Value>,
    tensors: BTreeMap<Box<str>, TensorInfo>,
}

impl Gguf {
    /// Opens a file by mapping it into memory.
    ///
    /// Of a model in several files, such as `model-00001-of-00003.gguf`, `path`
    /// is the first; the others are found beside it.
    ///
    /// The files must not be changed while the model is in use.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or is not a sound GGUF file, or if that is so
    /// of another part, which is then named.
    pub fn open(path: &Path) -> Result<Self, EngineError> {
        let mut file = Self::open_alone(path)?;
        if let Some(split) = Split::read(&file)? {
            split.complete(&mut file, path)?;
        }
        Ok(file)
    }

    fn open_alone(path: &Path) -> Result<Self, EngineError> {
        let source = Source::map(path)
            .map_err(|source| EngineError::Open { path: path.to_owned(), source })?;
        Ok(Self::parse(source)?)
    }

    /// Adds the tensors of another part.
    fn append(&mut self, part: Self) -> Result<(), GgufError> {
        self.further.push(part.source);
        for (name, info) in part.tensors {
            let info = TensorInfo { part: self.further.len(), ..info };
            if self.tensors.contains_key(&name) {
                return Err(GgufError::DuplicateTensor { name: quoted(&name) });
            }
            self.tensors.insert(name, info);
        }
        Ok(())
    }

    /// Reads a file that is part of the program.
    ///
    /// # Errors
    ///
    /// If it is not a sound GGUF file, or only a part of a model.
    pub fn from_static(bytes: &'static [u8]) -> Result<Self, GgufError> {
        Self::whole(Source::Static(bytes))
    }

    /// Reads a file that is already in memory.
    ///
    /// # Errors
    ///
    /// If it is not a sound GGUF file, or only a part of a model.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, GgufError> {
        Self::whole(Source::Owned(bytes.into()))
    }

    fn whole(source: Source) -> Result<Self, GgufError> {
        let file = Self::parse(source)?;
        match Split::read(&file)? {
            Some(split) => Err(split.alone()),
            None => Ok(file),
        }
    }

    fn parse(source: Source) -> Result<Self, GgufError> {
        let bytes = source.bytes();
        let mut cursor = Cursor::new(bytes);
        let (tensor_count, value_count) = read_header(&mut cursor)?;

        // Both counts may be lies. Nothing is reserved for them: each turn of
        // these loops uses up bytes of the file or fails.
        let mut metadata = BTreeMap::new();
        for index in 0..value_count {
            let (key, value) = value::read_entry(&mut cursor, index)?;
            if metadata.insert(key.into(), value).is_some() {
                return Err(GgufError::DuplicateKey { key: quoted(key) });
            }
        }
        let alignment = read_alignment(bytes, &metadata)?;

        let mut headers = Vec::new();
        for index in 0..tensor_count {
            headers.push(tensor::read_header(&mut cursor, index)?);
        }
        // Where not even the padding fits, no tensor does.
        let data_start = cursor.position().checked_next_multiple_of(alignment);
        let data_start = data_start.unwrap_or(usize::MAX);
        let mut tensors = BTreeMap::new();
        for header in headers {
            let info = header.place(data_start, alignment, bytes.len())?;
            let name = header.name;
            if tensors.insert(name.into(), info).is_some() {
                return Err(GgufError::DuplicateTensor { name: quoted(name) });
            }
        }
        check_that_none_overlap(&tensors, data_start)?;
        Ok(Self { metadata, tensors, source, further: Vec::new() })
    }

    /// A text.
    ///
    /// # Errors
    ///
    /// If the value has another type.
    pub fn string(&self, key: &str) -> Result<Option<&str>, GgufError> {
        self.read(key, "a string", |bytes, value| value.string(bytes))
    }

    /// A truth value.
    ///
    /// # Errors
    ///
    /// If the value has another type.
    pub fn bool(&self, key: &str) -> Result<Option<bool>, GgufError> {
        self.read(key, "a bool", |bytes, value| value.bool(bytes))
    }

    /// A whole number, of whichever integer type the file uses.
    ///
    /// # Errors
    ///
    /// If the value has another type or is not within 0 to 2^32 - 1.
    pub fn u32(&self, key: &str) -> Result<Option<u32>, GgufError> {
        self.read(key, "a whole number of at most 32 bits", |bytes, value| {
            value.integer(bytes)?.try_into().ok()
        })
    }

    /// A number with a fraction, of either floating-point type.
    ///
    /// # Errors
    ///
    /// If the value has another type.
    pub fn f32(&self, key: &str) -> Result<Option<f32>, GgufError> {
        self.read(key, "a floating-point number", |bytes, value| value.float(bytes))
    }

    /// A list of texts.
    ///
    /// # Errors
    ///
    /// If the value has another type.
    pub fn strings(&self, key: &str) -> Result<Option<Vec<&str>>, GgufError> {
        self.read(key, "an array of strings", |bytes, value| value.strings(bytes))
    }

    /// A list of texts that is not read until it is used.
    pub(crate) fn string_array(&self, key: &str) -> Result<Option<StringArray>, GgufError> {
        self.read(key, "an array of strings of at most 4 GiB", |_, value| {
            StringArray::new(&self.source, value)
        })
    }

    /// A list of numbers of type `f32`.
    ///
    /// # Errors
    ///
    /// If the value has another type.
    pub fn f32s(&self, key: &str) -> Result<Option<Vec<f32>>, GgufError> {
        self.read(key, "an array of f32", |bytes, value| {
            value.scalars(bytes, Kind::F32, f32::from_le_bytes)
        })
    }

    /// A list of numbers of type `i32`, or of type `u32` below 2^31.
    ///
    /// # Errors
    ///
    /// If the value has another type.
    pub fn i32s(&self, key: &str) -> Result<Option<Vec<i32>>, GgufError> {
        self.read(key, "an array of i32", |bytes, value| {
            if let Some(numbers) = value.scalars(bytes, Kind::I32, i32::from_le_bytes) {
                return Some(numbers);
            }
            let numbers = value.scalars(bytes, Kind::U32, u32::from_le_bytes)?;
            numbers.into_iter().map(|n| n.try_into().ok()).collect()
        })
    }

    /// A whole number with a sign.
    pub(crate) fn i32(&self, key: &str) -> Result<Option<i32>, GgufError> {
        self.read(key, "a whole number of at most 31 bits and a sign", |bytes, value| {
            value.integer(bytes)?.try_into().ok()
        })
    }

    /// A number that is neither NaN nor infinite, with a fraction or without.
    pub(crate) fn finite(&self, key: &str) -> Result<Option<f32>, GgufError> {
        self.read(key, "a finite number", |bytes, value| {
            let whole = || value.integer(bytes).map(|number| number as f32);
            value.float(bytes).or_else(whole).filter(|number| number.is_finite())
        })
    }

    /// Which of some layers are meant.
    pub(crate) fn pattern(&self, key: &str) -> Result<Option<Pattern>, GgufError> {
        self.read(key, "a whole number, or an array of bool", |bytes, value| value.pattern(bytes))
    }

    /// The value that one of the getters finds, which must be there:
    /// `file.require("llama.block_count", Gguf::u32)`.
    ///
    /// # Errors
    ///
    /// If the key is missing or the getter objects.
    pub fn require<'a, T>(
        &'a self,
        key: &str,
        get: impl FnOnce(&'a Self, &str) -> Result<Option<T>, GgufError>,
    ) -> Result<T, GgufError> {
        get(self, key)?.ok_or_else(|| GgufError::MissingKey { key: key.to_owned() })
    }

    /// The keys of all metadata, in alphabetical order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.metadata.keys().map(|key| &**key)
    }

    /// What the file says about one tensor.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.tensors.get(name)
    }

    /// All tensors with their names, in alphabetical order.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, &TensorInfo)> {
        self.tensors.iter().map(|(name, info)| (&**name, info))
    }

    /// The bytes of one tensor, which keep the file open for as long as they
    /// live.
    pub(crate) fn tensor_data(&self, info: &TensorInfo) -> TensorData {
        let source = match info.part.checked_sub(1) {
            None => &self.source,
            Some(further) => &self.further[further],
        };
        TensorData::new(source.clone(), info.range.clone())
    }

    fn read<'a, T>(
        &'a self,
        key: &str,
        expected: &'static str,
        get: impl FnOnce(&'a [u8], &Value) -> Option<T>,
    ) -> Result<Option<T>, GgufError> {
        let Some(value) = self.metadata.get(key) else { return Ok(None) };
        let bytes = self.source.bytes();
        match get(bytes, value) {
            Some(found) => Ok(Some(found)),
            None => Err(GgufError::WrongType {
                key: key.to_owned(),
                found: value.describe(bytes),
                expected,
            }),
        }
    }
}

impl fmt::Debug for Gguf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gguf")
            .field("bytes", &self.source.bytes().len())
            .field("metadata", &self.metadata.len())
            .field("tensors", &self.tensors.len())
            .finish()
    }
}

/// Checks magic and version; the counts of tensors and of metadata values.
fn read_header(cursor: &mut Cursor<'_>) -> Result<(u64, u64), GgufError> {
    let magic = cursor.take(4, format_args!("the magic number"))?;
    if magic != b"GGUF" {
        return Err(GgufError::NotGguf { found: magic.escape_ascii().to_string() });
    }
    let version = cursor.u32(format_args!("the format version"))?;
    match version {
        2 | 3 => {}
        _ if matches!(version.swap_bytes(), 1..=3) => return Err(GgufError::BigEndian),
        found => return Err(GgufError::Version { found }),
    }
    let tensors = cursor.u64(format_args!("the number of tensors"))?;
    let values = cursor.u64(format_args!("the number of metadata values"))?;
    Ok((tensors, values))
}

/// Two tensors in one place are a mistake of whoever wrote the file: each would
/// be right for its shape, and one of them nonsense.
fn check_that_none_overlap(
    tensors: &BTreeMap<Box<str>, TensorInfo>,
    data_start: usize,
) -> Result<(), GgufError> {
    let mut places: Vec<_> = tensors.iter().map(|(name, info)| (&info.range, name)).collect();
    places.sort_unstable_by_key(|(range, _)| (range.start, range.end));
    for pair in places.windows(2) {
        let [(before, first), (after, second)] = pair else { continue };
        if after.start < before.end {
            return Err(GgufError::Overlap {
                first: quoted(first),
                second: quoted(second),
                offset: (after.start - data_start) as u64,
                end: (before.end - data_start) as u64,
            });
        }
    }
    Ok(())
}

/// The spacing of tensors, which `general.alignment` may change.
fn read_alignment(bytes: &[u8], metadata: &BTreeMap<Box<str>, Value>) -> Result<usize, GgufError> {
    let Some(value) = metadata.get("general.alignment") else { return Ok(32) };
    let alignment = value.integer(bytes).and_then(|n| u32::try_from(n).ok());
    match alignment {
        Some(n) if n.is_power_of_two() => Ok(n as usize),
        _ => Err(GgufError::WrongType {
            key: "general.alignment".to_owned(),
            found: value.describe(bytes),
            expected: "a power of two",
        }),
    }
}
