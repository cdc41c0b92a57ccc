use std::{cell::RefCell, collections::BTreeMap, fmt, sync::Arc};

use crate::{
    Candidates, ChainError, Kind, Registration, RngKind, SampleError, Sampler, Scratch, StagePlace,
    StageRng, TokenId, candidates::Fault, registry::Built,
};

/// Stages in order, the last of which selects a token.
///
/// Built by [`ChainConfig::build`](crate::ChainConfig::build). Prints as
/// llama.cpp prints its chains: `logits -> top-k -> ?typical -> temp-ext ->
/// dist`, with a `?` before a stage whose parameters make it do nothing; such a
/// stage is not run.
///
/// `Clone` copies all state, random streams and history included: the copy
/// continues exactly as the original would. The memory in which candidates are
/// worked on belongs to the thread, so a chain itself holds little.
#[derive(Clone, Debug)]
pub struct Chain {
    links: Vec<Link>,
    rng: RngKind,
    seed: u64,
    /// For each stage that is run, a copy to go back to, unless it can go back
    /// itself.
    checkpoint: Option<Vec<Option<Box<dyn Sampler>>>>,
}

thread_local! {
    // No chain keeps anything here from one token to the next, so all that run
    // on a thread can use it in turn.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// A stage of a built chain.
#[derive(Clone, Debug)]
pub struct Link {
    name: &'static str,
    kind: Kind,
    neutral: bool,
    sampler: Box<dyn Sampler>,
    /// What all copies share.
    described: Arc<Described>,
}

#[derive(Debug)]
struct Described {
    label: String,
    params: toml::Table,
}

impl Link {
    pub(crate) fn new(registration: &Registration, built: Built) -> Self {
        let Registration { name, kind, .. } = *registration;
        let Built { params, neutral, sampler } = built;
        let described = Arc::new(Described { label: registration.label(), params });
        Self { name, kind, neutral, sampler, described }
    }

    /// The stage's name in chain files.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What the stage may do.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// All parameters, the defaulted ones included.
    pub fn params(&self) -> &toml::Table {
        &self.described.params
    }

    /// The stage's name in a printed chain, without the `?` of a neutral one.
    pub fn label(&self) -> &str {
        &self.described.label
    }

    /// Whether the parameters make the stage do nothing.
    pub fn is_neutral(&self) -> bool {
        self.neutral
    }
}

impl fmt::Display for Link {
    /// As in a printed chain: `top-k`, `?typical`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.is_neutral() { "?" } else { "" }, self.described.label)
    }
}

/// Who looks on while a chain runs, and changes nothing.
pub(crate) trait Observer {
    /// A neutral stage was passed over.
    fn skipped(&mut self, position: usize, link: &Link) {
        let _ = (position, link);
    }

    /// A stage has run.
    fn ran(&mut self, position: usize, link: &Link, candidates: &mut Candidates<'_>) {
        let _ = (position, link, candidates);
    }
}

/// Nobody.
impl Observer for () {}

impl Chain {
    pub(crate) fn new(links: Vec<Link>, rng: RngKind, seed: u64) -> Self {
        Self { links, rng, seed, checkpoint: None }
    }

    /// Picks the next token. Does not [`accept`](Self::accept) it.
    ///
    /// `logits` holds one score per vocabulary entry, the index being the token
    /// id; it is worked in and left overwritten.
    ///
    /// # Errors
    ///
    /// If `logits` is empty, holds a NaN or +inf, or if no candidate is left:
    /// the error names the token or the stage. The chain's state is then that
    /// of a call that stopped there; [`reset`](Self::reset) starts over.
    pub fn sample(&mut self, logits: &mut [f32]) -> Result<TokenId, SampleError> {
        // A stage that runs a chain of its own finds no memory here, and makes some.
        let mut scratch = SCRATCH.take();
        let token = self.choose(logits, &mut scratch);
        SCRATCH.set(scratch);
        token
    }

    fn choose(
        &mut self,
        logits: &mut [f32],
        scratch: &mut Scratch,
    ) -> Result<TokenId, SampleError> {
        let mut candidates = Candidates::for_draws_by(self.rng, logits, scratch)?;
        self.run(&mut candidates, &mut ())
    }

