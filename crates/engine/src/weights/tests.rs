use proptest::{collection::vec, prelude::*};

use super::{instructions::from_f16, *};

fn matrix(kind: TensorType, rows: usize, columns: usize, bytes: Vec<u8>) -> Matrix {
    Matrix::new(kind, TensorData::from_bytes(bytes), rows, columns).unwrap()
}

fn filled(columns: usize, numbers: &[f32]) -> Batch {
    let mut batch = Batch::default();
    batch.refill(numbers.len() / columns, columns).copy_from_slice(numbers);
    batch
}

fn product(simd: Simd, threads: &Threads, matrix: &Matrix, numbers: &[f32]) -> Vec<f32> {
    let mut out = Vec::new();
    let mut batch = filled(matrix.columns, numbers);
    threads.run(usize::MAX, || multiply_with(simd, threads, &mut batch, [(matrix, &mut out)]));
    out
}

/// All NaN are one: which of two a processor keeps is not ours to choose.
fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|x| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() }).collect()
}

#[derive(Clone, Debug)]
struct Case {
    matrix: Matrix,
    numbers: Vec<f32>,
}

/// Random matrices with vectors. With `tame`, all numbers are of a size that
/// models have; without, the weights are any bytes, with NaN and infinities.
fn cases(tame: bool) -> impl Strategy<Value = Case> {
    let sizes =
        (prop::sample::select(&FORMATS[..]), 1..10_usize, 1..6_usize, 0..7_usize, 1..50_usize);
    sizes.prop_flat_map(move |(format, rows, blocks, more, count)| {
        let kind = format.tensor_type();
        // Rows of floating-point numbers may have any length.
        let columns = match kind.block_len() {
            1 => 17 * blocks + more,
            block => block * blocks,
        };
        let size = rows * columns / kind.block_len() * kind.block_bytes();
        let numbers = vec(-8.0_f32..8.0, count * columns);
        (vec(any::<u8>(), size), numbers).prop_map(move |(mut bytes, numbers)| {
            if tame {
                calm(kind, &mut bytes);
            }
            Case { matrix: matrix(kind, rows, columns, bytes), numbers }
        })
    })
}

/// Gives every floating-point number in a tensor an absolute value below 2.
fn calm(kind: TensorType, bytes: &mut [u8]) {
    let calm_f16 = |bytes: &mut [u8]| bytes[1] &= 0b1011_1111;
    use TensorType::*;
    for block in bytes.chunks_exact_mut(kind.block_bytes()) {
        match kind {
            F32 => block[3] &= 0b1011_1111,
            F16 | BF16 | Q8_0 | Q4_0 | Q5_0 | IQ4_NL | IQ4_XS => calm_f16(block),
            Q4_1 | Q5_1 | Q4_K | Q5_K => {
                calm_f16(block);
                calm_f16(&mut block[2..]);
            }
            Q2_K => {
                calm_f16(&mut block[80..]);
                calm_f16(&mut block[82..]);
            }
            Q3_K => calm_f16(&mut block[108..]),
            Q6_K => calm_f16(&mut block[208..]),
            _ => unreachable!("no such case"),
        }
    }
}

