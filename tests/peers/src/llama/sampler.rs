use std::{
    ffi::{CStr, CString},
    mem::ManuallyDrop,
    ptr::NonNull,
};

use llama_cpp_sys_2 as sys;

use super::Model;
use crate::stages::Stage;

/// An entry of llama.cpp's array of candidates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry {
    /// The token.
    pub id: u32,
    /// Its logit; -inf is masked.
    pub logit: f32,
}

/// One of llama.cpp's samplers.
#[derive(Debug)]
pub struct Sampler(NonNull<sys::llama_sampler>);

// SAFETY: a sampler has no ties to the thread that made it, and is used by one
// at a time, through `&mut`.
unsafe impl Send for Sampler {}

impl Sampler {
    /// The sampler that llama.cpp's command line makes for a stage.
    ///
    /// # Panics
    ///
    /// If llama.cpp makes none, or a stage needs a model and there is none.
    pub fn new(stage: &Stage, vocabulary: usize, model: Option<&Model>) -> Self {
        let n_vocab = i32::try_from(vocabulary).expect("a vocabulary that fits");
        let vocab = || model.expect("this stage needs a model").vocab();
        // SAFETY: all arguments are plain numbers, or point to what lives until
        // the call returns; llama.cpp copies what it keeps.
        let raw = unsafe {
            match stage {
                Stage::Greedy => sys::llama_sampler_init_greedy(),
                Stage::Dist { seed } => sys::llama_sampler_init_dist(*seed),
                Stage::TopK { k } => sys::llama_sampler_init_top_k(*k),
                Stage::TopP { p, min_keep } => sys::llama_sampler_init_top_p(*p, *min_keep),
                Stage::MinP { p, min_keep } => sys::llama_sampler_init_min_p(*p, *min_keep),
                Stage::Typical { p, min_keep } => sys::llama_sampler_init_typical(*p, *min_keep),
                Stage::TopNSigma { n } => sys::llama_sampler_init_top_n_sigma(*n),
                Stage::Xtc { probability, threshold, min_keep, seed } => {
                    sys::llama_sampler_init_xtc(*probability, *threshold, *min_keep, *seed)
                }
                Stage::Temperature { t, range, exponent } => {
                    sys::llama_sampler_init_temp_ext(*t, *range, *exponent)
                }
                Stage::Penalties { last_n, repeat, frequency, presence } => {
                    sys::llama_sampler_init_penalties(
                        n_vocab, *last_n, *repeat, *frequency, *presence,
                    )
                }
                Stage::Dry { multiplier, base, allowed_length, last_n, breakers } => {
                    let texts: Vec<CString> = breakers
                        .iter()
                        .map(|text| CString::new(text.as_str()).expect("no zero in a breaker"))
                        .collect();
                    let mut pointers: Vec<_> = texts.iter().map(|text| text.as_ptr()).collect();
                    // The vocabulary is only asked about breakers.
                    let vocab = if breakers.is_empty() { std::ptr::null() } else { vocab() };
                    sys::llama_sampler_init_dry(
                        vocab,
                        *multiplier,
                        *base,
                        *allowed_length,
                        *last_n,
                        pointers.as_mut_ptr(),
                        pointers.len(),
                    )
                }
                Stage::Mirostat { tau, eta, m, seed } => {
                    sys::llama_sampler_init_mirostat(n_vocab, *seed, *tau, *eta, *m)
                }
                Stage::MirostatV2 { tau, eta, seed } => {
                    sys::llama_sampler_init_mirostat_v2(*seed, *tau, *eta)
                }
                Stage::AdaptiveP { target, decay, seed } => {
                    sys::llama_sampler_init_adaptive_p(*target, *decay, *seed)
                }
                Stage::LogitBias { bias } => {
                    let list: Vec<_> = bias
                        .iter()
                        .map(|&(token, bias)| sys::llama_logit_bias { token: token as i32, bias })
                        .collect();
                    let count = i32::try_from(list.len()).expect("a list that fits");
                    sys::llama_sampler_init_logit_bias(n_vocab, count, list.as_ptr())
                }
                Stage::Infill => sys::llama_sampler_init_infill(vocab()),
            }
        };
        Self(NonNull::new(raw).expect("llama.cpp makes the sampler"))
    }

    /// The name that llama.cpp prints.
    pub fn name(&self) -> String {
        // SAFETY: the sampler is alive, and its name a string that it owns.
        unsafe { CStr::from_ptr(sys::llama_sampler_name(self.0.as_ptr())) }
            .to_string_lossy()
            .into_owned()
    }

