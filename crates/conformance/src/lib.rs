//! The laws of a sampling stage, as tests to call.
//!
//! A stage's test module holds the stage to all of them with one line, and adds
//! the few cases that say what this stage does and no other:
//!
//! ```
//! # use logitchain_core::{BuildContext, Candidates, Kind, ParamError, Sampler, Stage};
//! # /// Keep the two most likely tokens.
//! # #[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
//! # #[serde(default, deny_unknown_fields)]
//! # struct TopTwo {}
//! # impl Sampler for TopTwo { fn apply(&mut self, c: &mut Candidates<'_>) { c.keep_top(2); } }
//! # impl Stage for TopTwo {
//! #     const NAME: &'static str = "top_two";
//! #     const KIND: Kind = Kind::Filter;
//! #     fn build(self, _: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> { Ok(Box::new(self)) }
//! # }
//! use logitchain_conformance::{assert_stage_laws, survivors};
//!
//! assert_stage_laws::<TopTwo>();
//! assert_eq!(survivors(TopTwo {}, &[0.2, 0.5, 0.3]), [1, 2]);
//! ```
//!
//! [`Law`] lists what is asked of a stage. The stage is run by a real chain, so
//! it meets what it will meet in use. [`logits`] has inputs to measure with.
//!
//! For chains, [`assert_same_distribution`], [`assert_commutes`] and others compare
//! the exact probabilities of their tokens, and [`orders`] lists all orders of stages.

#![forbid(unsafe_code)]

mod behaviour;
mod description;
mod inputs;
mod law;
pub mod logits;
mod observe;
mod orders;
mod trial;
mod vocab;

use std::error::Error;

use logitchain_core::{BuildContext, Registration, RngKind, Stage};

use crate::law::{Verdict, Violation};
pub use crate::{
    law::Law,
    orders::{
        assert_commutes, assert_matches_distribution, assert_orders_differ,
        assert_same_distribution, orders, p_value,
    },
    trial::{Trial, distribution, survivors},
    vocab::NumberVocab,
};

/// Holds a stage to every [`Law`]: what it says of itself, and what it does,
/// over logits chosen to be hard.
///
/// It runs with its default parameters and, since the defaults of many stages
/// do nothing, with others over the ranges of all parameters that are numbers,
/// switches or words to choose from. Where a stage does nothing without a list
/// or a free text, add [`assert_laws_of`] with parameters that make it work.
///
/// # Panics
///
/// If the stage breaks a law. The message names the stage with its parameters,
/// the law, the input and the difference.
pub fn assert_stage_laws<S: Stage>() {
    let registration = Registration::of::<S>("the stage under test");
    enforce::<S>(description::check::<S>(), None);
    let inputs = inputs::hard_inputs();
    for params in inputs::variations(&registration, &registration.defaults()) {
        behave::<S>(&params, &inputs);
    }
    if let Some(neutral) = registration.neutral() {
        enforce::<S>(behaviour::check_neutral::<S>(&neutral, &inputs), Some(&neutral));
    }
}

/// Holds a stage to the laws of what it does, with parameters of the caller's
/// choice: those that make it work where numbers alone do not.
///
/// ```
/// # use logitchain_core::{BuildContext, Candidates, Kind, ParamError, Sampler, Stage, TokenId};
/// # #[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
/// # struct Ban { tokens: Vec<TokenId> }
/// # impl Sampler for Ban {
/// #     fn apply(&mut self, c: &mut Candidates<'_>) {
/// #         self.tokens.iter().for_each(|&id| c.update(id, |_| f32::NEG_INFINITY));
/// #     }
/// # }
/// # impl Stage for Ban {
/// #     const NAME: &'static str = "ban";
/// #     const KIND: Kind = Kind::Penalty;
/// #     fn build(self, _: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> { Ok(Box::new(self)) }
/// # }
/// use logitchain_conformance::assert_laws_of;
///
/// assert_laws_of(|| Ban { tokens: vec![TokenId(0), TokenId(3)] });
/// ```
///
/// # Panics
///
/// If the stage breaks a law, or rejects the parameters. Parameters may name
/// tokens below 300: inputs with a vocabulary for which the stage refuses them
/// are left out, as long as they are smaller than that.
pub fn assert_laws_of<S: Stage>(stage: impl Fn() -> S) {
    let params = match toml::Table::try_from(stage()) {
        Ok(params) => params,
        Err(e) => {
            let violation = Violation::new(Law::RoundTrips, format!("cannot be written: {e}"));
            return enforce::<S>(Err(violation), None);
        }
    };
    enforce::<S>(description::round_trip::<S>(&params), Some(&params));
    behave::<S>(&params, &inputs::hard_inputs());
}

fn behave<S: Stage>(params: &toml::Table, inputs: &[inputs::Input]) {
    enforce::<S>(behaviour::check::<S>(params, inputs), Some(params));
    let registration = Registration::of::<S>("the stage under test");
    let vocab = inputs::vocab(8);
    let built = registration.build(params, &BuildContext::new(&vocab, RngKind::default(), 1));
    if built.is_ok_and(|built| built.neutral) {
        enforce::<S>(behaviour::check_neutral::<S>(params, inputs), Some(params));
    }
}

fn enforce<S: Stage>(verdict: Verdict, params: Option<&toml::Table>) {
    if let Err(Violation { law, what }) = verdict {
        let params = params.map(|params| params.to_string().trim().replace('\n', ", "));
        let params = params.map(|params| format!(" with {{{params}}}")).unwrap_or_default();
        panic!("stage `{}`{params} breaks the law {law}: {what}", S::NAME);
    }
}

/// An error with all its causes, in one line.
fn whole(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
