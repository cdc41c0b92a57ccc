use std::collections::BTreeSet;

use serde::{Serialize, Serializer};
use thiserror::Error;

use super::{Distribution, DistributionError};
use crate::{Chain, SampleError, TokenId};

/// Why two chains could not be compared.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("step {step}: `{chain}`")]
pub struct CompareError {
    /// Of the run, from 1.
    pub step: usize,
    /// The chain that is at fault, as it prints.
    pub chain: String,
    /// What is wrong with it.
    pub source: DistributionError,
}

/// What two chains make of the same logits.
///
/// All divergences are in bits and at least 0. In JSON an infinite one is `"inf"`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OrderDiff {
    /// The probabilities of the first chain.
    pub a: Distribution,
    /// The probabilities of the second chain.
    pub b: Distribution,
    /// The tokens that both can choose, by id.
    pub both: Vec<TokenId>,
    /// The tokens that only the first can choose, by id.
    pub only_a: Vec<TokenId>,
    /// The tokens that only the second can choose, by id.
    pub only_b: Vec<TokenId>,
    /// Half the sum of all differences of probabilities: from 0 to 1, how often the
    /// chains choose differently, at least.
    pub total_variation: f64,
    /// The sum of `a log2(a / b)`; infinite if only the first can choose some token.
    #[serde(serialize_with = "number")]
    pub kl_ab: f64,
    /// The sum of `b log2(b / a)`; infinite if only the second can choose some token.
    #[serde(serialize_with = "number")]
    pub kl_ba: f64,
    /// The mean of both chains' divergences from their average; at most 1.
    pub jensen_shannon: f64,
    /// The entropy of the first, in bits.
    pub entropy_a: f64,
    /// The entropy of the second, in bits.
    pub entropy_b: f64,
}

/// What two chains make of a run of logits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunDiff {
    /// How many steps there were.
    pub steps: usize,
    /// See [`OrderDiff::total_variation`].
    pub total_variation: Spread,
    /// See [`OrderDiff::kl_ab`].
    pub kl_ab: Spread,
    /// See [`OrderDiff::kl_ba`].
    pub kl_ba: Spread,
    /// See [`OrderDiff::jensen_shannon`].
    pub jensen_shannon: Spread,
    /// See [`OrderDiff::entropy_a`].
    pub entropy_a: Spread,
    /// See [`OrderDiff::entropy_b`].
    pub entropy_b: Spread,
    /// In what share of the steps the most likely tokens differ, from 0 to 1.
    pub best_differs: f64,
    /// In what share of the steps the tokens differ that can be chosen.
    pub kept_differs: f64,
    /// Where the chains, with the seeds that they have, would first choose different
    /// tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts_at: Option<Parting>,
}

/// Where two chains choose different tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Parting {
    /// Of the run, from 0.
    pub step: usize,
    /// What the first chooses.
    pub a: TokenId,
    /// What the second chooses.
    pub b: TokenId,
}

/// A number over the steps of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// 0 for a run without steps.
    #[serde(serialize_with = "number")]
    pub mean: f64,
    /// 0 for a run without steps.
    #[serde(serialize_with = "number")]
    pub max: f64,
}

/// JSON has no infinity.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn number<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if number.is_infinite() {
        serializer.serialize_str("inf")
    } else {
        serializer.serialize_f64(*number)
    }
}

impl Spread {
    fn of(numbers: impl Iterator<Item = f64> + Clone) -> Self {
        let count = numbers.clone().count().max(1) as f64;
        Self { mean: numbers.clone().sum::<f64>() / count, max: numbers.fold(0.0, f64::max) }
    }
}

/// The sum of `p log2(p / q)` over pairs of probabilities.
fn divergence(pairs: impl Iterator<Item = (f64, f64)>) -> f64 {
    let terms = pairs.filter(|(p, _)| *p > 0.0).map(|(p, q)| p * libm::log2(p / q));
    // Rounding can take the sum of equals below 0.
    terms.sum::<f64>().max(0.0)
}

impl OrderDiff {
    /// Compares two distributions.
    pub fn new(a: Distribution, b: Distribution) -> Self {
        let ids = |law: &Distribution| law.by_id().iter().map(|(id, _)| *id).collect();
        let (ids_a, ids_b): (BTreeSet<TokenId>, BTreeSet<TokenId>) = (ids(&a), ids(&b));
        let all: Vec<(f64, f64)> =
            ids_a.union(&ids_b).map(|id| (a.probability(*id), b.probability(*id))).collect();
        let pairs = || all.iter().copied();
        let from_mean = |p: f64, q: f64| (p, (p + q) / 2.0);
        let (mean_a, mean_b) = (
            divergence(pairs().map(|(p, q)| from_mean(p, q))),
            divergence(pairs().map(|(p, q)| from_mean(q, p))),
        );
        Self {
            both: ids_a.intersection(&ids_b).copied().collect(),
            only_a: ids_a.difference(&ids_b).copied().collect(),
            only_b: ids_b.difference(&ids_a).copied().collect(),
            total_variation: pairs().map(|(p, q)| (p - q).abs()).sum::<f64>() / 2.0,
            kl_ab: divergence(pairs()),
            kl_ba: divergence(pairs().map(|(p, q)| (q, p))),
            jensen_shannon: f64::midpoint(mean_a, mean_b),
            entropy_a: a.entropy(),
            entropy_b: b.entropy(),
            a,
            b,
        }
    }

