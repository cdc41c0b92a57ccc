//! Formats that store weights as small integers in groups with a common scale.
//!
//! Vectors are rounded to 8 bits in groups as long. A product is computed in
//! two steps: four rows of weights are unpacked to bytes, one per weight, and
//! these are multiplied with all vectors. The first step is the format's own;
//! the second is one for all, and there is a kernel for each set of
//! instructions.
//!
//! All kernels give the same bits, because all compute the same. The product of
//! two groups is a sum of integers, which is exact in any order. It is made a
//! number and multiplied with the product of both scales. A row has four
//! partial sums of these: group `i` goes, in the order of the groups, to sum
//! `i % 4`, and at the end the sum is `(0 + 2) + (1 + 3)`. The same is done to
//! the offsets, where there are any; their sum is added last.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;

use std::{cell::RefCell, fmt::Debug, marker::PhantomData};

#[cfg(target_arch = "x86_64")]
use super::instructions::Avx2;
use super::{
    AnyFormat, LINE, Line, Products, Simd,
    aligned::Aligned,
    batch::{Batch, Encoding, FOUR, MOST_LANES, Rounded},
    instructions::{Instructions, Portable},
};
use crate::TensorType;

/// How many rows are unpacked at a time.
const ROWS: usize = 4;

const _: () = assert!(LINE.is_multiple_of(ROWS));

/// How many bytes ahead of their use weights are asked for: the machine itself
/// looks no further than to the end of a page.
const AHEAD: usize = 2048;

/// What a kernel knows of a format.
pub(super) trait Layout: Debug + Sync + 'static {
    /// Weights in a group: 16 or 32.
    const GROUP: usize;
    /// What was added to each integer so that none is negative: 0 or a power of
    /// two. Where it is less than 128, so is every integer.
    const BIAS: i32;
    /// Whether weights have an offset.
    const HAS_OFFSET: bool;
}

/// A format with blocks of `BYTES` bytes for `LEN` weights in `GROUPS` groups.
/// A weight is `scale * (integer - BIAS)`, plus `offset` if there is one.
pub(super) trait Quantised<const BYTES: usize, const LEN: usize, const GROUPS: usize>:
    Layout
{
    const TYPE: TensorType;

    /// The integers in the order of the weights, and each group's scale and
    /// offset. Scales are exact: a product of a number of 11 bits with one of
    /// up to 8.
    ///
    /// It must be inlined, and is translated for each set of instructions.
    fn unpack(
        instructions: impl Instructions,
        block: &[u8; BYTES],
        integers: &mut [u8; LEN],
        scales: &mut [f32; GROUPS],
        offsets: &mut [f32; GROUPS],
    );
}

/// The format of such blocks.
#[derive(Debug)]
pub(super) struct Grouped<F, const BYTES: usize, const LEN: usize, const GROUPS: usize>(
    PhantomData<F>,
);

impl<F, const BYTES: usize, const LEN: usize, const GROUPS: usize> Grouped<F, BYTES, LEN, GROUPS> {
    pub(super) const NEW: Self = Self(PhantomData);
}

/// Four unpacked rows. Groups of a row come in fours, filled up with scales and
/// offsets of zero.
#[derive(Debug, Default)]
struct Tile {
    /// Row after row.
    integers: Aligned<u8>,
    /// For each group, one number for each of the four rows.
    scales: Aligned<f32>,
    offsets: Aligned<f32>,
}

/// The same, to read.
#[derive(Clone, Copy, Debug)]
struct Unpacked<'a> {
    fours: usize,
    integers: &'a [u8],
    scales: &'a [f32],
    offsets: &'a [f32],
}

impl Tile {
    #[inline]
    fn unpacked(&self, fours: usize) -> Unpacked<'_> {
        let (integers, scales) = (self.integers.get(), self.scales.get());
        Unpacked { fours, integers, scales, offsets: self.offsets.get() }
    }
}

thread_local! {
    static TILE: RefCell<Tile> = RefCell::default();
}

