//! The programs that are measured, behind one trait. Each is asked in the way
//! that its documentation shows, from the same slice of logits: what it makes
//! of them first belongs to its time. Each draws by the generator that it has
//! or asks for.
//!
//! mistralrs-core, 0.8, is not among them: its `Sampler` is in a private module.

use candle_core::{Device, Tensor};
use candle_transformers::generation::{LogitsProcessor, Sampling};
use llm_samplers::prelude as llm;
use logitchain_core::{Chain, ChainConfig, NoVocab, Registry, Seed, TokenId};
use logitchain_peers::{llama, stages::Stage};
use rand_08::SeedableRng;
use rten_generate::{
    Logits,
    filter::{self as rten, LogitsFilter},
    sampler::{ArgMax, Multinomial},
};
use token_sampling as ts;

pub(crate) const SEED: u32 = 42;

/// A program with a chain.
pub(crate) trait Program {
    /// A token was appended to the text.
    fn accept(&mut self, token: u32);

    /// The next token, which is not appended.
    fn sample(&mut self, logits: &mut [f32]) -> u32;
}

/// Why a program's tokens are not expected to be spread like logitchain's.
pub(crate) type Note = Option<&'static str>;

/// What makes a program for a chain, if it has all of the chain's stages.
type Make = fn(&[Stage], usize) -> Option<(Box<dyn Program>, Note)>;

/// The columns of the table; ratios are to the first one.
pub(crate) const PROGRAMS: [(&str, Make); 6] = [
    ("logitchain", ours),
    ("llama.cpp", llama_cpp),
    ("token-sampling", token_sampling),
    ("llm-samplers", llm_samplers),
    ("candle", candle),
    ("rten", rten_generate),
];

fn ours(stages: &[Stage], _: usize) -> Option<(Box<dyn Program>, Note)> {
    let mut config = ChainConfig::default();
    config.seed = Seed::Fixed(SEED.into());
    config.stages = stages.iter().map(Stage::config).collect();
    let registry = Registry::linked().expect("distinct names");
    Some((Box::new(config.build(&registry, &NoVocab).expect("a chain")), None))
}

impl Program for Chain {
    fn accept(&mut self, token: u32) {
        self.accept(TokenId(token));
    }

    fn sample(&mut self, logits: &mut [f32]) -> u32 {
        self.sample(logits).expect("a token").0
    }
}

fn llama_cpp(stages: &[Stage], vocabulary: usize) -> Option<(Box<dyn Program>, Note)> {
    Some((Box::new(llama::Chain::new(stages, vocabulary)), None))
}

impl Program for llama::Chain {
    fn accept(&mut self, token: u32) {
        self.accept(token);
    }

    fn sample(&mut self, logits: &mut [f32]) -> u32 {
        self.sample(logits)
    }
}

/// `token-sampling` is given the text at each token.
struct TokenSampling {
    chain: ts::SamplerChain,
    text: Vec<u32>,
    rng: ts::SplitMix64,
}

fn token_sampling(stages: &[Stage], _: usize) -> Option<(Box<dyn Program>, Note)> {
    let mut chain = ts::SamplerChain::new();
    for stage in stages {
        chain.push_dyn(match *stage {
            Stage::Greedy => Box::new(ts::Greedy),
            Stage::Dist { .. } => Box::new(ts::Dist),
            Stage::TopK { k } => Box::new(ts::TopK { k }),
            Stage::TopP { p, min_keep } => Box::new(ts::TopP { p, min_keep }),
            Stage::MinP { p, min_keep } => Box::new(ts::MinP { p, min_keep }),
            Stage::Typical { p, min_keep } => Box::new(ts::Typical { p, min_keep }),
            Stage::Temperature { t, range, exponent } => {
                Box::new(ts::DynTemperature { t, delta: range, exponent })
            }
            Stage::Penalties { last_n, repeat, frequency, presence } => {
                Box::new(ts::Penalties { last_n, repeat, freq: frequency, presence })
            }
            Stage::Dry { multiplier, base, allowed_length, last_n, .. } => {
                let breakers = Vec::new();
                Box::new(ts::Dry { multiplier, base, allowed_length, last_n, breakers })
            }
            Stage::MirostatV2 { tau, eta, .. } => Box::new(ts::MirostatV2::new(tau, eta)),
            _ => return None,
        });
    }
    let rng = ts::SplitMix64::new(SEED.into());
    Some((Box::new(TokenSampling { chain, text: Vec::new(), rng }), None))
}

impl Program for TokenSampling {
    fn accept(&mut self, token: u32) {
        self.text.push(token);
    }

    fn sample(&mut self, logits: &mut [f32]) -> u32 {
        self.chain.sample(logits, &self.text, &mut self.rng).expect("a token")
    }
}

struct LlmSamplers {
    chain: llm::SamplerChain,
    resources: llm::SimpleSamplerResources,
}

