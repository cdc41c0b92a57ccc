//! What a trial says is what a chain does.

use logitchain_conformance::{NumberVocab, Trial, distribution, survivors};
use logitchain_core::{
    BuildContext, Candidates, ChainConfig, Kind, ParamError, Registry, RngKind, Sampler, Seed,
    Stage, StageRng, TokenId,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Draw a token.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Draw {}

#[derive(Clone, Debug)]
struct Drawing(StageRng);

impl Stage for Draw {
    const NAME: &'static str = "draw";
    const KIND: Kind = Kind::Select;

    fn build(self, cx: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> {
        Ok(Box::new(Drawing(cx.rng())))
    }
}

impl Sampler for Drawing {
    fn apply(&mut self, candidates: &mut Candidates<'_>) {
        candidates.draw(&mut self.0);
    }

    fn reset(&mut self) {
        self.0.reset();
    }
}

/// Drop the tokens that end a generation, and those that were accepted.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct GoOn {}

#[derive(Clone, Debug)]
struct GoingOn(Vec<TokenId>);

impl Stage for GoOn {
    const NAME: &'static str = "go_on";
    const KIND: Kind = Kind::Penalty;

    fn build(self, cx: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> {
        let all = (0..cx.vocab().size() as u32).map(TokenId);
        Ok(Box::new(GoingOn(all.filter(|id| cx.vocab().is_end_of_generation(*id)).collect())))
    }
}

impl Sampler for GoingOn {
    fn apply(&mut self, candidates: &mut Candidates<'_>) {
        self.0.iter().for_each(|&id| candidates.update(id, |_| f32::NEG_INFINITY));
    }

    fn accept(&mut self, token: TokenId) {
        self.0.push(token);
    }
}

#[test]
fn a_trial_chooses_what_a_chain_chooses() {
    let probs = [0.1, 0.2, 0.3, 0.4];
    for (_, rng) in RngKind::ALL {
        let mut config: ChainConfig = "samplers = 'draw'".parse().expect("a chain");
        config.rng = rng;
        config.seed = Seed::Fixed(5);
        let registry = Registry::default().with::<Draw>().expect("one stage");
        let mut chain = config.build(&registry, &NumberVocab::new(4)).expect("a chain");
        let expected: Vec<u32> =
            (0..20).map(|_| chain.sample(&mut probs.map(f32::ln)).expect("a token").0).collect();
        assert_eq!(Trial::of(Draw {}).seeded(rng, 5).choices(20, &probs), expected);
    }
}

#[test]
fn vocabulary_and_history_reach_the_stage() {
    let probs = [0.4, 0.3, 0.2, 0.1];
    assert_eq!(survivors(GoOn {}, &probs), [0, 1, 2, 3]);
    let vocab = NumberVocab::new(4).ending_generation(&[1]);
    assert_eq!(Trial::of(GoOn {}).in_vocab(vocab).after(&[3]).survivors(&probs), [0, 2]);
}

#[test]
fn probabilities_are_those_of_the_survivors() {
    let logits = [0.5_f32.ln(), 0.2_f32.ln(), 0.3_f32.ln()];
    let left = Trial::of(GoOn {}).after(&[0]).distribution(&logits);
    let ids: Vec<u32> = left.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, [2, 1]);
    assert!((left[0].1 - 0.6).abs() < 1e-6 && (left[1].1 - 0.4).abs() < 1e-6, "{left:?}");
    let sum: f64 = distribution(GoOn {}, &logits).iter().map(|(_, p)| p).sum();
    assert!((sum - 1.0).abs() < 1e-12);
}

#[test]
#[should_panic(expected = "`go_on`: no candidates are left after stage 1, `go_on`")]
fn a_trial_that_leaves_nothing_says_so() {
    Trial::of(GoOn {}).after(&[0, 1]).survivors(&[0.5, 0.5]);
}