    /// Runs the stages, in sight of `observer`.
    pub(crate) fn run(
        &mut self,
        candidates: &mut Candidates<'_>,
        observer: &mut impl Observer,
    ) -> Result<TokenId, SampleError> {
        let mut last = StagePlace { position: 0, name: "" };
        for (link, position) in self.links.iter_mut().zip(1..) {
            if link.neutral {
                observer.skipped(position, link);
                continue;
            }
            link.sampler.apply(candidates);
            last = StagePlace { position, name: link.name };
            observer.ran(position, link, candidates);
            match candidates.fault() {
                None => {}
                Some(Fault::Exhausted) => {
                    return Err(SampleError::Exhausted { stage: Some(last) });
                }
                Some(Fault::NonFinite(token, value)) => {
                    return Err(SampleError::NonFinite { token, value, stage: Some(last) });
                }
            }
        }
        match candidates.chosen() {
            None => Err(SampleError::NothingSelected { stage: last }),
            Some(token) if candidates.logit(token).is_none() => {
                Err(SampleError::NotACandidate { token, stage: last })
            }
            Some(token) => Ok(token),
        }
    }

    /// Tells all stages that `token` was appended to the text: prompt tokens as
    /// well as sampled ones.
    pub fn accept(&mut self, token: TokenId) {
        self.running().for_each(|link| link.sampler.accept(token));
    }

    /// Returns all stages to their state after construction.
    pub fn reset(&mut self) {
        self.checkpoint = None;
        for link in &mut self.links {
            link.sampler.reset();
        }
    }

    /// Returns all stages to their state after construction with another seed.
    ///
    /// A clone with a seed of its own costs less than a chain built anew: what
    /// stages have prepared for the vocabulary, such as tables of breakers, is
    /// shared.
    ///
    /// # Errors
    ///
    /// If the seed does not fit the generator: mt19937's have 32 bits.
    pub fn reseed(&mut self, seed: u64) -> Result<(), ChainError> {
        self.rng.check(seed)?;
        self.seed = seed;
        let (rng, mut seen) = (self.rng, BTreeMap::<&str, u64>::new());
        for link in self.running() {
            let nth = seen.entry(link.name).or_default();
            link.sampler.reseed(StageRng::for_stage(rng, seed, link.name, *nth));
            *nth += 1;
        }
        self.reset();
        Ok(())
    }

    /// Marks the present state, for [`rollback`](Self::rollback): before tokens are
    /// sampled and accepted that may have to be taken back, as in speculative
    /// decoding.
    ///
    /// It lasts until the chain goes back, or marks another; until then some stages
    /// note what every token changes.
    pub fn checkpoint(&mut self) {
        let mut copies = self.checkpoint.take().unwrap_or_default();
        copies.clear();
        copies.extend(self.running().map(|link| {
            let noted = link.sampler.checkpoint();
            (!noted).then(|| link.sampler.clone())
        }));
        self.checkpoint = Some(copies);
    }

    /// Goes back to the last [`checkpoint`](Self::checkpoint): the text, all that
    /// stages have learned of it, and the random streams. That checkpoint is then
    /// spent.
    ///
    /// Returns whether there was one; if not, the chain stays as it is.
    #[must_use = "without a checkpoint, the chain stays as it is"]
    pub fn rollback(&mut self) -> bool {
        let Some(copies) = self.checkpoint.take() else { return false };
        for (link, copy) in self.running().zip(copies) {
            match copy {
                Some(copy) => link.sampler = copy,
                None => link.sampler.rollback(),
            }
        }
        true
    }

    /// The stages that are not neutral.
    fn running(&mut self) -> impl Iterator<Item = &mut Link> {
        self.links.iter_mut().filter(|link| !link.neutral)
    }

    /// The stages, in the order in which they run.
    pub fn stages(&self) -> &[Link] {
        &self.links
    }

    /// The seed from which the random streams were made.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The generator that the chain draws from.
    pub fn rng(&self) -> RngKind {
        self.rng
    }
}

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("logits")?;
        self.links.iter().try_for_each(|link| write!(f, " -> {link}"))
    }
}