impl<F, const BYTES: usize, const LEN: usize, const GROUPS: usize> Grouped<F, BYTES, LEN, GROUPS>
where
    F: Quantised<BYTES, LEN, GROUPS>,
{
    /// Unpacks up to four rows of `columns` weights.
    #[allow(unsafe_code)]
    fn unpack(simd: Simd, rows: &[u8], columns: usize, fours: usize, tile: &mut Tile) {
        match simd {
            Simd::Portable => Self::unpack_by(Portable, rows, columns, fours, tile),
            // SAFETY: the value proves that the machine has AVX2 and F16C.
            #[cfg(target_arch = "x86_64")]
            Simd::Avx2(_) | Simd::AvxVnni(_) => unsafe {
                Self::unpack_avx2(rows, columns, fours, tile);
            },
            // SAFETY: the value proves that the machine has these.
            #[cfg(target_arch = "x86_64")]
            Simd::Avx512(_) => unsafe { Self::unpack_avx512(rows, columns, fours, tile) },
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code)]
    #[target_feature(enable = "avx2,f16c")]
    fn unpack_avx2(rows: &[u8], columns: usize, fours: usize, tile: &mut Tile) {
        // SAFETY: this function runs only where AVX2 and F16C are.
        let instructions = unsafe { Avx2::new() };
        Self::unpack_by(instructions, rows, columns, fours, tile);
    }

    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code)]
    #[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl")]
    fn unpack_avx512(rows: &[u8], columns: usize, fours: usize, tile: &mut Tile) {
        // SAFETY: this function runs only where AVX2 and F16C are.
        let instructions = unsafe { Avx2::new() };
        Self::unpack_by(instructions, rows, columns, fours, tile);
    }

    #[inline(always)]
    fn unpack_by(
        instructions: impl Instructions,
        rows: &[u8],
        columns: usize,
        fours: usize,
        tile: &mut Tile,
    ) {
        let stride = fours * FOUR * F::GROUP;
        let integers = tile.integers.room(ROWS * stride);
        let scales = tile.scales.room(ROWS * fours * FOUR);
        let offsets = tile.offsets.room(if F::HAS_OFFSET { scales.len() } else { 0 });
        let used = columns / F::GROUP * ROWS;
        scales[used..].fill(0.0);
        if F::HAS_OFFSET {
            offsets[used..].fill(0.0);
        }
        let row_bytes = columns / LEN * BYTES;
        for (row, bytes) in rows.chunks_exact(row_bytes).enumerate() {
            let blocks = bytes.as_chunks::<BYTES>().0;
            let integers = integers[row * stride..][..columns].as_chunks_mut::<LEN>().0;
            let scales = scales[..used].as_chunks_mut::<ROWS>().0.as_chunks_mut::<GROUPS>().0;
            let offsets = offsets.as_chunks_mut::<ROWS>().0.as_chunks_mut::<GROUPS>().0;
            for (i, ((block, integers), scales)) in
                blocks.iter().zip(integers).zip(scales).enumerate()
            {
                let (mut own_scales, mut own_offsets) = ([0.0; GROUPS], [0.0; GROUPS]);
                instructions.prefetch(block, AHEAD);
                F::unpack(instructions, block, integers, &mut own_scales, &mut own_offsets);
                for (to, scale) in scales.iter_mut().zip(own_scales) {
                    to[row] = scale;
                }
                if F::HAS_OFFSET {
                    for (to, offset) in offsets[i].iter_mut().zip(own_offsets) {
                        to[row] = offset;
                    }
                }
            }
        }
    }
}

impl<F, const BYTES: usize, const LEN: usize, const GROUPS: usize> AnyFormat
    for Grouped<F, BYTES, LEN, GROUPS>
where
    F: Quantised<BYTES, LEN, GROUPS>,
{
    fn tensor_type(&self) -> TensorType {
        F::TYPE
    }

    fn encoding(&self) -> Encoding {
        if F::GROUP == 16 { Encoding::Groups16 } else { Encoding::Groups32 }
    }

    fn decode_row(&self, row: &[u8], out: &mut [f32]) {
        let blocks = row.as_chunks::<BYTES>().0;
        for (block, out) in blocks.iter().zip(out.as_chunks_mut::<LEN>().0) {
            let (mut integers, mut scales) = ([0; LEN], [0.0; GROUPS]);
            let mut offsets = [0.0; GROUPS];
            F::unpack(Portable, block, &mut integers, &mut scales, &mut offsets);
            for (i, (out, integer)) in out.iter_mut().zip(integers).enumerate() {
                *out = scales[i / F::GROUP] * (i32::from(integer) - F::BIAS) as f32;
                if F::HAS_OFFSET {
                    *out += offsets[i / F::GROUP];
                }
            }
        }
    }

    fn multiply_rows(
        &self,
        simd: Simd,
        rows: &[u8],
        row_bytes: usize,
        batch: &Batch,
        out: &mut Products<'_, '_>,
    ) {
        let columns = batch.columns();
        let rounded = batch.rounded(self.encoding());
        TILE.with_borrow_mut(|tile| {
            // One vector's products come in their order.
            if let [out] = &mut *out.out {
                for (rows, out) in rows.chunks(ROWS * row_bytes).zip(out.chunks_mut(ROWS)) {
                    Self::unpack(simd, rows, columns, rounded.fours, tile);
                    let products = single::<F>(simd, tile.unpacked(rounded.fours), rounded);
                    out.copy_from_slice(&products[..out.len()]);
                }
                return;
            }
            for (line, rows) in rows.chunks(LINE * row_bytes).enumerate() {
                for (at, rows) in rows.chunks(ROWS * row_bytes).enumerate() {
                    Self::unpack(simd, rows, columns, rounded.fours, tile);
                    multiply::<F>(simd, tile.unpacked(rounded.fours), rounded, out.lines, at);
                }
                out.write(line * LINE);
            }
        });
    }
}