proptest! {
    #[test]
    fn all_kernels_give_the_same_bits(case in cases(false)) {
        let threads = Threads::new(1).unwrap();
        let portable = product(Simd::Portable, &threads, &case.matrix, &case.numbers);
        for simd in Simd::all() {
            let found = product(simd, &threads, &case.matrix, &case.numbers);
            prop_assert_eq!(bits(&portable), bits(&found), "{:?}", simd);
        }
    }

    #[test]
    fn a_batch_gives_the_same_bits_as_its_vectors_alone(case in cases(false)) {
        let threads = Threads::new(1).unwrap();
        let together = product(Simd::detect(), &threads, &case.matrix, &case.numbers);
        let alone = case.numbers.chunks(case.matrix.columns);
        let alone: Vec<f32> = alone
            .flat_map(|vector| product(Simd::detect(), &threads, &case.matrix, vector))
            .collect();
        prop_assert_eq!(bits(&together), bits(&alone));
    }

    /// The reference multiplies the decoded weights in double precision. Where
    /// vectors are rounded to 8 bits, each number may be off by half a step.
    #[test]
    fn products_are_close_to_those_of_decoded_weights(case in cases(true)) {
        let threads = Threads::new(1).unwrap();
        let Case { matrix, numbers } = case;
        let found = product(Simd::detect(), &threads, &matrix, &numbers);
        let step = match matrix.format.encoding() {
            Encoding::F32 => 0.0,
            Encoding::Groups16 | Encoding::Groups32 => 8.0 / 127.0,
        };
        let mut row = vec![0.0; matrix.columns];
        for (v, vector) in numbers.chunks(matrix.columns).enumerate() {
            for r in 0..matrix.rows {
                matrix.decode_row(r, &mut row);
                let pairs = row.iter().map(|&w| f64::from(w)).zip(vector.iter().map(|&x| f64::from(x)));
                let expected: f64 = pairs.clone().map(|(w, x)| w * x).sum();
                let magnitude: f64 = pairs.map(|(w, x)| (w * x).abs()).sum();
                let rounding: f64 = row.iter().map(|&w| f64::from(w).abs()).sum::<f64>() * step / 2.0;
                let found = f64::from(found[v * matrix.rows + r]);
                // 1e-3: the offsets of Q4_1 and the lanes cancel each other.
                prop_assert!(
                    (found - expected).abs() <= rounding * 1.001 + magnitude * 1e-5 + 1e-3,
                    "{:?}: {} instead of {}", matrix.format, found, expected
                );
            }
        }
    }
}

#[test]
fn threads_do_not_change_a_bit() {
    // Large enough to be divided, with a last part that is smaller.
    let (rows, columns) = (1037, 96 * 4);
    let bytes: Vec<u8> =
        (0..rows * columns / 32 * 20).map(|i| (i * 31 % 251) as u8 & 0x3f).collect();
    let matrix = matrix(TensorType::Q4_1, rows, columns, bytes);
    let numbers: Vec<f32> = (0..columns * 3).map(|i| (i as f32 * 0.37).sin()).collect();
    let one = product(Simd::detect(), &Threads::new(1).unwrap(), &matrix, &numbers);
    for count in [2, 3] {
        let threads = Threads::new(count).unwrap();
        let many = product(Simd::detect(), &threads, &matrix, &numbers);
        assert_eq!(bits(&one), bits(&many), "{count} threads");
    }
}

#[test]
fn a_number_that_is_not_finite_spoils_the_whole_product() {
    let ones = [0x00, 0x3c].into_iter().chain([1; 32]).collect();
    let matrix = matrix(TensorType::Q8_0, 1, 32, ones);
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut numbers = [1.0; 32];
        numbers[7] = bad;
        let out = product(Simd::detect(), &Threads::new(1).unwrap(), &matrix, &numbers);
        assert!(out[0].is_nan(), "{bad}");
    }
}

#[test]
fn vectors_too_close_to_zero_to_be_scaled_are_zero() {
    let ones = [0x00, 0x3c].into_iter().chain([1; 32]).collect();
    let matrix = matrix(TensorType::Q8_0, 1, 32, ones);
    for tiny in [0.0, 1e-38, f32::from_bits(1)] {
        let out = product(Simd::detect(), &Threads::new(1).unwrap(), &matrix, &[tiny; 32]);
        assert_eq!(bits(&out), [0], "{tiny}");
    }
}

