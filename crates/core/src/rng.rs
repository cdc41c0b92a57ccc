use std::{fmt, str::FromStr};

use rand::{Rng as _, SeedableRng as _, TryRng as _, rngs::SysRng};
use rand_mt::Mt;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::{ChainError, trace::watch};

/// Which generator a chain draws from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RngKind {
    /// Xoshiro256++: one stream per stage, 53 random bits per draw, and every
    /// `u64` is a seed of its own.
    #[default]
    #[serde(rename = "xoshiro256++")]
    Xoshiro256PlusPlus,
    /// mt19937, as llama.cpp draws: seed for seed, the same tokens. Seeds have
    /// 32 bits, and all stages start from the same numbers.
    #[serde(rename = "mt19937")]
    Mt19937,
}

impl RngKind {
    /// All generators, with the names that chain files give them.
    pub const ALL: [(&'static str, Self); 2] =
        [("xoshiro256++", Self::Xoshiro256PlusPlus), ("mt19937", Self::Mt19937)];

    /// The seed of the `n`-th of several texts that are to differ and still hang on
    /// one seed. The first, text 0, has the seed itself.
    ///
    /// ```
    /// # use logitchain_core::RngKind;
    /// let rng = RngKind::default();
    /// assert_eq!(rng.nth_seed(42, 0), 42);
    /// assert_ne!(rng.nth_seed(42, 1), rng.nth_seed(42, 2));
    /// ```
    pub fn nth_seed(self, seed: u64, n: u64) -> u64 {
        match (n, self) {
            (0, _) => seed,
            (_, Self::Xoshiro256PlusPlus) => mix(seed, "text", n),
            (_, Self::Mt19937) => mix(seed, "text", n) & u64::from(u32::MAX),
        }
    }

    /// Whether this generator takes the seed.
    pub(crate) fn check(self, seed: u64) -> Result<(), ChainError> {
        match self {
            Self::Mt19937 if seed > u64::from(u32::MAX) => Err(ChainError::Seed { seed }),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for RngKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Xoshiro256PlusPlus => "xoshiro256++",
            Self::Mt19937 => "mt19937",
        })
    }
}

/// What decides a chain's random choices.
///
/// ```
/// # use logitchain_core::Seed;
/// assert_eq!("42".parse(), Ok(Seed::Fixed(42)));
/// assert_eq!("random".parse(), Ok(Seed::Random));
/// assert_eq!(Seed::default(), Seed::Fixed(42));
/// assert!("4.2".parse::<Seed>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seed {
    /// The same choices in every run.
    Fixed(u64),
    /// Drawn from the operating system when the chain is built.
    Random,
}

impl Default for Seed {
    fn default() -> Self {
        Self::Fixed(42)
    }
}

/// A seed that is neither a number nor `random`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a seed: write a whole number from 0 to {max}, or `random`", max = u64::MAX)]
pub struct SeedError(String);

impl FromStr for Seed {
    type Err = SeedError;

    fn from_str(text: &str) -> Result<Self, SeedError> {
        match text {
            "random" => Ok(Self::Random),
            _ => text.parse().map(Self::Fixed).map_err(|_| SeedError(text.to_owned())),
        }
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(seed) => seed.fmt(f),
            Self::Random => f.write_str("random"),
        }
    }
}

