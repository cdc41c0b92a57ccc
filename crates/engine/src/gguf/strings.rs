use std::fmt;

use super::{Source, value::Value};

/// An array of strings that stay in the file, which is kept open for as long as
/// this lives.
///
/// A string takes four bytes: a vocabulary may have a quarter of a million.
#[cfg_attr(test, derive(Clone))]
pub(crate) struct StringArray {
    source: Source,
    /// Where the array is in the file.
    at: usize,
    /// Where each string begins in the array, and where one more would.
    starts: Box<[u32]>,
}

/// A string is stored behind its length.
const LENGTH: usize = size_of::<u64>();

impl StringArray {
    /// `None` if the value has another type or more than 4 GiB.
    pub(super) fn new(source: &Source, value: &Value) -> Option<Self> {
        let (at, strings) = value.string_bytes(source.bytes())?;
        let mut starts = Vec::with_capacity(strings.len() + 1);
        let mut start = LENGTH;
        starts.push(u32::try_from(start).ok()?);
        for string in strings {
            start += string?.len() + LENGTH;
            starts.push(u32::try_from(start).ok()?);
        }
        Some(Self { source: source.clone(), at, starts: starts.into() })
    }

    pub(crate) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// The bytes of all strings together.
    pub(crate) fn total_bytes(&self) -> usize {
        (self.starts[self.len()] - self.starts[0]) as usize - self.len() * LENGTH
    }

    /// The bytes of one; none for an index out of range.
    pub(crate) fn bytes(&self, index: usize) -> &[u8] {
        let Some(&[start, next]) = self.starts.get(index..).and_then(<[u32]>::first_chunk) else {
            return &[];
        };
        &self.source.bytes()[self.at..][start as usize..next as usize - LENGTH]
    }

    pub(crate) fn get(&self, index: usize) -> &str {
        str::from_utf8(self.bytes(index)).expect("all text was checked when the file was opened")
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        (0..self.len()).map(|index| self.get(index))
    }
}

impl Default for StringArray {
    fn default() -> Self {
        Self { source: Source::Static(&[]), at: 0, starts: Box::new([LENGTH as u32]) }
    }
}

impl fmt::Debug for StringArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StringArray({} strings)", self.len())
    }
}

#[cfg(test)]
impl<S: AsRef<str>> FromIterator<S> for StringArray {
    fn from_iter<I: IntoIterator<Item = S>>(strings: I) -> Self {
        let strings: Vec<S> = strings.into_iter().collect();
        let strings: Vec<&str> = strings.iter().map(AsRef::as_ref).collect();
        let file = super::test_file::TestFile::new().strings("key", &strings);
        let file = super::Gguf::from_bytes(file.bytes()).unwrap();
        file.string_array("key").unwrap().unwrap()
    }
}

#[cfg(test)]
impl StringArray {
    pub(crate) fn edit(&mut self, change: impl FnOnce(&mut Vec<String>)) {
        let mut strings = self.iter().map(str::to_owned).collect();
        change(&mut strings);
        *self = strings.into_iter().collect();
    }
}

#[cfg(test)]
mod tests {
    use super::StringArray;

    #[test]
    fn strings_are_found_by_their_index() {
        let strings = ["", "a", "", "é▁", "bc"];
        let array: StringArray = strings.into_iter().collect();
        assert_eq!((array.len(), array.total_bytes()), (5, 8));
        assert_eq!(array.iter().collect::<Vec<_>>(), strings);
        assert_eq!(array.bytes(3), "é▁".as_bytes());
        assert_eq!((array.bytes(5), array.bytes(usize::MAX)), (&b""[..], &b""[..]));
        let none = StringArray::default();
        assert_eq!((none.len(), none.total_bytes(), none.bytes(0)), (0, 0, &b""[..]));
    }
}
