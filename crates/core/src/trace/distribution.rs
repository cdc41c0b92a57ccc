use std::collections::BTreeMap;

use serde::Serialize;
use thiserror::Error;

use super::{Record, watch};
use crate::{Candidates, Chain, Link, SampleError, Scratch, StagePlace, TokenId, chain::Observer};

/// Each coin doubles the worlds to look at.
const MAX_COINS: usize = 12;

/// With which probability each token comes next: see [`Chain::distribution`].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Distribution {
    /// Most likely first, ties by id.
    tokens: Vec<(TokenId, f64)>,
    #[serde(skip)]
    by_id: Vec<(TokenId, f64)>,
}

/// Why the probabilities of the next token cannot be told.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum DistributionError {
    /// The chain fails, at least for some random numbers.
    #[error(transparent)]
    Sample(#[from] SampleError),
    /// A stage draws random numbers itself, by `StageRng::uniform` or
    /// `StageRng::word`, draws several times, or does not choose what it drew.
    #[error(
        "stage {}, `{}`, uses random numbers in a way of its own: probabilities are known of \
         one `Candidates::draw` that chooses, and of `StageRng::coin`",
        .stage.position, .stage.name
    )]
    OwnDraw {
        /// The stage.
        stage: StagePlace,
    },
    /// The chain tosses too many coins for one token.
    #[error(
        "stage {}, `{}`, tosses a coin too many: up to {MAX_COINS} for one token can be looked at",
        .stage.position, .stage.name
    )]
    Coins {
        /// The stage that tosses one too many.
        stage: StagePlace,
    },
}

impl Distribution {
    /// Of probabilities that come from elsewhere, the index being the token id. They
    /// are divided by their sum. `None` if that is not above 0, or one is below 0 or no
    /// number.
    pub fn from_probabilities(probabilities: &[f64]) -> Option<Self> {
        let sum: f64 = probabilities.iter().sum();
        let fine = sum > 0.0 && sum.is_finite() && probabilities.iter().all(|p| *p >= 0.0);
        let some = (0..).map(TokenId).zip(probabilities).filter(|(_, p)| **p > 0.0);
        fine.then(|| Self::new(some.map(|(id, p)| (id, p / sum)).collect()))
    }

    fn new(law: BTreeMap<TokenId, f64>) -> Self {
        let by_id = Vec::from_iter(law);
        let mut tokens = by_id.clone();
        tokens.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        Self { tokens, by_id }
    }

    /// The tokens that can come, with their probabilities, most likely first; ties
    /// by id. There is one at least, and they sum to 1. A candidate so unlikely that
    /// its probability rounds to 0 is one of them.
    pub fn tokens(&self) -> &[(TokenId, f64)] {
        &self.tokens
    }

    /// The same, in order of id.
    pub fn by_id(&self) -> &[(TokenId, f64)] {
        &self.by_id
    }

    /// The probability of a token; 0 if it cannot come.
    pub fn probability(&self, token: TokenId) -> f64 {
        self.by_id.binary_search_by_key(&token, |c| c.0).map_or(0.0, |at| self.by_id[at].1)
    }

    /// Whether a token is among those that can come.
    pub fn contains(&self, token: TokenId) -> bool {
        self.by_id.binary_search_by_key(&token, |c| c.0).is_ok()
    }

    /// The most likely token; of equal ones the lowest id.
    pub fn best(&self) -> TokenId {
        self.tokens[0].0
    }

    /// The entropy, in bits.
    pub fn entropy(&self) -> f64 {
        let some = self.tokens.iter().filter(|(_, p)| *p > 0.0);
        some.map(|(_, p)| -p * libm::log2(*p)).sum::<f64>().max(0.0)
    }
}