fn llm_samplers(stages: &[Stage], _: usize) -> Option<(Box<dyn Program>, Note)> {
    let mut chain = llm::SamplerChain::new();
    let mut note = None;
    for stage in stages {
        match *stage {
            Stage::Greedy => chain.push_sampler(llm::SampleGreedy::new()),
            Stage::Dist { .. } => chain.push_sampler(llm::SampleRandDistrib::new()),
            Stage::TopK { k } => {
                chain.push_sampler(llm::SampleTopK::new(usize::try_from(k).ok()?, 1))
            }
            Stage::TopP { p, .. } => chain.push_sampler(llm::SampleTopP::new(p, 1)),
            Stage::MinP { p, .. } => chain.push_sampler(llm::SampleMinP::new(p, 1)),
            Stage::Typical { p, .. } => chain.push_sampler(llm::SampleLocallyTypical::new(p, 1)),
            Stage::Temperature { t, range: 0.0, .. } => {
                chain.push_sampler(llm::SampleTemperature::new(t))
            }
            Stage::Penalties { last_n, repeat, frequency, presence } => {
                let last_n = usize::try_from(last_n).ok()?;
                chain.push_sampler(llm::SampleRepetition::new(repeat, last_n));
                chain.push_sampler(llm::SampleFreqPresence::new(frequency, presence, last_n))
            }
            Stage::MirostatV2 { tau, eta, .. } => {
                note = Some("keeps only one token once its limit is above all surprises");
                chain.push_sampler(llm::SampleMirostat2::new(tau, eta))
            }
            _ => return None,
        };
    }
    let rng = rand_08::rngs::StdRng::seed_from_u64(SEED.into());
    let resources = llm::SimpleSamplerResources::new(Some(Box::new(rng)), Some(Vec::new()));
    Some((Box::new(LlmSamplers { chain, resources }), note))
}

impl Program for LlmSamplers {
    fn accept(&mut self, token: u32) {
        use llm::HasSamplerResources;
        self.resources.with_last_tokens_mut(&mut |text| text.push(token)).expect("a text");
    }

    fn sample(&mut self, logits: &mut [f32]) -> u32 {
        use llm::Sampler;
        let mut logits = llm::Logits::try_from_iter(logits.iter().copied()).expect("numbers");
        self.chain
            .sample_token(&mut self.resources, &mut logits)
            .expect("no error")
            .expect("a token")
    }
}

fn candle(stages: &[Stage], _: usize) -> Option<(Box<dyn Program>, Note)> {
    let (sampling, note) = match *stages {
        [Stage::Greedy] => (Sampling::ArgMax, None),
        [Stage::Temperature { t, range: 0.0, .. }, Stage::Dist { .. }] => {
            (Sampling::All { temperature: t.into() }, None)
        }
        [Stage::TopP { p, .. }, Stage::Temperature { t, range: 0.0, .. }, Stage::Dist { .. }] => (
            Sampling::TopP { p: p.into(), temperature: t.into() },
            Some("applies the temperature first, so that it keeps fewer tokens"),
        ),
        _ => return None,
    };
    Some((Box::new(LogitsProcessor::from_sampling(SEED.into(), sampling)), note))
}

impl Program for LogitsProcessor {
    fn accept(&mut self, _: u32) {}

    fn sample(&mut self, logits: &mut [f32]) -> u32 {
        let logits = Tensor::from_slice(logits, logits.len(), &Device::Cpu).expect("a tensor");
        self.sample(&logits).expect("a token")
    }
}

struct Rten<S> {
    filters: rten::Chain,
    sampler: S,
}

fn rten_generate(stages: &[Stage], _: usize) -> Option<(Box<dyn Program>, Note)> {
    let filters = rten::Chain::new();
    let drawing =
        |filters| Box::new(Rten { filters, sampler: Multinomial::with_seed(SEED.into()) });
    match *stages {
        [Stage::Greedy] => Some((Box::new(Rten { filters, sampler: ArgMax::new() }), None)),
        [Stage::Temperature { t, range: 0.0, .. }, Stage::Dist { .. }] => {
            Some((drawing(filters.temperature(t)), None))
        }
        [Stage::TopP { p, .. }, Stage::Temperature { t, range: 0.0, .. }, Stage::Dist { .. }] => {
            // Without it, logits would be summed as if they were probabilities.
            let top_p = rten::TopP::new(p).normalize(true);
            Some((
                drawing(filters.append(top_p).temperature(t)),
                Some("draws by the softmax of probabilities, which is nearly even"),
            ))
        }
        _ => None,
    }
}

impl<S: rten_generate::sampler::Sampler> Program for Rten<S> {
    fn accept(&mut self, _: u32) {}

    fn sample(&mut self, logits: &mut [f32]) -> u32 {
        let logits = Logits::dense(logits.to_vec());
        self.sampler.sample(&self.filters.filter(logits, &[]))
    }
}