/// Expected values by hand, from the format's layout.
#[test]
fn blocks_are_decoded_as_the_format_lays_them_out() {
    let decoded = |kind, block: &[u8]| {
        let columns = kind_len(kind);
        let mut out = vec![0.0; columns];
        matrix(kind, 1, columns, block.to_vec()).decode_row(0, &mut out);
        out
    };
    // A scale of 0.5; of the integers, the first is 3 and the last -2.
    let mut block = [0; 34];
    block[..3].copy_from_slice(&[0x00, 0x38, 3]);
    block[33] = 254;
    let out = decoded(TensorType::Q8_0, &block);
    assert_eq!((bits(&out)[0], bits(&out)[31]), (1.5_f32.to_bits(), (-1.0_f32).to_bits()));

    // The first byte holds weights 0 (lower half) and 16 (upper half).
    let mut block = [0x88; 18];
    block[..3].copy_from_slice(&[0x00, 0x38, 0xf1]);
    let out = decoded(TensorType::Q4_0, &block);
    assert_eq!(bits(&[out[0], out[1], out[16]]), bits(&[-3.5, 0.0, 3.5]));

    // An offset of -1 instead of the fixed 8.
    let mut block = [0; 20];
    block[..5].copy_from_slice(&[0x00, 0x38, 0x00, 0xbc, 0xf1]);
    let out = decoded(TensorType::Q4_1, &block);
    assert_eq!(bits(&[out[0], out[1], out[16]]), bits(&[-0.5, -1.0, 6.5]));

    // Lower bits 1 and 2 in the first byte, upper bits 3, 0, 1, 0 in the first
    // byte of those: weights 0 and 64 are 1 + 48 and 2 + 16, weights 32 and 96
    // are 0. Scales: 2 for weights 0 to 15, -1 for 64 to 79, 1 for the others.
    let mut block = [0; 210];
    block[0] = 0x21;
    block[128] = 0b00_01_00_11;
    block[192..208].fill(1);
    block[192] = 2;
    block[196] = 255;
    block[208..].copy_from_slice(&[0x00, 0x38]);
    let out = decoded(TensorType::Q6_K, &block);
    let some = [out[0], out[1], out[32], out[64], out[96], out[255]];
    assert_eq!(bits(&some), bits(&[17.0, -32.0, -16.0, 7.0, -16.0, -16.0]));

    assert_eq!(bits(&decoded(TensorType::BF16, &[0x80, 0x3f])), bits(&[1.0]));

    // A bit above the lower halves of weights 0 and 16.
    let mut block = [0; 22];
    block[..7].copy_from_slice(&[0x00, 0x38, 1, 0, 1, 0, 0x21]);
    let out = decoded(TensorType::Q5_0, &block);
    assert_eq!(bits(&[out[0], out[1], out[16]]), bits(&[0.5, -8.0, 1.0]));

    // The same with an offset of -1 instead of the fixed 16.
    let mut block = [0; 24];
    block[..9].copy_from_slice(&[0x00, 0x38, 0x00, 0xbc, 1, 0, 1, 0, 0x21]);
    let out = decoded(TensorType::Q5_1, &block);
    assert_eq!(bits(&[out[0], out[1], out[16]]), bits(&[7.5, -1.0, 8.0]));

    // Places 0 and 15 of the table: -127 and 113.
    let mut block = [0; 18];
    block[..3].copy_from_slice(&[0x00, 0x38, 0xf0]);
    let out = decoded(TensorType::IQ4_NL, &block);
    assert_eq!(bits(&[out[0], out[16]]), bits(&[-63.5, 56.5]));
}

