//! Random cases, each a function of its number.

use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::stages::Stage;

/// A chain over logits, with what went before.
#[derive(Clone, Debug)]
pub struct Case {
    /// The number that it was made from.
    pub number: u64,
    /// One score per vocabulary entry; -inf is masked.
    pub logits: Vec<f32>,
    /// Tokens of the text so far, oldest first.
    pub history: Vec<u32>,
    /// The stages; the last one selects.
    pub chain: Vec<Stage>,
}

type Random = Xoshiro256PlusPlus;

fn between(rng: &mut Random, low: f32, high: f32) -> f32 {
    low + (high - low) * rng.random::<f32>()
}

fn normal(rng: &mut Random) -> f32 {
    // The sum of twelve uniform numbers has the variance 1.
    (0..12).map(|_| rng.random::<f32>()).sum::<f32>() - 6.0
}

impl Case {
    /// The case with this number.
    pub fn new(number: u64) -> Self {
        let mut rng = Random::seed_from_u64(number);
        let size = match rng.random_range(0..1000) {
            0..400 => rng.random_range(8..64),
            400..750 => rng.random_range(64..600),
            750..950 => rng.random_range(600..3000),
            950..996 => rng.random_range(3000..40_000),
            _ => [128_256, 151_936, 49_152, 32_000][rng.random_range(0..4_usize)],
        };
        let logits = logits(&mut rng, size);
        let count = rng.random_range(0..80);
        let few = rng.random_range(2..40).min(size as u32);
        let history = (0..count)
            .map(|_| {
                if rng.random() {
                    rng.random_range(0..few)
                } else {
                    rng.random_range(0..size as u32)
                }
            })
            .collect();
        let seed = rng.next_u32() % 1_000_000;
        let stages = rng.random_range(0..8);
        let mut chain: Vec<Stage> = (0..stages).map(|_| stage(&mut rng, size, seed)).collect();
        chain.push(selector(&mut rng, seed));
        Self { number, logits, history, chain }
    }
}

fn logits(rng: &mut Random, size: usize) -> Vec<f32> {
    let mut logits: Vec<f32> = match rng.random_range(0..5) {
        // Peaked, as models give them.
        0 | 1 => {
            let spread = between(rng, 1.0, 4.0);
            let mut logits: Vec<f32> = (0..size).map(|_| normal(rng) * spread).collect();
            for _ in 0..rng.random_range(1..30) {
                let at = rng.random_range(0..size);
                logits[at] = between(rng, 5.0, 16.0);
            }
            logits
        }
        // Flat.
        2 => (0..size).map(|_| normal(rng) * 0.3).collect(),
        // Tied: few distinct values.
        3 => (0..size).map(|_| (normal(rng) * 3.0).round() / 2.0).collect(),
        // One token far above the rest.
        _ => {
            let mut logits: Vec<f32> = (0..size).map(|_| normal(rng)).collect();
            logits[rng.random_range(0..size)] = between(rng, 10.0, 30.0);
            logits
        }
    };
    if rng.random_range(0..4) == 0 {
        let keep = rng.random_range(0..size);
        for (at, logit) in logits.iter_mut().enumerate() {
            if at != keep && rng.random_range(0..5) == 0 {
                *logit = f32::NEG_INFINITY;
            }
        }
    }
    logits
}

fn stage(rng: &mut Random, size: usize, seed: u32) -> Stage {
    let min_keep = if rng.random_range(0..4) == 0 { rng.random_range(0..6) } else { 0 };
    match rng.random_range(0..10) {
        0 => Stage::TopK { k: rng.random_range(-1..200) },
        1 => Stage::TopP { p: between(rng, 0.05, 1.05).min(1.0), min_keep },
        2 => Stage::MinP { p: between(rng, -0.05, 0.5).max(0.0), min_keep },
        3 => Stage::Typical { p: between(rng, 0.1, 1.05).min(1.0), min_keep },
        4 => Stage::TopNSigma { n: between(rng, -0.5, 4.0) },
        5 => Stage::Xtc {
            probability: between(rng, -0.2, 1.2).clamp(0.0, 1.0),
            threshold: between(rng, 0.005, 0.6),
            min_keep,
            seed,
        },
        6 => {
            let range = if rng.random() { between(rng, 0.05, 0.8) } else { 0.0 };
            let t = if rng.random_range(0..12) == 0 { 0.0 } else { between(rng, 0.3, 2.0) };
            Stage::Temperature { t, range, exponent: between(rng, 0.5, 2.0) }
        }
        7 => Stage::Penalties {
            last_n: rng.random_range(0..100),
            repeat: between(rng, 0.8, 1.6),
            frequency: between(rng, -0.3, 0.5),
            presence: between(rng, -0.3, 0.5),
        },
        8 => Stage::Dry {
            multiplier: between(rng, 0.0, 2.0),
            base: between(rng, 1.0, 2.5),
            allowed_length: rng.random_range(0..4),
            last_n: rng.random_range(0..100),
            breakers: Vec::new(),
        },
        _ => {
            // Each token once: of several biases on one, llama.cpp adds only the
            // first where its array has been sorted.
            let mut bias: Vec<(u32, f32)> = (0..rng.random_range(0..4))
                .map(|_| {
                    let ban = rng.random_range(0..4) == 0;
                    let bias = if ban { f32::NEG_INFINITY } else { between(rng, -4.0, 4.0) };
                    (rng.random_range(0..size as u32), bias)
                })
                .collect();
            bias.sort_by_key(|(id, _)| *id);
            bias.dedup_by_key(|(id, _)| *id);
            Stage::LogitBias { bias }
        }
    }
}

fn selector(rng: &mut Random, seed: u32) -> Stage {
    match rng.random_range(0..10) {
        0 => Stage::Greedy,
        1 => Stage::Mirostat {
            tau: between(rng, 0.5, 6.0),
            eta: between(rng, 0.0, 0.3),
            m: 100,
            seed,
        },
        2 | 3 => {
            Stage::MirostatV2 { tau: between(rng, 0.5, 6.0), eta: between(rng, 0.0, 0.3), seed }
        }
        4 => Stage::AdaptiveP {
            target: between(rng, -0.2, 1.0).max(-1.0),
            decay: between(rng, 0.0, 0.99),
            seed,
        },
        _ => Stage::Dist { seed },
    }
}