/// Multiplies four rows with all vectors: tile `at` of each vector's line.
#[inline]
fn multiply<K: Layout>(
    simd: Simd,
    rows: Unpacked<'_>,
    vectors: Rounded<'_>,
    lines: &mut [Line],
    at: usize,
) {
    let Rounded { lanes, blocks, .. } = vectors;
    let mut block = 0;
    while block < blocks {
        if lanes == 1 {
            let products = single::<K>(simd, rows, vectors.block(block));
            lines[block].as_chunks_mut().0[at] = products;
            block += 1;
        } else if lanes == MOST_LANES && block + 2 <= blocks {
            let both = [vectors.block(block), vectors.block(block + 1)];
            pair::<K>(simd, rows, both, &mut lines[block * lanes..][..2 * lanes], at);
            block += 2;
        } else {
            let lines = &mut lines[block * lanes..][..lanes];
            several::<K>(simd, rows, vectors.block(block), lines, at);
            block += 1;
        }
    }
}

/// With one vector.
#[allow(unsafe_code)]
fn single<K: Layout>(simd: Simd, rows: Unpacked<'_>, vector: Rounded<'_>) -> [f32; ROWS] {
    match simd {
        Simd::Portable => portable::single::<K>(rows, vector),
        // SAFETY: the value proves that the machine has these instructions.
        #[cfg(target_arch = "x86_64")]
        Simd::Avx2(_) => unsafe { avx2::plain::single::<K>(rows, vector) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Simd::AvxVnni(_) => unsafe { avx2::vnni::single::<K>(rows, vector) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Simd::Avx512(_) => unsafe { avx512::single::<K>(rows, vector) },
    }
}

/// With a block of 8 or 16 vectors, each with a line.
#[allow(unsafe_code)]
fn several<K: Layout>(
    simd: Simd,
    rows: Unpacked<'_>,
    vectors: Rounded<'_>,
    lines: &mut [Line],
    at: usize,
) {
    match simd {
        Simd::Portable => portable::several::<K>(rows, vectors, lines, at),
        // SAFETY: the value proves that the machine has these instructions.
        #[cfg(target_arch = "x86_64")]
        Simd::Avx2(_) => unsafe { avx2::plain::several::<K>(rows, vectors, lines, at) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Simd::AvxVnni(_) => unsafe { avx2::vnni::several::<K>(rows, vectors, lines, at) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Simd::Avx512(_) if vectors.lanes == 8 => unsafe {
            avx512::eight::<K>(rows, vectors, lines, at);
        },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Simd::Avx512(_) => unsafe { avx512::several::<K, 1>(rows, [vectors], lines, at) },
    }
}

/// With two blocks of 16 vectors, each with a line.
#[allow(unsafe_code)]
fn pair<K: Layout>(
    simd: Simd,
    rows: Unpacked<'_>,
    vectors: [Rounded<'_>; 2],
    lines: &mut [Line],
    at: usize,
) {
    #[cfg(target_arch = "x86_64")]
    if let Simd::Avx512(_) = simd {
        // SAFETY: the value proves that the machine has these instructions.
        return unsafe { avx512::several::<K, 2>(rows, vectors, lines, at) };
    }
    let (first, second) = lines.split_at_mut(MOST_LANES);
    several::<K>(simd, rows, vectors[0], first, at);
    several::<K>(simd, rows, vectors[1], second, at);
}

/// Checks once what a kernel's loads rely on: `run` is how many integers of a vector it
/// wants side by side. A block of vectors has as many
/// integers and numbers as `lanes` of them need.
#[cfg(target_arch = "x86_64")]
fn check<K: Layout>(rows: Unpacked<'_>, vectors: Rounded<'_>, lanes: usize, run: usize) {
    let groups = rows.fours * FOUR;
    let numbers = groups * if lanes == 1 { FOUR } else { lanes };
    assert_eq!((vectors.lanes, vectors.fours), (lanes, rows.fours));
    assert!(lanes == 1 || vectors.run == run);
    assert!(rows.integers.len() >= ROWS * groups * K::GROUP);
    assert!(rows.scales.len() >= ROWS * groups);
    assert!(!K::HAS_OFFSET || rows.offsets.len() >= ROWS * groups);
    assert!(vectors.integers.len() >= lanes * groups * K::GROUP);
    assert!(vectors.scales.len() >= numbers);
    assert!(vectors.sums.len() >= numbers);
    assert!(vectors.integer_sums.len() >= numbers);
}
