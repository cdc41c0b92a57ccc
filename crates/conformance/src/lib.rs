//! Laws that every sampling stage must obey, as tests to call.

#![forbid(unsafe_code)]

mod observe;
mod trial;
mod vocab;

use std::error::Error;

use logitchain_core::{Kind, Registration, RngKind, Stage};

pub use crate::{
    trial::{Trial, distribution, survivors},
    vocab::NumberVocab,
};

/// Holds a stage to the laws of its kind, with its default parameters.
///
/// # Panics
///
/// If the stage breaks a law.
pub fn assert_stage_laws<S: Stage>() {
    let registration = Registration::of::<S>("this test");
    assert!(!registration.summary().is_empty(), "`{}`: no doc comment", S::NAME);
    for param in registration.params() {
        assert!(!param.description.is_empty(), "`{}.{}`: no doc comment", S::NAME, param.name);
    }
    assert_laws_of(S::default);
}

/// Holds a stage to the laws of its kind, with the given parameters.
///
/// # Panics
///
/// If the stage breaks a law.
pub fn assert_laws_of<S: Stage>(stage: impl Fn() -> S) {
    let probs = [0.1, 0.4, 0.3, 0.2];
    let trial = || Trial::of(stage()).seeded(RngKind::default(), 1);
    let chosen = trial().after(&[0, 1, 2]).survivors(&probs);
    assert!(chosen.iter().all(|id| *id < 4), "`{}`: gains tokens", S::NAME);
    if S::KIND == Kind::Select {
        trial().choices(4, &probs);
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