impl Serialize for Seed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            // TOML's whole numbers end at 2^63 - 1; beyond that, digits in quotes.
            Self::Fixed(seed) if i64::try_from(*seed).is_ok() => serializer.serialize_u64(*seed),
            _ => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for Seed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Seed;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a seed: a whole number from 0, or \"random\"")
            }

            fn visit_i64<E: de::Error>(self, seed: i64) -> Result<Seed, E> {
                u64::try_from(seed)
                    .map(Seed::Fixed)
                    .map_err(|_| E::custom(SeedError(seed.to_string())))
            }

            fn visit_u64<E: de::Error>(self, seed: u64) -> Result<Seed, E> {
                Ok(Seed::Fixed(seed))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Seed, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

impl Seed {
    /// The number itself; a random one is drawn from the operating system, and
    /// differs at every call. It has 32 bits, so that it serves every generator
    /// when it is given again.
    ///
    /// # Errors
    ///
    /// If the operating system has no random numbers to give.
    pub fn resolve(self) -> Result<u64, ChainError> {
        match self {
            Self::Fixed(seed) => Ok(seed),
            Self::Random => SysRng.try_next_u32().map(u64::from).map_err(|_| ChainError::Entropy),
        }
    }
}

/// A stage's own stream of random numbers.
///
/// The numbers are part of this crate's promise: the same seed gives the same
/// text on every machine and in every later release.
#[derive(Clone, Debug)]
pub struct StageRng {
    generator: Generator,
    start: Generator,
}

#[derive(Clone, Debug)]
enum Generator {
    Xoshiro(Xoshiro256PlusPlus),
    // Boxed for its 2.5 kB of state.
    Mt(Box<Mt>),
}

impl StageRng {
    /// The stream of the `nth` stage called `name` in a chain.
    pub(crate) fn for_stage(kind: RngKind, seed: u64, name: &str, nth: u64) -> Self {
        let generator = match kind {
            RngKind::Xoshiro256PlusPlus => {
                Generator::Xoshiro(Xoshiro256PlusPlus::seed_from_u64(mix(seed, name, nth)))
            }
            // Chains refuse a seed of more than 32 bits before they come here.
            RngKind::Mt19937 => Generator::Mt(Box::new(Mt::new(seed as u32))),
        };
        Self { start: generator.clone(), generator }
    }

    /// Starts the stream over.
    pub fn reset(&mut self) {
        self.generator = self.start.clone();
    }

    /// Whether the stream is llama.cpp's, whose stages differ in when they draw.
    pub fn is_mt19937(&self) -> bool {
        matches!(self.generator, Generator::Mt(_))
    }

    /// The next raw word: 64 random bits, or 32 in the low half for mt19937.
    pub fn word(&mut self) -> u64 {
        watch::unknown();
        match &mut self.generator {
            Generator::Xoshiro(rng) => rng.next_u64(),
            Generator::Mt(rng) => u64::from(rng.next_u32()),
        }
    }

    /// The next number, uniform in `0.0..1.0`.
    ///
    /// # Precision
    ///
    /// 53 random bits. For mt19937 two words make the number, the low one
    /// first, as in libstdc++'s `uniform_real_distribution<double>`.
    pub fn uniform(&mut self) -> f64 {
        watch::unknown();
        self.uniform_unseen()
    }

    /// The same where what becomes of the number is known.
    pub(crate) fn uniform_unseen(&mut self) -> f64 {
        const BELOW_ONE: f64 = 1.0 - f64::EPSILON / 2.0;
        match &mut self.generator {
            Generator::Xoshiro(rng) => (rng.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64),
            Generator::Mt(rng) => {
                let low = u64::from(rng.next_u32());
                let high = u64::from(rng.next_u32());
                // The rounding of 64 bits to 53 can reach 1.
                (((high << 32) | low) as f64 * (1.0 / 18_446_744_073_709_551_616.0)).min(BELOW_ONE)
            }
        }
    }

    /// Tosses a coin that comes up true with the given probability.
    ///
    /// For mt19937 one word makes an `f32`, as in libstdc++'s
    /// `uniform_real_distribution<float>`, and equality counts as true, as in
    /// llama.cpp's XTC.
    pub fn coin(&mut self, probability: f64) -> bool {
        let outcome = match &mut self.generator {
            Generator::Xoshiro(_) => self.uniform_unseen() < probability,
            Generator::Mt(rng) => {
                const BELOW_ONE: f32 = 1.0 - f32::EPSILON / 2.0;
                let u = (rng.next_u32() as f32 * (1.0 / 4_294_967_296.0)).min(BELOW_ONE);
                u <= probability as f32
            }
        };
        watch::coin(probability, outcome)
    }
}

/// A number of its own for every seed, name and occurrence.
fn mix(seed: u64, name: &str, nth: u64) -> u64 {
    // FNV-1a, written out since std's hashers may change between releases.
    // The seed comes last and only by xor, so that all seeds stay distinct.
    let hash = name
        .bytes()
        .chain(nth.to_le_bytes())
        .fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    seed ^ hash
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the authors' `xoshiro256plusplus.c`, state 1, 2, 3, 4.
    #[test]
    fn xoshiro_is_the_published_generator() {
        let mut seed = [0; 32];
        for (i, word) in (1_u64..=4).enumerate() {
            seed[i * 8..][..8].copy_from_slice(&word.to_le_bytes());
        }
        let mut rng = Xoshiro256PlusPlus::from_seed(seed);
        let got: Vec<u64> = (0..4).map(|_| rng.next_u64()).collect();
        assert_eq!(got, [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386]);
    }

    /// From the C++ standard: the 10,000th word of a default mt19937 (seed 5489).
    #[test]
    fn mt19937_is_the_standard_one() {
        let mut rng = StageRng::for_stage(RngKind::Mt19937, 5489, "dist", 0);
        let last = (0..10_000).map(|_| rng.word()).last();
        assert_eq!(last, Some(4_123_659_995));
    }

    #[test]
    fn streams_differ_by_seed_name_and_occurrence_and_restart_on_reset() {
        let first =
            |seed, name, nth| StageRng::for_stage(RngKind::default(), seed, name, nth).word();
        let all = [
            first(1, "dist", 0),
            first(2, "dist", 0),
            first(1, "xtc", 0),
            first(1, "dist", 1),
            first(u64::MAX, "dist", 0),
        ];
        for (i, a) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|b| a != b));
        }
        let mut rng = StageRng::for_stage(RngKind::default(), 1, "dist", 0);
        let before = rng.uniform().to_bits();
        rng.uniform();
        rng.reset();
        assert_eq!(rng.uniform().to_bits(), before);
    }

    /// Neighbouring seeds must not give neighbouring numbers: of 200 first
    /// draws among 1,024 bins, 181.8 distinct ones are expected.
    #[test]
    fn neighbouring_seeds_give_unrelated_draws() {
        let bins: std::collections::BTreeSet<u32> = (1..=200)
            .map(|seed| {
                let u = StageRng::for_stage(RngKind::default(), seed, "dist", 0).uniform();
                (u * 1024.0) as u32
            })
            .collect();
        assert!(bins.len() >= 150, "only {} distinct draws", bins.len());
    }

    #[test]
    fn successive_draws_are_uncorrelated() {
        let mut rng = StageRng::for_stage(RngKind::default(), 7, "dist", 0);
        let us: Vec<f64> = (0..10_000).map(|_| rng.uniform() - 0.5).collect();
        let product: f64 = us.windows(2).map(|w| w[0] * w[1]).sum();
        let square: f64 = us.iter().map(|u| u * u).sum();
        assert!((product / square).abs() < 0.04);
    }

    #[test]
    fn two_random_seeds_differ() {
        let draw = || Seed::Random.resolve().expect("the system has random numbers");
        assert_ne!(draw(), draw());
    }
}
