use std::collections::BTreeSet;

use super::Architecture;
use crate::{
    Gguf, LoadError,
    gguf::Shown,
    weights::{Matrix, format_names},
};

/// A file's tensors, of which none may be left over: a network that leaves out
/// a bias runs, and writes nonsense.
pub(super) struct Tensors<'a> {
    gguf: &'a Gguf,
    used: BTreeSet<String>,
}

impl<'a> Tensors<'a> {
    pub(super) fn new(gguf: &'a Gguf) -> Self {
        Self { gguf, used: BTreeSet::new() }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.gguf.tensor(name).is_some()
    }

    /// Number of rows, whatever else is wrong.
    pub(super) fn rows(&self, name: &str) -> Result<usize, LoadError> {
        let info = self.gguf.tensor(name);
        let info = info.ok_or_else(|| LoadError::MissingTensor { name: name.to_owned() })?;
        Ok(info.shape.get(1).copied().unwrap_or(1))
    }

    /// The rows of a tensor in groups of so many.
    fn find(
        &mut self,
        name: &str,
        shape: &[usize],
        groups: &[usize],
    ) -> Result<Vec<Matrix>, LoadError> {
        let info = self.gguf.tensor(name);
        let info = info.ok_or_else(|| LoadError::MissingTensor { name: name.to_owned() })?;
        if info.shape != shape {
            return Err(LoadError::Shape {
                name: name.to_owned(),
                found: info.shape.clone(),
                expected: shape.to_vec(),
            });
        }
        self.used.insert(name.to_owned());
        let columns = shape[0];
        let row_bytes = columns / info.kind.block_len() * info.kind.block_bytes();
        let mut first = 0;
        let matrices = groups.iter().map(|&rows| {
            let bytes = first * row_bytes..(first + rows) * row_bytes;
            first += rows;
            let data = self.gguf.tensor_data(info).part(bytes);
            Matrix::new(info.kind, data, rows, columns).ok_or_else(|| LoadError::TensorType {
                name: name.to_owned(),
                found: info.kind.name(),
                supported: format_names(),
            })
        });
        matrices.collect()
    }

    pub(super) fn matrix(
        &mut self,
        name: &str,
        columns: usize,
        rows: usize,
    ) -> Result<Matrix, LoadError> {
        let [matrix] = self.stacked(name, columns, [rows])?;
        Ok(matrix)
    }

    /// Matrices that are one tensor, below each other.
    pub(super) fn stacked<const N: usize>(
        &mut self,
        name: &str,
        columns: usize,
        rows: [usize; N],
    ) -> Result<[Matrix; N], LoadError> {
        // No tensor has as many rows as a sum that overflows.
        let total = rows.iter().fold(0_usize, |sum, &rows| sum.saturating_add(rows));
        let matrices = self.find(name, &[columns, total], &rows)?;
        Ok(matrices.try_into().expect("as many matrices as groups"))
    }

    pub(super) fn vector(&mut self, name: &str, length: usize) -> Result<Vec<f32>, LoadError> {
        let row = self.find(name, &[length], &[1])?;
        let mut numbers = vec![0.0; length];
        row[0].decode_row(0, &mut numbers);
        Ok(numbers)
    }

    pub(super) fn vector_if_there(
        &mut self,
        name: &str,
        length: usize,
    ) -> Result<Option<Vec<f32>>, LoadError> {
        self.has(name).then(|| self.vector(name, length)).transpose()
    }

    pub(super) fn check_that_all_are_used(
        &self,
        architecture: &Architecture,
    ) -> Result<(), LoadError> {
        let mut unused = self.gguf.tensors().filter(|(name, _)| !self.used.contains(*name));
        match unused.next() {
            Some((name, _)) => {
                let name = Shown(name).to_string();
                Err(LoadError::UnusedTensor { name, architecture: architecture.name })
            }
            None => Ok(()),
        }
    }
}
