use std::{
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
};

use super::element::Element;
use crate::logits_error::LogitsError;

/// The logits of a file, read a step at a time.
#[derive(Debug)]
pub(super) struct Rows {
    pub(super) file: File,
    /// Where the first one begins.
    pub(super) start: u64,
    pub(super) element: Element,
    pub(super) steps: usize,
    pub(super) vocabulary: usize,
}

impl Rows {
    /// From `[vocabulary]` or `[steps, vocabulary]`.
    pub(super) fn shape(name: &str, shape: &[usize]) -> Result<(usize, usize), LogitsError> {
        match *shape {
            [vocabulary] if vocabulary > 0 => Ok((1, vocabulary)),
            [steps, vocabulary] if steps > 0 && vocabulary > 0 => Ok((steps, vocabulary)),
            _ => Err(LogitsError::Shape { name: name.to_owned(), shape: shape.to_vec() }),
        }
    }

    /// A step, counted from 0.
    pub(super) fn read(&mut self, step: usize) -> Result<Vec<f32>, LogitsError> {
        let length = self.vocabulary * self.element.size();
        self.file.seek(SeekFrom::Start(self.start + step as u64 * length as u64))?;
        let mut bytes = vec![0; length];
        self.file.read_exact(&mut bytes)?;
        let logits = self.element.read(&bytes).enumerate().map(|(token, value)| {
            let wrong = |right| LogitsError::Logit { token, step: step + 1, value, right };
            let logit = value as f32;
            if value.is_nan() || value == f64::INFINITY {
                Err(wrong("finite numbers and -inf are logits"))
            } else if value.is_finite() && !logit.is_finite() {
                Err(wrong("logits are within the range of f32"))
            } else {
                Ok(logit)
            }
        });
        logits.collect()
    }
}
