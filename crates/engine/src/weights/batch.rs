//! Vectors, as they come and as the formats of weights want them.

/// How a format of weights wants the other side of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    /// As it is.
    F32,
    /// Rounded to 8 bits in blocks of 32.
    Q8,
    /// Rounded to 8 bits in blocks of 256.
    Q8k,
}

/// Some vectors of one length, to be multiplied with the same matrices.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    count: usize,
    columns: usize,
    numbers: Vec<f32>,
    q8: Q8,
    q8k: Q8k,
    spare: Vec<f32>,
}

#[derive(Debug, Default)]
struct Q8 {
    ready: bool,
    integers: Vec<[i8; 32]>,
    scales: Vec<f32>,
    sums: Vec<f32>,
}

#[derive(Debug, Default)]
struct Q8k {
    ready: bool,
    integers: Vec<[[i8; 32]; 8]>,
    scales: Vec<f32>,
    sums: Vec<[i16; 16]>,
}

/// A vector in blocks of 32: number `i` is `scale * integer`. Integers are
/// from -127 to 127.
#[derive(Clone, Copy)]
pub(super) struct Q8Vector<'a> {
    pub(super) integers: &'a [[i8; 32]],
    pub(super) scales: &'a [f32],
    /// The sum of the block's integers, times the scale.
    pub(super) sums: &'a [f32],
}

/// A vector in blocks of 256: number `i` is `scale * integer`. Integers are
/// from -127 to 127.
#[derive(Clone, Copy)]
pub(super) struct Q8kVector<'a> {
    pub(super) integers: &'a [[[i8; 32]; 8]],
    pub(super) scales: &'a [f32],
    /// For each 16 integers, their sum.
    pub(super) sums: &'a [[i16; 16]],
}

impl Batch {
    /// Forgets all vectors and makes room for `count` new ones, which the
    /// caller must write.
    pub(crate) fn refill(&mut self, count: usize, columns: usize) -> &mut [f32] {
        self.count = count;
        self.columns = columns;
        self.q8.ready = false;
        self.q8k.ready = false;
        self.numbers.resize(count * columns, 0.0);
        &mut self.numbers
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    /// Memory for the caller's own purposes.
    pub(super) fn spare(&mut self) -> &mut Vec<f32> {
        &mut self.spare
    }

    pub(super) fn vector(&self, index: usize) -> &[f32] {
        &self.numbers[index * self.columns..][..self.columns]
    }

    pub(super) fn q8_vector(&self, index: usize) -> Q8Vector<'_> {
        let blocks = self.columns / 32;
        Q8Vector {
            integers: &self.q8.integers[index * blocks..][..blocks],
            scales: &self.q8.scales[index * blocks..][..blocks],
            sums: &self.q8.sums[index * blocks..][..blocks],
        }
    }

    pub(super) fn q8k_vector(&self, index: usize) -> Q8kVector<'_> {
        let blocks = self.columns / 256;
        Q8kVector {
            integers: &self.q8k.integers[index * blocks..][..blocks],
            scales: &self.q8k.scales[index * blocks..][..blocks],
            sums: &self.q8k.sums[index * blocks..][..blocks],
        }
    }

    /// Makes one more form of the vectors, unless it is there.
    pub(super) fn encode(&mut self, encoding: Encoding) {
        match encoding {
            Encoding::F32 => {}
            Encoding::Q8 if self.q8.ready => {}
            Encoding::Q8 => self.q8.encode(&self.numbers),
            Encoding::Q8k if self.q8k.ready => {}
            Encoding::Q8k => self.q8k.encode(&self.numbers),
        }
    }
}

// Rows of weights are whole blocks, and vectors are as long as rows: a block
// never reaches into the next vector.

impl Q8 {
    fn encode(&mut self, numbers: &[f32]) {
        self.ready = true;
        self.integers.clear();
        self.scales.clear();
        self.sums.clear();
        for block in numbers.as_chunks::<32>().0 {
            let (scale, integers) = round(block);
            let sum: i32 = integers.iter().map(|&integer| i32::from(integer)).sum();
            self.integers.push(integers);
            self.scales.push(scale);
            self.sums.push(scale * sum as f32);
        }
    }
}

impl Q8k {
    fn encode(&mut self, numbers: &[f32]) {
        self.ready = true;
        self.integers.clear();
        self.scales.clear();
        self.sums.clear();
        for block in numbers.as_chunks::<256>().0 {
            let (scale, integers) = round(block);
            let (groups, _) = integers.as_chunks::<16>();
            let sums = groups.iter().map(|group| group.iter().map(|&i| i16::from(i)).sum());
            let mut out = [0; 16];
            for (out, sum) in out.iter_mut().zip(sums) {
                *out = sum;
            }
            let (rows, _) = integers.as_chunks::<32>();
            self.integers.push(*rows.first_chunk().expect("256 integers are 8 times 32"));
            self.scales.push(scale);
            self.sums.push(out);
        }
    }
}

/// The nearest integers from -127 to 127 with a common scale.
///
/// A block with a number that is not finite gets the scale NaN, so that
/// whatever is computed from it is NaN too.
fn round<const N: usize>(block: &[f32; N]) -> (f32, [i8; N]) {
    // As bits without sign, larger means farther from zero, and NaN is the
    // largest of all.
    let largest = block.iter().map(|x| x.to_bits() & 0x7fff_ffff).max();
    let largest = f32::from_bits(largest.expect("a block is not empty"));
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
    let integers = block.map(|x| (x * reciprocal + SHIFT).to_bits() as i8);
    (scale, integers)
}
