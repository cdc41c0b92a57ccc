use super::{
    Cursor, GgufError,
    cursor::{Quoted, quoted},
};

/// The format's limit on the length of a key.
const LONGEST_KEY: usize = 65_535;

/// The type of a metadata value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    String,
    Array,
    U64,
    I64,
    F64,
}

impl Kind {
    fn from_number(number: u32) -> Option<Self> {
        const ALL: [Kind; 13] = [
            Kind::U8,
            Kind::I8,
            Kind::U16,
            Kind::I16,
            Kind::U32,
            Kind::I32,
            Kind::F32,
            Kind::Bool,
            Kind::String,
            Kind::Array,
            Kind::U64,
            Kind::I64,
            Kind::F64,
        ];
        ALL.get(number as usize).copied()
    }

    /// Size in bytes; `None` for what has no fixed size.
    fn size(self) -> Option<u64> {
        match self {
            Self::U8 | Self::I8 | Self::Bool => Some(1),
            Self::U16 | Self::I16 => Some(2),
            Self::U32 | Self::I32 | Self::F32 => Some(4),
            Self::U64 | Self::I64 | Self::F64 => Some(8),
            Self::String | Self::Array => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::U8 => "u8",
            Self::I8 => "i8",
            Self::U16 => "u16",
            Self::I16 => "i16",
            Self::U32 => "u32",
            Self::I32 => "i32",
            Self::F32 => "f32",
            Self::Bool => "bool",
            Self::String => "string",
            Self::Array => "array",
            Self::U64 => "u64",
            Self::I64 => "i64",
            Self::F64 => "f64",
        }
    }
}

/// Which of some layers are meant.
pub(crate) enum Pattern {
    /// All but each last of so many.
    Every(u32),
    /// Said of each.
    Each(Vec<bool>),
}

/// A metadata value that was checked: its bytes are all there, and its
/// strings are UTF-8. It stays in the file; only its place is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Value {
    /// The type, of the elements if it is an array.
    kind: Kind,
    /// `None` if it is no array.
    count: Option<usize>,
    /// Where the first byte is; of a string, the length.
    at: usize,
}

impl Value {
    /// The bytes of a scalar of this type.
    fn scalar<const N: usize>(&self, bytes: &[u8], kind: Kind) -> Option<[u8; N]> {
        if self.count.is_some() || self.kind != kind {
            return None;
        }
        bytes.get(self.at..)?.first_chunk().copied()
    }

