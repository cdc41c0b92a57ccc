//! Weight matrices in the formats of GGUF, and their products with vectors.
//!
//! A format is one small file and one line of [`FORMATS`]. Products are computed
//! with the best instructions that the machine has, and always give the same
//! bits: each element of a result is one sum in an order that the format fixes,
//! without fused multiply-adds. So a result depends neither on the machine nor
//! on how the work was divided.

mod aligned;
mod batch;
mod float;
mod formats;
mod grouped;
mod instructions;
mod simd;
#[cfg(test)]
mod tests;

use std::{cell::RefCell, fmt::Debug};

pub(crate) use self::{
    batch::Batch,
    float::dot,
    instructions::from_f16,
    simd::{Simd, vectorized},
};
use self::{
    batch::Encoding,
    float::Floats,
    formats::{
        iq4_nl::IQ4_NL, iq4_xs::IQ4_XS, q2_k::Q2_K, q3_k::Q3_K, q4_0::Q4_0, q4_1::Q4_1, q4_k::Q4_K,
        q5_0::Q5_0, q5_1::Q5_1, q5_k::Q5_K, q6_k::Q6_K, q8_0::Q8_0,
    },
    grouped::Grouped,
};
use crate::{
    TensorType,
    gguf::TensorData,
    threads::{Split, Threads},
};

/// Every format that the engine computes with. Where there are three numbers,
/// they are the bytes of a block, its weights, and its groups.
static FORMATS: [&dyn AnyFormat; 15] = [
    &Floats::<float::F32>::NEW,
    &Floats::<float::F16>::NEW,
    &Floats::<float::Bf16>::NEW,
    &Grouped::<Q8_0, 34, 32, 1>::NEW,
    &Grouped::<Q4_0, 18, 32, 1>::NEW,
    &Grouped::<Q4_1, 20, 32, 1>::NEW,
    &Grouped::<Q5_0, 22, 32, 1>::NEW,
    &Grouped::<Q5_1, 24, 32, 1>::NEW,
    &Grouped::<Q2_K, 84, 256, 16>::NEW,
    &Grouped::<Q3_K, 110, 256, 16>::NEW,
    &Grouped::<Q4_K, 144, 256, 8>::NEW,
    &Grouped::<Q5_K, 176, 256, 8>::NEW,
    &Grouped::<Q6_K, 210, 256, 16>::NEW,
    &Grouped::<IQ4_NL, 18, 32, 1>::NEW,
    &Grouped::<IQ4_XS, 136, 256, 8>::NEW,
];

/// How many rows are multiplied before the results are written: as many as fill a
/// cache line.
const LINE: usize = 16;

/// The products of so many rows with a vector.
type Line = [f32; LINE];

/// Where products go.
struct Products<'a, 'b> {
    /// One for each vector, and for those that kernels take besides.
    lines: &'a mut [Line],
    /// For each vector, one number per row.
    out: &'a mut [&'b mut [f32]],
}

impl Products<'_, '_> {
    /// Takes over lines of the rows from `first` on, if there are so many.
    fn write(&mut self, first: usize) {
        for (out, line) in self.out.iter_mut().zip(&*self.lines) {
            match out[first..].first_chunk_mut() {
                Some(out) => *out = *line,
                None => {
                    let out = &mut out[first..];
                    out.copy_from_slice(&line[..out.len()]);
                }
            }
        }
    }
}

/// A way to store weights.
trait AnyFormat: Debug + Sync {
    fn tensor_type(&self) -> TensorType;

    /// How the other side of the product must be stored.
    fn encoding(&self) -> Encoding;

    /// The weights of a row as numbers.
    fn decode_row(&self, row: &[u8], out: &mut [f32]);

    /// Multiplies rows that follow each other with every vector of a batch.
    fn multiply_rows(
        &self,
        simd: Simd,
        rows: &[u8],
        row_bytes: usize,
        batch: &Batch,
        out: &mut Products<'_, '_>,
    );
}

/// The names of all formats, for messages.
pub(crate) fn format_names() -> String {
    FORMATS.map(|format| format.tensor_type().name()).join(", ")
}

