//! Stages as both programs take them.

use logitchain_core::{BuildContext, Registry, RngKind, StageConfig, Vocab};
use toml::Value;

/// A stage with its parameters, in llama.cpp's types.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are those of the stages' own parameters")]
pub enum Stage {
    Greedy,
    Dist { seed: u32 },
    TopK { k: i32 },
    TopP { p: f32, min_keep: usize },
    MinP { p: f32, min_keep: usize },
    Typical { p: f32, min_keep: usize },
    TopNSigma { n: f32 },
    Xtc { probability: f32, threshold: f32, min_keep: usize, seed: u32 },
    Temperature { t: f32, range: f32, exponent: f32 },
    Penalties { last_n: i32, repeat: f32, frequency: f32, presence: f32 },
    Dry { multiplier: f32, base: f32, allowed_length: i32, last_n: i32, breakers: Vec<String> },
    Mirostat { tau: f32, eta: f32, m: i32, seed: u32 },
    MirostatV2 { tau: f32, eta: f32, seed: u32 },
    AdaptiveP { target: f32, decay: f32, seed: u32 },
    LogitBias { bias: Vec<(u32, f32)> },
    Infill,
}

impl Stage {
    /// The stage in logitchain's terms.
    pub fn config(&self) -> StageConfig {
        let real = |x: &f32| Value::Float(f64::from(*x));
        let whole = |x: i64| Value::Integer(x);
        let size = |x: &usize| whole(*x as i64);
        let (name, params): (_, Vec<(&str, Value)>) = match self {
            Self::Greedy => ("greedy", vec![]),
            Self::Dist { .. } => ("dist", vec![]),
            Self::TopK { k } => ("top_k", vec![("k", whole(i64::from(*k)))]),
            Self::TopP { p, min_keep } => {
                ("top_p", vec![("p", real(p)), ("min_keep", size(min_keep))])
            }
            Self::MinP { p, min_keep } => {
                ("min_p", vec![("p", real(p)), ("min_keep", size(min_keep))])
            }
            Self::Typical { p, min_keep } => {
                ("typical", vec![("p", real(p)), ("min_keep", size(min_keep))])
            }
            Self::TopNSigma { n } => ("top_n_sigma", vec![("n", real(n))]),
            Self::Xtc { probability, threshold, min_keep, .. } => (
                "xtc",
                vec![
                    ("probability", real(probability)),
                    ("threshold", real(threshold)),
                    ("min_keep", size(min_keep)),
                ],
            ),
            Self::Temperature { t, range, exponent } => (
                "temperature",
                vec![("t", real(t)), ("range", real(range)), ("exponent", real(exponent))],
            ),
            Self::Penalties { last_n, repeat, frequency, presence } => (
                "penalties",
                vec![
                    ("last_n", whole(i64::from(*last_n))),
                    ("repeat", real(repeat)),
                    ("frequency", real(frequency)),
                    ("presence", real(presence)),
                ],
            ),
            Self::Dry { multiplier, base, allowed_length, last_n, breakers } => (
                "dry",
                vec![
                    ("multiplier", real(multiplier)),
                    ("base", real(base)),
                    ("allowed_length", whole(i64::from(*allowed_length))),
                    ("last_n", whole(i64::from(*last_n))),
                    ("breakers", breakers.clone().into()),
                ],
            ),
            Self::Mirostat { tau, eta, m, .. } => (
                "mirostat",
                vec![("tau", real(tau)), ("eta", real(eta)), ("m", whole(i64::from(*m)))],
            ),
            Self::MirostatV2 { tau, eta, .. } => {
                ("mirostat_v2", vec![("tau", real(tau)), ("eta", real(eta))])
            }
            Self::AdaptiveP { target, decay, .. } => {
                ("adaptive_p", vec![("target", real(target)), ("decay", real(decay))])
            }
            Self::LogitBias { bias } => {
                let pair = |(id, bias): &(u32, f32)| {
                    Value::Array(vec![whole(i64::from(*id)), Value::Float(f64::from(*bias))])
                };
                ("logit_bias", vec![("bias", Value::Array(bias.iter().map(pair).collect()))])
            }
            Self::Infill => ("infill", vec![]),
        };
        let config = StageConfig::new(name);
        params.into_iter().fold(config, |config, (param, value)| config.with(param, value))
    }

    /// The seed of a stage that draws.
    pub fn seed(&self) -> u32 {
        match self {
            Self::Dist { seed }
            | Self::Xtc { seed, .. }
            | Self::Mirostat { seed, .. }
            | Self::MirostatV2 { seed, .. }
            | Self::AdaptiveP { seed, .. } => *seed,
            _ => 0,
        }
    }

    /// Whether the stage settles on a token.
    pub fn selects(&self) -> bool {
        matches!(
            self,
            Self::Greedy
                | Self::Dist { .. }
                | Self::Mirostat { .. }
                | Self::MirostatV2 { .. }
                | Self::AdaptiveP { .. }
        )
    }

    /// logitchain's stage at run time, drawing as llama.cpp does; `None` if it
    /// does nothing.
    ///
    /// # Panics
    ///
    /// If logitchain refuses the parameters.
    pub fn sampler(
        &self,
        registry: &Registry,
        vocab: &dyn Vocab,
    ) -> Option<Box<dyn logitchain_core::Sampler>> {
        let config = self.config();
        let cx = BuildContext::new(vocab, RngKind::Mt19937, u64::from(self.seed()));
        let stage = registry.get(&config.name).expect("a built-in stage");
        let built = stage.build(&config.params, &cx).unwrap_or_else(|e| panic!("{self:?}: {e}"));
        (!built.neutral).then_some(built.sampler)
    }
}
