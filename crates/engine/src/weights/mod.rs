//! Weight matrices in the formats of GGUF, and their products with vectors.
//!
//! A format is one small file and one line of [`FORMATS`]. Each has its
//! product twice, in portable code and for AVX2, and both give the same bits:
//! each element of a result is one sum in an order that the format fixes,
//! without fused multiply-adds. So a result depends neither on the machine nor
//! on how the work was divided.

mod batch;
mod blocks32;
mod float;
mod half;
mod q4_0;
mod q4_1;
mod q6_k;
mod q8_0;
mod simd;
#[cfg(test)]
mod tests;

use std::{array, fmt::Debug};

pub(crate) use self::{batch::Batch, float::dot, simd::Simd};
use self::{batch::Encoding, blocks32::Blocks32, float::Floats};
use crate::{
    TensorType,
    gguf::TensorData,
    threads::{Split, Threads},
};

/// Every format that the engine computes with.
static FORMATS: [&dyn AnyFormat; 7] = [
    &Floats::<float::F32>::NEW,
    &Floats::<float::F16>::NEW,
    &Floats::<float::Bf16>::NEW,
    &Blocks32::<q8_0::Q8_0>::NEW,
    &Blocks32::<q4_0::Q4_0>::NEW,
    &Blocks32::<q4_1::Q4_1>::NEW,
    &q6_k::Q6K,
];

/// How many vectors a row is multiplied with at a time: its weights are
/// unpacked once for all of them.
const TILE: usize = 4;

/// A way to store weights.
trait Format: Debug + Sync {
    const TYPE: TensorType;

    /// How the other side of the product must be stored.
    const ENCODING: Encoding;

    /// One vector of a batch.
    type Input<'a>: Copy;

    fn input(batch: &Batch, index: usize) -> Self::Input<'_>;

    /// The weights of a row as numbers.
    fn decode(row: &[u8], out: &mut [f32]);

    /// The products of a row with `N` vectors.
    fn dot<const N: usize>(row: &[u8], inputs: [Self::Input<'_>; N]) -> [f32; N];

    /// The same to the last bit, for machines with AVX2 and F16C.
    ///
    /// # Safety
    ///
    /// The machine must have both.
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code)]
    unsafe fn dot_avx2<const N: usize>(row: &[u8], inputs: [Self::Input<'_>; N]) -> [f32; N];
}

/// A [`Format`] behind a pointer.
trait AnyFormat: Debug + Sync {
    fn tensor_type(&self) -> TensorType;

    fn encoding(&self) -> Encoding;

    fn decode_row(&self, row: &[u8], out: &mut [f32]);

    /// Multiplies rows that follow each other with every vector of a batch:
    /// `out` gets, row after row, one number per vector.
    fn multiply_rows(
        &self,
        simd: Simd,
        rows: &[u8],
        row_bytes: usize,
        batch: &Batch,
        out: &mut [f32],
    );
}

impl<F: Format> AnyFormat for F {
    fn tensor_type(&self) -> TensorType {
        F::TYPE
    }

    fn encoding(&self) -> Encoding {
        F::ENCODING
    }

    fn decode_row(&self, row: &[u8], out: &mut [f32]) {
        F::decode(row, out);
    }

    fn multiply_rows(
        &self,
        simd: Simd,
        rows: &[u8],
        row_bytes: usize,
        batch: &Batch,
        out: &mut [f32],
    ) {
        let count = batch.count();
        for (row, out) in rows.chunks_exact(row_bytes).zip(out.chunks_exact_mut(count)) {
            let (tiles, rest) = out.as_chunks_mut::<TILE>();
            let rest_start = tiles.len() * TILE;
            for (tile, out) in tiles.iter_mut().enumerate() {
                let inputs = array::from_fn(|i| F::input(batch, tile * TILE + i));
                *out = dispatch::<F, TILE>(simd, row, inputs);
            }
            for (i, out) in rest.iter_mut().enumerate() {
                [*out] = dispatch::<F, 1>(simd, row, [F::input(batch, rest_start + i)]);
            }
        }
    }
}

#[allow(unsafe_code)]
fn dispatch<F: Format, const N: usize>(
    simd: Simd,
    row: &[u8],
    inputs: [F::Input<'_>; N],
) -> [f32; N] {
    match simd {
        Simd::Portable => F::dot(row, inputs),
        // SAFETY: the value proves that the machine has AVX2 and F16C.
        #[cfg(target_arch = "x86_64")]
        Simd::Avx2(_) => unsafe { F::dot_avx2(row, inputs) },
    }
}

/// The names of all formats, for messages.
pub(crate) fn format_names() -> String {
    FORMATS.map(|format| format.tensor_type().name()).join(", ")
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

    /// The product of the rows from `first` on, as many as `out` has room for.
    fn multiply_rows(&self, simd: Simd, first: usize, batch: &Batch, out: &mut [f32]) {
        let row_bytes = self.row_bytes();
        let length = out.len() / batch.count() * row_bytes;
        let rows = &self.data.bytes()[first * row_bytes..][..length];
        self.format.multiply_rows(simd, rows, row_bytes, batch, out);
    }
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
        batch.encode(matrix.format.encoding());
        out.resize(count * matrix.rows, 0.0);
        work += count * matrix.rows * matrix.columns;
    }

    // All matrices in one go: starting threads takes as long as a small one.
    let shared = &*batch;
    match threads.split(work) {
        Split::Whole => {
            for (matrix, out) in &mut jobs {
                matrix.multiply_rows(simd, 0, shared, out);
            }
        }
        Split::Parts(parts) => {
            let pieces = jobs.iter_mut().flat_map(|(matrix, out)| {
                let rows = matrix.rows.div_ceil(parts);
                let chunks = out.chunks_mut(rows * count).enumerate();
                chunks.map(move |(i, out)| (&**matrix, i * rows, out))
            });
            threads.for_each(pieces.collect(), |(matrix, first, out)| {
                matrix.multiply_rows(simd, first, shared, out);
            });
        }
    }

    if count > 1 {
        for (matrix, out) in &mut jobs {
            transpose(out, matrix.rows, batch.spare());
        }
    }
}

/// Turns `rows` runs of numbers into runs of `rows` numbers.
fn transpose(numbers: &mut Vec<f32>, rows: usize, spare: &mut Vec<f32>) {
    let columns = numbers.len() / rows;
    spare.resize(numbers.len(), 0.0);
    for (row, run) in numbers.chunks_exact(columns).enumerate() {
        for (column, &number) in run.iter().enumerate() {
            spare[column * rows + row] = number;
        }
    }
    std::mem::swap(numbers, spare);
}
