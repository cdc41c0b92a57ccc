//! A stage of one's own, from its parameters to a chain that uses it by name.
//!
//! `cargo run --example custom_stage`

use std::collections::VecDeque;

use logitchain::{
    BuildContext, Candidates, ChainConfig, Kind, NoVocab, ParamError, Registry, Sampler, Stage,
    TokenId, register_stage,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

// The struct is what a user writes. Its doc comments are the help texts, its
// fields the parameters, its `Default` the defaults: nothing is said twice.

/// Forbid the tokens that were just written.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Cooldown {
    /// How many of the last tokens may not come again.
    #[schemars(range(max = 64))]
    tokens: u32,
}

// Every program that links this crate can now name the stage.
register_stage!(Cooldown);

impl Default for Cooldown {
    fn default() -> Self {
        Self { tokens: 1 }
    }
}

impl Stage for Cooldown {
    const NAME: &'static str = "cooldown";
    // A promise: a penalty changes single tokens, and looks at no others.
    const KIND: Kind = Kind::Penalty;

    // So configured, the stage is printed with a `?` and is not run.
    fn neutral() -> Option<Self> {
        Some(Self { tokens: 0 })
    }

    // All that can go wrong goes wrong here, before the first token.
    fn build(self, _: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> {
        ParamError::check_range("tokens", self.tokens.into(), 0.0, 64.0)?;
        Ok(Box::new(Running { memory: self.tokens as usize, recent: VecDeque::new() }))
    }
}

// What runs. `Clone` is how a chain is copied in the middle of a text.
#[derive(Clone, Debug)]
struct Running {
    memory: usize,
    recent: VecDeque<TokenId>,
}

impl Sampler for Running {
    // Once for every token that is to come.
    fn apply(&mut self, candidates: &mut Candidates<'_>) {
        for &token in &self.recent {
            candidates.update(token, |_| f32::NEG_INFINITY);
        }
    }

    // Once for every token of the text, those of the prompt too.
    fn accept(&mut self, token: TokenId) {
        self.recent.push_back(token);
        if self.recent.len() > self.memory {
            self.recent.pop_front();
        }
    }

    fn reset(&mut self) {
        self.recent.clear();
    }
}

#[allow(clippy::print_stdout, reason = "an example shows what it does")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let config = ChainConfig::from_samplers("cooldown{tokens=2};greedy")?;
    let mut chain = config.build(&Registry::linked()?, &NoVocab)?;
    println!("{chain}");

    // Scores that never change: what is left of repetition is the cooldown's.
    for _ in 0..6 {
        let token = chain.sample(&mut [0.1, 0.9, 0.5, 0.3])?;
        chain.accept(token);
        print!("{token} ");
    }
    println!();
    Ok(())
}

#[cfg(test)]
mod tests {
    use logitchain_conformance::{Trial, assert_stage_laws};

    use super::Cooldown;

    #[test]
    fn keeps_the_laws() {
        assert_stage_laws::<Cooldown>();
    }

    #[test]
    fn only_the_last_tokens_are_forbidden() {
        let trial = Trial::of(Cooldown { tokens: 2 }).after(&[0, 1, 2]);
        assert_eq!(trial.survivors(&[0.4, 0.3, 0.2, 0.1]), [0, 3]);
    }
}
