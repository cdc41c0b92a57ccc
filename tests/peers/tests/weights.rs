//! The types of weights: what blocks stand for in both programs, bit for bit.

use logitchain_engine::TensorType;
use logitchain_peers::llama::dequantize;
use rand::{RngExt as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The types that the engine computes with, and the file format's numbers.
const TYPES: [(TensorType, u32); 14] = [
    (TensorType::F16, 1),
    (TensorType::Q4_0, 2),
    (TensorType::Q4_1, 3),
    (TensorType::Q5_0, 6),
    (TensorType::Q5_1, 7),
    (TensorType::Q8_0, 8),
    (TensorType::Q2_K, 10),
    (TensorType::Q3_K, 11),
    (TensorType::Q4_K, 12),
    (TensorType::Q5_K, 13),
    (TensorType::Q6_K, 14),
    (TensorType::IQ4_NL, 20),
    (TensorType::IQ4_XS, 23),
    (TensorType::BF16, 30),
];

/// All NaN are one.
fn bits(x: f32) -> u32 {
    if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() }
}

#[test]
fn random_blocks_stand_for_the_same_numbers() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    for (kind, number) in TYPES {
        let mut bytes = vec![0; 20_000 * kind.block_bytes()];
        rng.fill(&mut bytes[..]);
        let ours = kind.decode(&bytes).expect("a type that we compute with");
        let theirs = dequantize(number, &bytes, ours.len());
        let differ = ours.iter().zip(&theirs).position(|(a, b)| bits(*a) != bits(*b));
        if let Some(at) = differ {
            panic!("{kind}: number {at} is {}, in llama.cpp {}", ours[at], theirs[at]);
        }
    }
}