impl TensorType {
    /// The numbers that `bytes`, whole blocks, stand for; `None` if they are no
    /// whole blocks or the engine does not compute with the type.
    ///
    /// ```
    /// use logitchain_engine::TensorType;
    ///
    /// // A scale of 0.5 in binary16, then 32 integers.
    /// let mut block = [0; 34];
    /// block[..3].copy_from_slice(&[0x00, 0x38, 3]);
    /// assert_eq!(TensorType::Q8_0.decode(&block).unwrap()[..2], [1.5, 0.0]);
    /// assert_eq!(TensorType::Q8_0.decode(&block[1..]), None);
    /// ```
    pub fn decode(self, bytes: &[u8]) -> Option<Vec<f32>> {
        let format = FORMATS.iter().find(|format| format.tensor_type() == self)?;
        if !bytes.len().is_multiple_of(self.block_bytes()) {
            return None;
        }
        let mut numbers = vec![0.0; bytes.len() / self.block_bytes() * self.block_len()];
        format.decode_row(bytes, &mut numbers);
        Some(numbers)
    }
}

/// A matrix of weights, which stay in the file.
#[derive(Clone, Debug)]
pub(crate) struct Matrix {
    format: &'static dyn AnyFormat,
    data: TensorData,
    rows: usize,
    columns: usize,
}

impl Matrix {
    /// `None` if the engine does not know the format.
    pub(crate) fn new(
        kind: TensorType,
        data: TensorData,
        rows: usize,
        columns: usize,
    ) -> Option<Self> {
        let format = *FORMATS.iter().find(|format| format.tensor_type() == kind)?;
        let row_bytes = columns / kind.block_len() * kind.block_bytes();
        assert_eq!(data.bytes().len(), rows * row_bytes, "the file's parser measures tensors");
        Some(Self { format, data, rows, columns })
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// One row as numbers.
    pub(crate) fn decode_row(&self, row: usize, out: &mut [f32]) {
        let row_bytes = self.row_bytes();
        self.format.decode_row(&self.data.bytes()[row * row_bytes..][..row_bytes], out);
    }

    fn row_bytes(&self) -> usize {
        let kind = self.format.tensor_type();
        self.columns / kind.block_len() * kind.block_bytes()
    }

    /// The products of the rows from `first` on with each vector, as many as there is
    /// room for.
    fn multiply_rows(&self, simd: Simd, first: usize, batch: &Batch, out: &mut [&mut [f32]]) {
        let row_bytes = self.row_bytes();
        let length = out.first().map_or(0, |out| out.len()) * row_bytes;
        let rows = &self.data.bytes()[first * row_bytes..][..length];
        LINES.with_borrow_mut(|lines| {
            lines.resize(out.len().next_multiple_of(batch::MOST_LANES), [0.0; LINE]);
            self.format.multiply_rows(simd, rows, row_bytes, batch, &mut Products { lines, out });
        });
    }
}

thread_local! {
    static LINES: RefCell<Vec<Line>> = RefCell::default();
}

/// Multiplies matrices with every vector of a batch. Each matrix comes with
/// its result: for each vector in turn, one number per row.
pub(crate) fn multiply<const J: usize>(
    threads: &Threads,
    batch: &mut Batch,
    jobs: [(&Matrix, &mut Vec<f32>); J],
) {
    multiply_with(Simd::detect(), threads, batch, jobs);
}

fn multiply_with<const J: usize>(
    simd: Simd,
    threads: &Threads,
    batch: &mut Batch,
    mut jobs: [(&Matrix, &mut Vec<f32>); J],
) {
    let count = batch.count();
    let mut work = 0;
    for (matrix, out) in &mut jobs {
        assert_eq!(batch.columns(), matrix.columns, "vectors must be as long as rows");
        batch.encode(simd, threads, matrix.format.encoding());
        out.resize(count * matrix.rows, 0.0);
        work += count * matrix.rows * matrix.columns;
    }

    // All matrices in one go: starting threads takes as long as a small one.
    let shared = &*batch;
    let parts = match threads.split(work) {
        Split::Whole => 1,
        Split::Parts(parts) => parts,
    };
    let mut tasks = Vec::new();
    for (matrix, out) in &mut jobs {
        let rows = matrix.rows.div_ceil(parts).next_multiple_of(LINE);
        let first = tasks.len();
        for start in (0..matrix.rows).step_by(rows) {
            tasks.push((&**matrix, start, Vec::with_capacity(count)));
        }
        for out in out.chunks_exact_mut(matrix.rows) {
            for ((_, _, outs), out) in tasks[first..].iter_mut().zip(out.chunks_mut(rows)) {
                outs.push(out);
            }
        }
    }
    threads.each(work, tasks.into_iter(), |(matrix, first, mut out)| {
        matrix.multiply_rows(simd, first, shared, &mut out);
    });
}
