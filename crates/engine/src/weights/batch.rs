//! Vectors, as they come and as the formats of weights want them.

use super::{
    aligned::Aligned,
    simd::{Simd, vectorized},
};
use crate::threads::Threads;

/// Rounding a number takes as long as so many multiplications.
const WORK: usize = 64;

/// How a format of weights wants the other side of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    /// As it is.
    F32,
    /// Rounded to 8 bits in groups of 16.
    Groups16,
    /// Rounded to 8 bits in groups of 32.
    Groups32,
}

/// Some vectors of one length, to be multiplied with the same matrices.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    count: usize,
    columns: usize,
    numbers: Vec<f32>,
    groups16: Groups<16>,
    groups32: Groups<32>,
}

impl Batch {
    /// Forgets all vectors and makes room for `count` new ones, which the
    /// caller must write.
    pub(crate) fn refill(&mut self, count: usize, columns: usize) -> &mut [f32] {
        self.count = count;
        self.columns = columns;
        self.groups16.ready = false;
        self.groups32.ready = false;
        self.numbers.resize(count * columns, 0.0);
        &mut self.numbers
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    pub(super) fn vector(&self, index: usize) -> &[f32] {
        &self.numbers[index * self.columns..][..self.columns]
    }

    /// In groups of 16 or 32, once encoded.
    pub(super) fn rounded(&self, encoding: Encoding) -> Rounded<'_> {
        match encoding {
            Encoding::F32 => unreachable!("what is not rounded has no groups"),
            Encoding::Groups16 => self.groups16.rounded(),
            Encoding::Groups32 => self.groups32.rounded(),
        }
    }

    /// Makes one more form of the vectors, unless it is there.
    pub(super) fn encode(&mut self, simd: Simd, threads: &Threads, encoding: Encoding) {
        let Self { count, columns, numbers, groups16, groups32 } = self;
        match encoding {
            Encoding::F32 => {}
            Encoding::Groups16 => groups16.encode(simd, threads, numbers, *count, *columns),
            Encoding::Groups32 => groups32.encode(simd, threads, numbers, *count, *columns),
        }
    }
}

/// Groups go in fours, the last of which is filled up with zeros.
pub(super) const FOUR: usize = 4;

/// From so many vectors on, kernels take them side by side in lanes.
const SIDE_BY_SIDE: usize = 3;

/// The most vectors that lie side by side.
pub(super) const MOST_LANES: usize = 16;

/// Vectors in groups of `G` integers with a common scale: a number is
/// `scale * integer`, and integers are from -127 to 127. How a vector is rounded
/// depends on nothing but itself.
#[derive(Debug, Default)]
struct Groups<const G: usize> {
    ready: bool,
    blocks: usize,
    lanes: usize,
    run: usize,
    fours: usize,
    integers: Aligned<i8>,
    scales: Aligned<f32>,
    sums: Aligned<f32>,
    integer_sums: Aligned<i32>,
}

/// The same, to read: blocks of `lanes` vectors each, one after the other.
///
/// With one lane, a block holds the groups' integers in order, and each of the
/// other numbers four times, for four rows of weights. With more, group `4 i + j`
/// of the block stands at `j * fours + i`; there are `run` integers of the first
/// vector, `run` of the next, and so on, then the next of each; and each of the
/// other numbers once for each vector. Vectors that are missing are zero.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rounded<'a> {
    /// Integers in a group.
    group: usize,
    pub(super) blocks: usize,
    pub(super) lanes: usize,
    pub(super) run: usize,
    /// Groups of a vector, divided by four.
    pub(super) fours: usize,
    pub(super) integers: &'a [i8],
    pub(super) scales: &'a [f32],
    /// The sums of a group's integers, times the scale.
    pub(super) sums: &'a [f32],
    /// The sums of a group's integers.
    pub(super) integer_sums: &'a [i32],
}

impl<'a> Rounded<'a> {
    /// One block of vectors.
    #[inline]
    pub(super) fn block(&self, index: usize) -> Self {
        if self.blocks == 1 {
            return *self;
        }
        let groups = self.fours * FOUR;
        let numbers = groups * if self.lanes == 1 { FOUR } else { self.lanes };
        let integers = groups * self.group * self.lanes;
        let of = |length: usize| index * length..(index + 1) * length;
        Self {
            group: self.group,
            blocks: 1,
            lanes: self.lanes,
            run: self.run,
            fours: self.fours,
            integers: &self.integers[of(integers)],
            scales: &self.scales[of(numbers)],
            sums: &self.sums[of(numbers)],
            integer_sums: &self.integer_sums[of(numbers)],
        }
    }
}

