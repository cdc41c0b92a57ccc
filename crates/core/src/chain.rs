use std::{cell::RefCell, fmt};

use crate::{
    Candidates, Kind, Registration, RngKind, SampleError, Scratch, StagePlace, TokenId,
    candidates::Fault, registry::Built,
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
    label: String,
    kind: Kind,
    built: Built,
}

impl Link {
    pub(crate) fn new(registration: &Registration, built: Built) -> Self {
        let Registration { name, kind, .. } = *registration;
        Self { name, label: registration.label(), kind, built }
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
        &self.built.params
    }

    /// The stage's name in a printed chain, without the `?` of a neutral one.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Whether the parameters make the stage do nothing.
    pub fn is_neutral(&self) -> bool {
        self.built.neutral
    }
}

impl fmt::Display for Link {
    /// As in a printed chain: `top-k`, `?typical`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.is_neutral() { "?" } else { "" }, self.label)
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
        Self { links, rng, seed }
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
            if link.built.neutral {
                observer.skipped(position, link);
                continue;
            }
            link.built.sampler.apply(candidates);
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
        for link in self.links.iter_mut().filter(|link| !link.built.neutral) {
            link.built.sampler.accept(token);
        }
    }

    /// Returns all stages to their state after construction.
    pub fn reset(&mut self) {
        for link in &mut self.links {
            link.built.sampler.reset();
        }
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
