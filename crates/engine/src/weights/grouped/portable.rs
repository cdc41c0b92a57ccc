use super::{Layout, Line, ROWS, Unpacked};
use crate::weights::batch::{FOUR, Rounded};

/// The products of four rows with one vector.
pub(super) fn single<K: Layout>(rows: Unpacked<'_>, vector: Rounded<'_>) -> [f32; ROWS] {
    let stride = rows.fours * FOUR * K::GROUP;
    std::array::from_fn(|row| {
        let (mut sums, mut offsets) = ([0.0; FOUR], [0.0; FOUR]);
        for group in 0..rows.fours * FOUR {
            let weights = &rows.integers[row * stride + group * K::GROUP..][..K::GROUP];
            let numbers = &vector.integers[group * K::GROUP..][..K::GROUP];
            let products = weights.iter().zip(numbers);
            let sum: i32 = products.map(|(&w, &x)| i32::from(w) * i32::from(x)).sum();
            let sum = sum - K::BIAS * vector.integer_sums[group * FOUR];
            let scale = rows.scales[group * ROWS + row] * vector.scales[group * FOUR];
            sums[group % FOUR] += scale * sum as f32;
            if K::HAS_OFFSET {
                let offset = rows.offsets[group * ROWS + row] * vector.sums[group * FOUR];
                offsets[group % FOUR] += offset;
            }
        }
        total::<K>(sums, offsets)
    })
}

/// The products of four rows with a block of vectors: tile `at` of each line.
pub(super) fn several<K: Layout>(
    rows: Unpacked<'_>,
    vectors: Rounded<'_>,
    lines: &mut [Line],
    at: usize,
) {
    if vectors.lanes == 8 {
        lanes::<K, 8>(rows, vectors, lines, at);
    } else {
        lanes::<K, 16>(rows, vectors, lines, at);
    }
}

fn lanes<K: Layout, const L: usize>(
    rows: Unpacked<'_>,
    vectors: Rounded<'_>,
    lines: &mut [Line],
    at: usize,
) {
    assert_eq!(vectors.run, 4);
    let stride = rows.fours * FOUR * K::GROUP;
    for row in 0..ROWS {
        let (mut sums, mut offsets) = ([[0.0; L]; FOUR], [[0.0; L]; FOUR]);
        for group in 0..rows.fours * FOUR {
            let place = group % FOUR * rows.fours + group / FOUR;
            let weights = &rows.integers[row * stride + group * K::GROUP..][..K::GROUP];
            let numbers = vectors.integers[place * K::GROUP * L..][..K::GROUP * L].as_chunks::<4>();
            let numbers = numbers.0.as_chunks::<L>().0;
            let mut products = [0; L];
            for (weights, numbers) in weights.as_chunks::<4>().0.iter().zip(numbers) {
                for (product, numbers) in products.iter_mut().zip(numbers) {
                    for (&w, &x) in weights.iter().zip(numbers) {
                        *product += i32::from(w) * i32::from(x);
                    }
                }
            }
            let scale = rows.scales[group * ROWS + row];
            for lane in 0..L {
                let sum = products[lane] - K::BIAS * vectors.integer_sums[place * L + lane];
                let scale = scale * vectors.scales[place * L + lane];
                sums[group % FOUR][lane] += scale * sum as f32;
            }
            if K::HAS_OFFSET {
                let offset = rows.offsets[group * ROWS + row];
                let sums = &vectors.sums[place * L..][..L];
                for (total, sum) in offsets[group % FOUR].iter_mut().zip(sums) {
                    *total += offset * sum;
                }
            }
        }
        for lane in 0..L {
            let of = |sums: [[f32; L]; FOUR]| sums.map(|sums| sums[lane]);
            lines[lane][at * ROWS + row] = total::<K>(of(sums), of(offsets));
        }
    }
}

/// The end of every product.
fn total<K: Layout>(sums: [f32; FOUR], offsets: [f32; FOUR]) -> f32 {
    let sum = |s: [f32; FOUR]| (s[0] + s[2]) + (s[1] + s[3]);
    if K::HAS_OFFSET { sum(sums) + sum(offsets) } else { sum(sums) }
}