impl<const G: usize> Groups<G> {
    fn rounded(&self) -> Rounded<'_> {
        Rounded {
            group: G,
            blocks: self.blocks,
            lanes: self.lanes,
            run: self.run,
            fours: self.fours,
            integers: self.integers.get(),
            scales: self.scales.get(),
            sums: self.sums.get(),
            integer_sums: self.integer_sums.get(),
        }
    }

    fn encode(
        &mut self,
        simd: Simd,
        threads: &Threads,
        numbers: &[f32],
        count: usize,
        columns: usize,
    ) {
        if self.ready {
            return;
        }
        self.ready = true;
        self.fours = (columns / G).div_ceil(FOUR);
        self.lanes = match count {
            ..SIDE_BY_SIDE => 1,
            SIDE_BY_SIDE..=8 => 8,
            _ => MOST_LANES,
        };
        self.run = match simd {
            // Which takes two lanes for each of eight vectors.
            #[cfg(target_arch = "x86_64")]
            Simd::Avx512(_) if self.lanes == 8 => 8,
            _ => 4,
        };
        let (lanes, run, fours) = (self.lanes, self.run, self.fours);
        self.blocks = count.div_ceil(lanes);
        // What a thread can write without the others.
        let (parts, groups, copies) = match lanes {
            1 => (1, fours * FOUR, FOUR),
            _ => (FOUR, fours, lanes),
        };
        let all = self.blocks * parts;
        let integers = self.integers.room(all * groups * G * lanes);
        let scales = self.scales.room(all * groups * copies);
        let sums = self.sums.room(all * groups * copies);
        let integer_sums = self.integer_sums.room(all * groups * copies);
        let places = integers
            .chunks_exact_mut(groups * G * lanes)
            .zip(scales.chunks_exact_mut(groups * copies))
            .zip(sums.chunks_exact_mut(groups * copies))
            .zip(integer_sums.chunks_exact_mut(groups * copies))
            .enumerate();
        let tasks = places.map(|(at, (((integers, scales), sums), integer_sums))| {
            let (block, first) = (at / parts, at % parts);
            let vectors = &numbers[block * lanes * columns..numbers.len()];
            let vectors = &vectors[..vectors.len().min(lanes * columns)];
            let step = parts;
            Part { vectors, columns, lanes, run, first, step, integers, scales, sums, integer_sums }
        });
        let round = |part: Part<'_>| match G {
            16 => round_groups_of_16(simd, part),
            _ => round_groups_of_32(simd, part),
        };
        threads.each(WORK * numbers.len(), tasks, round);
    }
}

/// Where some groups of a block of vectors are written: every `step`th of them from
/// `first` on.
struct Part<'a> {
    vectors: &'a [f32],
    columns: usize,
    lanes: usize,
    run: usize,
    first: usize,
    step: usize,
    integers: &'a mut [i8],
    scales: &'a mut [f32],
    sums: &'a mut [f32],
    integer_sums: &'a mut [i32],
}

vectorized! {
    fn round_groups_of_16(simd: Simd, part: Part<'_>) {
        part.round::<16>();
    }
}

vectorized! {
    fn round_groups_of_32(simd: Simd, part: Part<'_>) {
        part.round::<32>();
    }
}

impl Part<'_> {
    /// Rows of weights are whole groups, and vectors are as long as rows: a
    /// group never reaches into the next vector.
    #[inline(always)]
    fn round<const G: usize>(self) {
        let Part { vectors, columns, lanes, run, first, step, .. } = self;
        let Part { integers, scales, sums, integer_sums, .. } = self;
        let count = vectors.len() / columns;
        let groups = (columns / G).saturating_sub(first).div_ceil(step);
        let copies = if lanes == 1 { FOUR } else { lanes };
        if count < lanes || groups * copies < scales.len() {
            integers.fill(0);
            scales.fill(0.0);
            sums.fill(0.0);
            integer_sums.fill(0);
        }
        for at in 0..groups {
            for lane in 0..count {
                let group = lane * columns + (first + at * step) * G;
                let Some(numbers) = vectors[group..].first_chunk::<G>() else { break };
                let (scale, rounded) = round(numbers);
                let sum: i32 = rounded.iter().map(|&integer| i32::from(integer)).sum();
                if lanes == 1 {
                    integers[at * G..][..G].copy_from_slice(&rounded);
                    scales[at * FOUR..][..FOUR].fill(scale);
                    sums[at * FOUR..][..FOUR].fill(scale * sum as f32);
                    integer_sums[at * FOUR..][..FOUR].fill(sum);
                } else {
                    let integers = &mut integers[at * G * lanes..][..G * lanes];
                    match run {
                        8 => spread::<8>(&rounded, integers, lanes, lane),
                        _ => spread::<4>(&rounded, integers, lanes, lane),
                    }
                    scales[at * lanes + lane] = scale;
                    sums[at * lanes + lane] = scale * sum as f32;
                    integer_sums[at * lanes + lane] = sum;
                }
            }
        }
    }
}

/// Writes runs of a vector's integers between those of others.
#[inline(always)]
fn spread<const RUN: usize>(rounded: &[i8], out: &mut [i8], lanes: usize, lane: usize) {
    let (out, _) = out.as_chunks_mut::<RUN>();
    for (j, run) in rounded.as_chunks::<RUN>().0.iter().enumerate() {
        out[j * lanes + lane] = *run;
    }
}

/// The nearest integers from -127 to 127 with a common scale.
///
/// A group with a number that is not finite gets the scale NaN, so that
/// whatever is computed from it is NaN too.
#[inline(always)]
fn round<const N: usize>(group: &[f32; N]) -> (f32, [i8; N]) {
    // As bits without sign, larger means farther from zero, and NaN is the
    // largest of all.
    let mut largest = 0;
    for x in group {
        largest = largest.max(x.to_bits() & 0x7fff_ffff);
    }
    let largest = f32::from_bits(largest);
    if !largest.is_finite() {
        return (f32::NAN, [0; N]);
    }
    // So close to zero, the reciprocal would overflow.
    if largest < 1e-30 {
        return (0.0, [0; N]);
    }
    let scale = largest / 127.0;
    let reciprocal = 127.0 / largest;
    // Near 1.5 * 2^23, neighbouring numbers are 1 apart: adding it rounds, and
    // the lowest bits of the sum are the integer. Unlike a call of `round`
    // this can be done for many numbers at once.
    const SHIFT: f32 = 12_582_912.0;
    let mut integers = [0; N];
    for (integer, x) in integers.iter_mut().zip(group) {
        *integer = (x * reciprocal + SHIFT).to_bits() as i8;
    }
    (scale, integers)
}