    pub(super) fn string<'a>(&self, bytes: &'a [u8]) -> Option<&'a str> {
        if self.count.is_some() || self.kind != Kind::String {
            return None;
        }
        let mut cursor = Cursor::new(&bytes[self.at..]);
        cursor.string(format_args!("a string")).ok()
    }

    pub(super) fn bool(&self, bytes: &[u8]) -> Option<bool> {
        self.scalar(bytes, Kind::Bool).map(|[byte]| byte != 0)
    }

    pub(super) fn integer(&self, bytes: &[u8]) -> Option<i128> {
        match self.kind {
            Kind::U8 => self.scalar(bytes, Kind::U8).map(|b| u8::from_le_bytes(b).into()),
            Kind::I8 => self.scalar(bytes, Kind::I8).map(|b| i8::from_le_bytes(b).into()),
            Kind::U16 => self.scalar(bytes, Kind::U16).map(|b| u16::from_le_bytes(b).into()),
            Kind::I16 => self.scalar(bytes, Kind::I16).map(|b| i16::from_le_bytes(b).into()),
            Kind::U32 => self.scalar(bytes, Kind::U32).map(|b| u32::from_le_bytes(b).into()),
            Kind::I32 => self.scalar(bytes, Kind::I32).map(|b| i32::from_le_bytes(b).into()),
            Kind::U64 => self.scalar(bytes, Kind::U64).map(|b| u64::from_le_bytes(b).into()),
            Kind::I64 => self.scalar(bytes, Kind::I64).map(|b| i64::from_le_bytes(b).into()),
            Kind::F32 | Kind::F64 | Kind::Bool | Kind::String | Kind::Array => None,
        }
    }

    pub(super) fn float(&self, bytes: &[u8]) -> Option<f32> {
        match self.kind {
            Kind::F32 => self.scalar(bytes, Kind::F32).map(f32::from_le_bytes),
            Kind::F64 => self.scalar(bytes, Kind::F64).map(|b| f64::from_le_bytes(b) as f32),
            _ => None,
        }
    }

    pub(super) fn strings<'a>(&self, bytes: &'a [u8]) -> Option<Vec<&'a str>> {
        let (_, strings) = self.string_bytes(bytes)?;
        strings.map(|string| str::from_utf8(string?).ok()).collect()
    }

    /// Where an array of strings begins, and its strings, which are UTF-8.
    pub(super) fn string_bytes<'a>(
        &self,
        bytes: &'a [u8],
    ) -> Option<(usize, impl ExactSizeIterator<Item = Option<&'a [u8]>>)> {
        let count = self.count.filter(|_| self.kind == Kind::String)?;
        let mut cursor = Cursor::new(&bytes[self.at..]);
        // The count is true: `read_entry` has walked through all elements.
        let strings = (0..count).map(move |_| {
            let length = cursor.u64(format_args!("a string")).ok()?;
            cursor.take(length, format_args!("a string")).ok()
        });
        Some((self.at, strings))
    }

    pub(super) fn scalars<T, const N: usize>(
        &self,
        bytes: &[u8],
        kind: Kind,
        convert: impl Fn([u8; N]) -> T,
    ) -> Option<Vec<T>> {
        let count = self.count.filter(|_| self.kind == kind)?;
        let (elements, _) = bytes[self.at..].as_chunks();
        Some(elements.get(..count)?.iter().map(|&element| convert(element)).collect())
    }

    pub(super) fn pattern(&self, bytes: &[u8]) -> Option<Pattern> {
        if let Some(number) = self.integer(bytes) {
            return number.try_into().ok().map(Pattern::Every);
        }
        let list = self.scalars(bytes, Kind::Bool, |[byte]| byte != 0)?;
        Some(Pattern::Each(list))
    }

    /// What the value is, in words: for messages.
    pub(super) fn describe(&self, bytes: &[u8]) -> String {
        let kind = self.kind.name();
        if let Some(count) = self.count {
            return format!("an array of {count} {kind}");
        }
        if let Some(text) = self.string(bytes) {
            return format!("the string {}", quoted(text));
        }
        if let Some(number) = self.integer(bytes) {
            return format!("the {kind} {number}");
        }
        if let Some(number) = self.float(bytes) {
            return format!("the {kind} {number}");
        }
        match self.bool(bytes) {
            Some(truth) => format!("the {kind} {truth}"),
            None => format!("a value of type {kind}"),
        }
    }
}

/// Reads and checks one key and its value.
pub(super) fn read_entry<'a>(
    cursor: &mut Cursor<'a>,
    index: u64,
) -> Result<(&'a str, Value), GgufError> {
    let key = cursor.name(LONGEST_KEY, format_args!("the key of metadata value {index}"))?;
    let kind = read_kind(cursor, key)?;
    if kind != Kind::Array {
        let at = cursor.position();
        if kind == Kind::String {
            cursor.string(format_args!("the metadata value {}", Quoted(key)))?;
        } else {
            skip(cursor, key, kind, 1)?;
        }
        return Ok((key, Value { kind, count: None, at }));
    }
    let kind = read_kind(cursor, key)?;
    if kind == Kind::Array {
        return Err(GgufError::NestedArray { key: quoted(key) });
    }
    let count = cursor.u64(format_args!("the length of the array {}", Quoted(key)))?;
    let at = cursor.position();
    skip(cursor, key, kind, count)?;
    let count = usize::try_from(count).expect("every element has at least a byte in memory");
    Ok((key, Value { kind, count: Some(count), at }))
}

fn read_kind(cursor: &mut Cursor<'_>, key: &str) -> Result<Kind, GgufError> {
    let number = cursor.u32(format_args!("the type of the metadata value {}", Quoted(key)))?;
    Kind::from_number(number)
        .ok_or_else(|| GgufError::UnknownValueType { key: quoted(key), found: number })
}

/// Checks `count` values and moves behind them.
fn skip(cursor: &mut Cursor<'_>, key: &str, kind: Kind, count: u64) -> Result<(), GgufError> {
    if let Some(size) = kind.size() {
        let length = count.saturating_mul(size);
        let values = cursor.take(length, format_args!("the metadata value {}", Quoted(key)))?;
        if kind == Kind::Bool
            && let Some(&found) = values.iter().find(|&&byte| byte > 1)
        {
            return Err(GgufError::NotBool { key: quoted(key), found });
        }
        return Ok(());
    }
    for index in 0..count {
        cursor.string(format_args!("the metadata value {}[{index}]", Quoted(key)))?;
    }
    Ok(())
}