    /// Whether the same tokens can be chosen.
    pub fn same_kept(&self) -> bool {
        self.only_a.is_empty() && self.only_b.is_empty()
    }
}

/// Compares what two chains make of the same logits, such as those of two orders of
/// the same stages. Their state stays as it is.
///
/// # Errors
///
/// As [`Chain::distribution`]; the error says which chain.
///
/// ```
/// # use logitchain_core::*;
/// # #[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
/// # struct First {}
/// # impl Sampler for First { fn apply(&mut self, c: &mut Candidates<'_>) { c.choose(c.best().id); } }
/// # impl Stage for First {
/// #     const NAME: &'static str = "first";
/// #     const KIND: Kind = Kind::Select;
/// #     fn build(self, _: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> { Ok(Box::new(self)) }
/// # }
/// # #[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
/// # struct Second {}
/// # impl Sampler for Second { fn apply(&mut self, c: &mut Candidates<'_>) { c.drop_top(1); c.choose(c.best().id); } }
/// # impl Stage for Second {
/// #     const NAME: &'static str = "second";
/// #     const KIND: Kind = Kind::Select;
/// #     fn build(self, _: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> { Ok(Box::new(self)) }
/// # }
/// # let registry = Registry::default().with::<First>()?.with::<Second>()?;
/// let first = ChainConfig::from_samplers("first")?.build(&registry, &NoVocab)?;
/// let second = ChainConfig::from_samplers("second")?.build(&registry, &NoVocab)?;
/// let diff = compare(&first, &second, &[0.5, 2.0, 1.0])?;
/// assert_eq!((&diff.only_a[..], &diff.only_b[..]), (&[TokenId(1)][..], &[TokenId(2)][..]));
/// assert_eq!((diff.total_variation, diff.kl_ab), (1.0, f64::INFINITY));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn compare(a: &Chain, b: &Chain, logits: &[f32]) -> Result<OrderDiff, CompareError> {
    compare_at(0, a, b, logits)
}

fn compare_at(
    step: usize,
    a: &Chain,
    b: &Chain,
    logits: &[f32],
) -> Result<OrderDiff, CompareError> {
    let law =
        |chain: &Chain| chain.distribution(logits).map_err(|source| at_fault(step, chain, source));
    Ok(OrderDiff::new(law(a)?, law(b)?))
}

fn at_fault(step: usize, chain: &Chain, source: DistributionError) -> CompareError {
    CompareError { step: step + 1, chain: chain.to_string(), source }
}

/// Compares two chains over a run: each step's logits, and the token that was
/// appended to the text after it, which both chains accept; `None` if it is not
/// known. The chains' own state stays as it is.
///
/// # Errors
///
/// As [`compare`]; the error says in which step.
pub fn compare_run<L: AsRef<[f32]>, T: Into<Option<TokenId>>>(
    a: &Chain,
    b: &Chain,
    run: impl IntoIterator<Item = (L, T)>,
) -> Result<RunDiff, CompareError> {
    let (mut a, mut b) = (a.clone(), b.clone());
    let (mut diffs, mut parts_at) = (Vec::new(), None);
    let mut best_differs = 0_usize;
    let mut kept_differs = 0_usize;
    let mut memory = Vec::new();
    for (step, (logits, token)) in run.into_iter().enumerate() {
        let logits = logits.as_ref();
        let diff = compare_at(step, &a, &b, logits)?;
        let mut drawn = |chain: &mut Chain| -> Result<TokenId, CompareError> {
            memory.clear();
            memory.extend_from_slice(logits);
            let token: Result<_, SampleError> = chain.sample(&mut memory);
            token.map_err(|e| at_fault(step, chain, e.into()))
        };
        let (token_a, token_b) = (drawn(&mut a)?, drawn(&mut b)?);
        let parting = Parting { step, a: token_a, b: token_b };
        parts_at = parts_at.or((token_a != token_b).then_some(parting));
        best_differs += usize::from(diff.a.best() != diff.b.best());
        kept_differs += usize::from(!diff.same_kept());
        // The distributions themselves would be much to keep of a long run.
        let OrderDiff { total_variation, kl_ab, kl_ba, jensen_shannon, .. } = diff;
        let OrderDiff { entropy_a, entropy_b, .. } = diff;
        diffs.push([total_variation, kl_ab, kl_ba, jensen_shannon, entropy_a, entropy_b]);
        if let Some(token) = token.into() {
            a.accept(token);
            b.accept(token);
        }
    }
    let spread = |at: usize| Spread::of(diffs.iter().map(|diff: &[f64; 6]| diff[at]));
    let share = |count: usize| count as f64 / diffs.len().max(1) as f64;
    Ok(RunDiff {
        steps: diffs.len(),
        total_variation: spread(0),
        kl_ab: spread(1),
        kl_ba: spread(2),
        jensen_shannon: spread(3),
        entropy_a: spread(4),
        entropy_b: spread(5),
        best_differs: share(best_differs),
        kept_differs: share(kept_differs),
        parts_at,
    })
}
