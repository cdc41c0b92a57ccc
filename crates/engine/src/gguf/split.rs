//! Models in several files, which are named `…-00001-of-00003.gguf` and so on.

use std::path::{Path, PathBuf};

use super::{Gguf, GgufError};
use crate::EngineError;

const NUMBER: &str = "split.no";
const COUNT: &str = "split.count";
const TENSORS: &str = "split.tensors.count";

/// What a file says about the model that it is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Split {
    /// From 0.
    number: u32,
    count: u32,
    tensors: Option<u32>,
}

impl Split {
    /// `None` if the file is a whole model.
    pub(super) fn read(file: &Gguf) -> Result<Option<Self>, GgufError> {
        let Some(count) = file.u32(COUNT)?.filter(|&count| count > 1) else { return Ok(None) };
        let number = file.require(NUMBER, Gguf::u32)?;
        if number >= count {
            return Err(GgufError::WrongType {
                key: NUMBER.to_owned(),
                found: number.to_string(),
                expected: "below split.count",
            });
        }
        Ok(Some(Self { number, count, tensors: file.u32(TENSORS)? }))
    }

    /// The error for a part that stands alone.
    pub(super) fn alone(self) -> GgufError {
        GgufError::PartAlone { number: self.number + 1, count: self.count }
    }

    /// Adds all further parts to the first.
    pub(super) fn complete(self, first: &mut Gguf, path: &Path) -> Result<(), EngineError> {
        let names = Names::of(path, self)?;
        if self.number > 0 {
            let first = names.path(0).display().to_string();
            let (number, count) = (self.number + 1, self.count);
            return Err(GgufError::NotFirstPart { number, count, first }.into());
        }
        for number in 1..self.count {
            let path = names.path(number);
            let part = Gguf::open_alone(&path).and_then(|part| {
                let found = Self::read(&part)?;
                match found {
                    Some(split) if (split.number, split.count) == (number, self.count) => Ok(part),
                    _ => Err(GgufError::OtherPart {
                        number: number + 1,
                        count: self.count,
                        found: found.map_or_else(
                            || "a whole model".to_owned(),
                            |found| format!("part {} of {}", found.number + 1, found.count),
                        ),
                    }
                    .into()),
                }
            });
            let part = part.and_then(|part| Ok(first.append(part)?));
            part.map_err(|source| EngineError::Part { path, source: Box::new(source) })?;
        }
        let found = first.tensors.len();
        match self.tensors.filter(|&expected| expected as usize != found) {
            Some(expected) => Err(GgufError::PartTensors { found, expected }.into()),
            None => Ok(()),
        }
    }
}

/// How the parts are named.
struct Names<'a> {
    path: &'a Path,
    /// The name up to its numbers.
    stem: &'a str,
    count: u32,
}

impl<'a> Names<'a> {
    fn of(path: &'a Path, split: Split) -> Result<Self, GgufError> {
        let Split { number, count, .. } = split;
        let end = ending(number, count);
        let stem = path.file_name().and_then(|name| name.to_str()?.strip_suffix(&end));
        let stem = stem.ok_or(GgufError::PartName { number: number + 1, count, end })?;
        Ok(Self { path, stem, count })
    }

    fn path(&self, number: u32) -> PathBuf {
        self.path.with_file_name(format!("{}{}", self.stem, ending(number, self.count)))
    }
}

fn ending(number: u32, count: u32) -> String {
    format!("-{:05}-of-{count:05}.gguf", number + 1)
}
