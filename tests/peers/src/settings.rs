//! Settings as a user of llama.cpp's command line gives them.

use logitchain_core::{ChainConfig, RngKind, Seed};

use crate::stages::Stage;

/// The parameters of a chain, with llama.cpp's names, types and defaults.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names are those of the flags")]
pub struct Settings {
    pub name: &'static str,
    pub seed: u32,
    pub logit_bias: Vec<(u32, f32)>,
    /// Letters of `--sampling-seq`; here `g` alone is greedy, for which llama.cpp
    /// has a sampler and no flag.
    pub order: &'static str,
    pub min_keep: usize,
    pub temp: f32,
    pub dynatemp_range: f32,
    pub dynatemp_exp: f32,
    pub top_k: i32,
    pub top_p: f32,
    pub min_p: f32,
    pub typical: f32,
    pub top_n_sigma: f32,
    pub xtc_probability: f32,
    pub xtc_threshold: f32,
    pub repeat_last_n: i32,
    pub repeat_penalty: f32,
    pub frequency_penalty: f32,
    pub presence_penalty: f32,
    pub dry_multiplier: f32,
    pub dry_base: f32,
    pub dry_allowed_length: i32,
    pub dry_penalty_last_n: i32,
    pub dry_breakers: Vec<String>,
    pub adaptive_target: f32,
    pub adaptive_decay: f32,
    pub mirostat: u32,
    pub mirostat_lr: f32,
    pub mirostat_ent: f32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            name: "default",
            seed: 42,
            logit_bias: Vec::new(),
            order: "edskypmxt",
            min_keep: 0,
            temp: 0.8,
            dynatemp_range: 0.0,
            dynatemp_exp: 1.0,
            top_k: 40,
            top_p: 0.95,
            min_p: 0.05,
            typical: 1.0,
            top_n_sigma: -1.0,
            xtc_probability: 0.0,
            xtc_threshold: 0.1,
            repeat_last_n: 64,
            repeat_penalty: 1.0,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            dry_multiplier: 0.0,
            dry_base: 1.75,
            dry_allowed_length: 2,
            dry_penalty_last_n: 64,
            dry_breakers: ["\n", ":", "\"", "*"].map(str::to_owned).to_vec(),
            adaptive_target: -1.0,
            adaptive_decay: 0.9,
            mirostat: 0,
            mirostat_lr: 0.1,
            mirostat_ent: 5.0,
        }
    }
}

impl Settings {
    /// The samplers that llama.cpp's command line makes of them.
    ///
    /// # Panics
    ///
    /// If a letter means nothing.
    pub fn chain(&self) -> Vec<Stage> {
        let seed = self.seed;
        let mut chain = Vec::new();
        if !self.logit_bias.is_empty() {
            chain.push(Stage::LogitBias { bias: self.logit_bias.clone() });
        }
        let (tau, eta) = (self.mirostat_ent, self.mirostat_lr);
        let plain = Stage::Temperature { t: self.temp, range: 0.0, exponent: 1.0 };
        match self.mirostat {
            1 => chain.extend([plain, Stage::Mirostat { tau, eta, m: 100, seed }]),
            2 => chain.extend([plain, Stage::MirostatV2 { tau, eta, seed }]),
            _ if self.order == "g" => chain.push(Stage::Greedy),
            _ => {
                let stages = self.order.chars().filter(|letter| *letter != 'a');
                chain.extend(stages.map(|letter| self.stage(letter)));
                chain.push(if self.order.contains('a') {
                    let (target, decay) = (self.adaptive_target, self.adaptive_decay);
                    Stage::AdaptiveP { target, decay, seed }
                } else {
                    Stage::Dist { seed }
                });
            }
        }
        chain
    }

    fn stage(&self, letter: char) -> Stage {
        let (seed, min_keep) = (self.seed, self.min_keep);
        match letter {
            'e' => Stage::Penalties {
                last_n: self.repeat_last_n,
                repeat: self.repeat_penalty,
                frequency: self.frequency_penalty,
                presence: self.presence_penalty,
            },
            'd' => Stage::Dry {
                multiplier: self.dry_multiplier,
                base: self.dry_base,
                allowed_length: self.dry_allowed_length,
                last_n: self.dry_penalty_last_n,
                breakers: self.dry_breakers.clone(),
            },
            's' => Stage::TopNSigma { n: self.top_n_sigma },
            'k' => Stage::TopK { k: self.top_k },
            'y' => Stage::Typical { p: self.typical, min_keep },
            'p' => Stage::TopP { p: self.top_p, min_keep },
            'm' => Stage::MinP { p: self.min_p, min_keep },
            'x' => Stage::Xtc {
                probability: self.xtc_probability,
                threshold: self.xtc_threshold,
                min_keep,
                seed,
            },
            't' => Stage::Temperature {
                t: self.temp,
                range: self.dynatemp_range,
                exponent: self.dynatemp_exp,
            },
            'i' => Stage::Infill,
            _ => panic!("no sampler has the letter {letter}"),
        }
    }

    /// The same as a chain of logitchain's that draws as llama.cpp does.
    pub fn config(&self) -> ChainConfig {
        let mut config = ChainConfig::default();
        config.seed = Seed::Fixed(u64::from(self.seed));
        config.rng = RngKind::Mt19937;
        config.stages = self.chain().iter().map(Stage::config).collect();
        config
    }
}