impl Chain {
    /// The probabilities with which [`sample`](Self::sample) would choose each token
    /// next, whatever the random numbers. Nothing is drawn, and the chain's state
    /// stays as it is.
    ///
    /// Coins that stages toss by [`StageRng::coin`](crate::StageRng::coin), as XTC
    /// does, are looked at from both sides: the result is the mixture.
    ///
    /// A stage that brings random numbers from elsewhere, against the contract of
    /// [`Sampler`](crate::Sampler), cannot be noticed: it counts as if it always
    /// did what it does now.
    ///
    /// # Precision
    ///
    /// Probabilities come of the weights that a draw adds up, which are `f32`; they
    /// leave out that a draw's number has 53 bits, and a coin's of mt19937 24.
    ///
    /// # Errors
    ///
    /// If the chain fails, or a stage uses random numbers in a way whose
    /// probabilities are not known; the error names it.
    ///
    /// ```
    /// # use logitchain_core::*;
    /// # #[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    /// # struct Draw {}
    /// # #[derive(Debug, Clone)]
    /// # struct Drawing(StageRng);
    /// # impl Sampler for Drawing { fn apply(&mut self, c: &mut Candidates<'_>) { c.draw(&mut self.0); } }
    /// # impl Stage for Draw {
    /// #     const NAME: &'static str = "draw";
    /// #     const KIND: Kind = Kind::Select;
    /// #     fn build(self, cx: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> {
    /// #         Ok(Box::new(Drawing(cx.rng())))
    /// #     }
    /// # }
    /// # let registry = Registry::default().with::<Draw>()?;
    /// let chain = ChainConfig::from_samplers("draw")?.build(&registry, &NoVocab)?;
    /// let law = chain.distribution(&[0.6_f32.ln(), 0.4_f32.ln()])?;
    /// assert_eq!(law.best(), TokenId(0));
    /// assert!((law.probability(TokenId(1)) - 0.4).abs() < 1e-6);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn distribution(&self, logits: &[f32]) -> Result<Distribution, DistributionError> {
        let mut law = BTreeMap::new();
        let mut scripts = vec![Vec::new()];
        let (mut memory, mut scratch) = (logits.to_vec(), Scratch::default());
        while let Some(script) = scripts.pop() {
            memory.copy_from_slice(logits);
            let world = self.world(&script, &mut memory, &mut scratch)?;
            // The other side of every coin that could fall as it liked.
            for at in script.len()..world.coins.len() {
                let mut other: Vec<bool> = world.coins[..=at].iter().map(|c| c.outcome).collect();
                other[at] = !other[at];
                if share(&world.coins[at], other[at]) > 0.0 {
                    scripts.push(other);
                }
            }
            let weight: f64 = world.coins.iter().map(|coin| share(coin, coin.outcome)).product();
            for (token, p) in world.law {
                *law.entry(token).or_default() += weight * p;
            }
        }
        Ok(Distribution::new(law))
    }

    /// What a copy of the chain does where the first coins fall as told.
    fn world(
        &self,
        script: &[bool],
        logits: &mut [f32],
        scratch: &mut Scratch,
    ) -> Result<World, DistributionError> {
        let mut record = Record::default();
        let mut candidates = Candidates::for_draws_by(self.rng(), logits, scratch)?;
        candidates.record_in(&mut record);
        let mut check = Check { error: None, last: StagePlace { position: 0, name: "" } };
        let mut copy = self.clone();
        let (token, seen) = watch::watching(Some(script), || copy.run(&mut candidates, &mut check));
        // Before the failure of the chain: it may be the stage's own dice.
        if let Some(error) = check.error {
            return Err(error);
        }
        let token = token?;
        let law = match &record.draws[..] {
            [] => vec![(token, 1.0)],
            [draw] if draw.token == token => {
                draw.candidates().iter().map(|c| (c.id, c.probability)).collect()
            }
            _ => return Err(DistributionError::OwnDraw { stage: check.last }),
        };
        Ok(World { coins: seen.coins, law })
    }
}

/// What comes of one way in which the coins can fall.
struct World {
    coins: Vec<watch::Coin>,
    law: Vec<(TokenId, f64)>,
}

/// How often the coin falls so.
fn share(coin: &watch::Coin, outcome: bool) -> f64 {
    let p = coin.probability;
    let heads = if p > 0.0 { p.min(1.0) } else { 0.0 };
    if outcome { heads } else { 1.0 - heads }
}

/// Finds the first stage whose random numbers are its own affair.
struct Check {
    error: Option<DistributionError>,
    last: StagePlace,
}

impl Observer for Check {
    fn ran(&mut self, position: usize, link: &Link, _: &mut Candidates<'_>) {
        let stage = StagePlace { position, name: link.name() };
        let seen = watch::seen();
        if self.error.is_none() && seen.unknown > 0 {
            self.error = Some(DistributionError::OwnDraw { stage: stage.clone() });
        }
        if self.error.is_none() && seen.coins.len() > MAX_COINS {
            self.error = Some(DistributionError::Coins { stage: stage.clone() });
        }
        self.last = stage;
    }
}