    /// Tells the sampler that a token was appended to the text.
    pub fn accept(&mut self, token: u32) {
        // SAFETY: the sampler is alive.
        unsafe { sys::llama_sampler_accept(self.0.as_ptr(), token as i32) }
    }

    /// Returns the sampler to its state after construction.
    pub fn reset(&mut self) {
        // SAFETY: the sampler is alive.
        unsafe { sys::llama_sampler_reset(self.0.as_ptr()) }
    }

    /// Lets the sampler edit an array that has not been sorted. What it selects
    /// is returned; what it masks stays in the array.
    pub fn apply(&mut self, entries: &mut Vec<Entry>, sorted: &mut bool) -> Option<u32> {
        let mut data: Vec<_> = entries
            .iter()
            .map(|e| sys::llama_token_data { id: e.id as i32, logit: e.logit, p: 0.0 })
            .collect();
        let mut array = sys::llama_token_data_array {
            data: data.as_mut_ptr(),
            size: data.len(),
            selected: -1,
            sorted: *sorted,
        };
        // SAFETY: the array describes `data`, which outlives the call. A sampler
        // may move `data` forward and shrink `size`, always within it.
        let left = unsafe {
            sys::llama_sampler_apply(self.0.as_ptr(), &raw mut array);
            std::slice::from_raw_parts(array.data, array.size)
        };
        let selected = usize::try_from(array.selected).ok().map(|at| left[at].id as u32);
        *sorted = array.sorted;
        entries.clear();
        entries.extend(left.iter().map(|d| Entry { id: d.id as u32, logit: d.logit }));
        selected
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        // SAFETY: the sampler is alive, and nothing uses it afterwards.
        unsafe { sys::llama_sampler_free(self.0.as_ptr()) }
    }
}

/// A chain of samplers in llama.cpp's hands.
#[derive(Debug)]
pub struct Chain {
    chain: Sampler,
    /// The array that llama.cpp keeps with a chain.
    array: Vec<sys::llama_token_data>,
}

impl Chain {
    /// A chain of the samplers that llama.cpp makes for stages.
    ///
    /// # Panics
    ///
    /// If llama.cpp makes none, or a stage needs a model.
    pub fn new(stages: &[Stage], vocabulary: usize) -> Self {
        // SAFETY: the parameters are plain.
        let raw =
            unsafe { sys::llama_sampler_chain_init(sys::llama_sampler_chain_default_params()) };
        let chain = Sampler(NonNull::new(raw).expect("llama.cpp makes the chain"));
        for stage in stages {
            let sampler = ManuallyDrop::new(Sampler::new(stage, vocabulary, None));
            // SAFETY: both are alive; the chain is now the sampler's owner.
            unsafe { sys::llama_sampler_chain_add(chain.0.as_ptr(), sampler.0.as_ptr()) }
        }
        Self { chain, array: Vec::new() }
    }

    /// Tells the chain that a token was appended to the text.
    pub fn accept(&mut self, token: u32) {
        self.chain.accept(token);
    }

    /// What `llama_sampler_sample` does with a model's logits: they are written
    /// to the chain's array, and the chain selects from it.
    ///
    /// # Panics
    ///
    /// If the chain selects nothing.
    pub fn sample(&mut self, logits: &[f32]) -> u32 {
        self.array.resize(logits.len(), sys::llama_token_data { id: 0, logit: 0.0, p: 0.0 });
        for ((id, entry), &logit) in (0..).zip(&mut self.array).zip(logits) {
            *entry = sys::llama_token_data { id, logit, p: 0.0 };
        }
        let mut array = sys::llama_token_data_array {
            data: self.array.as_mut_ptr(),
            size: self.array.len(),
            selected: -1,
            sorted: false,
        };
        // SAFETY: the array describes `self.array`, which outlives the call. A
        // sampler may move `data` forward and shrink `size`, always within it.
        let left = unsafe {
            sys::llama_sampler_apply(self.chain.0.as_ptr(), &raw mut array);
            std::slice::from_raw_parts(array.data, array.size)
        };
        left[usize::try_from(array.selected).expect("the last sampler selects")].id as u32
    }
}

/// The token that a chain of samplers selects from logits, as llama.cpp's own
/// sampling call does it: one array through all of them, masked entries and all.
///
/// # Panics
///
/// If the last sampler selects nothing.
pub fn sample(chain: &mut [Sampler], logits: &[f32]) -> u32 {
    let mut entries: Vec<Entry> =
        (0..).zip(logits).map(|(id, &logit)| Entry { id, logit }).collect();
    let mut sorted = false;
    let mut selected = None;
    for sampler in chain {
        selected = sampler.apply(&mut entries, &mut sorted).or(selected);
    }
    selected.expect("the last sampler selects")
}