/// Expected values by hand, from the format's layout, as above.
#[test]
fn blocks_of_256_are_decoded_as_the_format_lays_them_out() {
    let decoded = |kind, block: &[u8]| {
        let mut out = vec![0.0; 256];
        matrix(kind, 1, 256, block.to_vec()).decode_row(0, &mut out);
        out
    };
    // Scales of 0.5 for scales and 1 for offsets; group 0 has the scale 3 and
    // the offset 2, group 5 has 1 + 16 and 2 + 32, whose upper bits are in the
    // bytes of group 1.
    let mut front = [0; 16];
    front[..5].copy_from_slice(&[0x00, 0x38, 0x00, 0x3c, 3]);
    front[5] = 0x40;
    front[8] = 2;
    front[9] = 0x80;
    front[13] = 0x21;
    let mut block = [0; 144];
    block[..16].copy_from_slice(&front);
    block[16] = 0x74;
    block[16 + 64] = 0x30;
    let out = decoded(TensorType::Q4_K, &block);
    let some = [out[0], out[1], out[32], out[160]];
    assert_eq!(bits(&some), bits(&[4.0, -2.0, 0.0, -8.5]));

    // The same with a bit above, which counts 16, for weights 0 and 160.
    let mut block = [0; 176];
    block[..16].copy_from_slice(&front);
    block[16] = 0b10_0001;
    block[48] = 0x04;
    block[48 + 64] = 0x30;
    let out = decoded(TensorType::Q5_K, &block);
    assert_eq!(bits(&[out[0], out[1], out[160]]), bits(&[28.0, -2.0, 127.5]));

    // Group 0 has the scale 3 and the offset 2, group 9 has 1 and 1.
    let mut block = [0; 84];
    block[0] = 0x23;
    block[9] = 0x11;
    block[16] = 2;
    block[16 + 48] = 3;
    block[80..].copy_from_slice(&[0x00, 0x38, 0x00, 0x3c]);
    let out = decoded(TensorType::Q2_K, &block);
    assert_eq!(bits(&[out[0], out[1], out[144]]), bits(&[1.0, -2.0, 0.5]));

    // Group 0 has the scale 5 + 32 - 32, group 13 has 7 + 16 - 32. Weight 208,
    // the first of group 13, is 2 and the bit above, less 4.
    let mut block = [0; 110];
    block[16] = 0x40;
    block[32] = 1;
    block[32 + 48] = 0x20;
    block[96] = 0x05;
    block[96 + 5] = 0x70;
    block[96 + 8] = 0b10;
    block[96 + 9] = 0x40;
    block[108..].copy_from_slice(&[0x00, 0x38]);
    let out = decoded(TensorType::Q3_K, &block);
    assert_eq!(bits(&[out[0], out[208]]), bits(&[-7.5, -9.0]));

    // Group 0 has the scale 0 - 32, group 3 has 7 + 32 - 32. Places 0, 1 and 8
    // of the table are -127, -104 and 1.
    let mut block = [0; 136];
    block[..4].copy_from_slice(&[0x00, 0x38, 0x80, 0x00]);
    block[5] = 0x70;
    block[8 + 48] = 0x81;
    let out = decoded(TensorType::IQ4_XS, &block);
    assert_eq!(bits(&[out[0], out[96], out[112]]), bits(&[2032.0, -364.0, 3.5]));
}

fn kind_len(kind: TensorType) -> usize {
    kind.block_len()
}

/// From IEEE 754: one, the largest, the smallest subnormal and the smallest
/// normal number, and the special ones.
#[test]
fn f16_is_read_exactly() {
    for (bits, expected) in [
        (0x3c00, 1.0),
        (0xc000, -2.0),
        (0x7bff, 65504.0),
        (0x0001, 2.0_f32.powi(-24)),
        (0x0400, 2.0_f32.powi(-14)),
        (0x0000, 0.0),
        (0x8000, -0.0),
        (0x7c00, f32::INFINITY),
        (0xfc00, f32::NEG_INFINITY),
    ] {
        assert_eq!(from_f16(bits).to_bits(), expected.to_bits(), "{bits:#x}");
    }
    assert!(from_f16(0x7c01).is_nan());
}

/// The processor's own conversion is the reference.
#[test]
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
fn all_f16_are_read_as_the_processor_reads_them() {
    use super::instructions::{Avx2, Instructions};
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c") {
        // SAFETY: the machine has both.
        let instructions = unsafe { Avx2::new() };
        for bits in 0..=u16::MAX {
            let expected = instructions.read_f16(bits.to_le_bytes());
            assert_eq!(from_f16(bits).to_bits(), expected.to_bits(), "{bits:#x}");
        }
    }
}
