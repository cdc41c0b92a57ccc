//! A chain taken back to a checkpoint is the chain of then.

use logitchain::{Chain, ChainConfig, NoVocab, Registry, RngKind, Seed, TokenId};
use proptest::prelude::*;

const VOCABULARY: usize = 12;

fn chain(list: &str, rng: RngKind) -> Chain {
    let mut config = ChainConfig::from_samplers(list).expect("a list");
    config.rng = rng;
    config.seed = Seed::Fixed(7);
    config.build(&Registry::linked().expect("distinct names"), &NoVocab).expect("a chain")
}

/// Stages with a history: what they note is compared with a copy of the whole
/// chain, which needs no notes.
fn lists() -> impl Strategy<Value = String> {
    let windows = prop_oneof![Just("\"all\"".to_owned()), (1_u32..20).prop_map(|n| n.to_string())];
    (windows, 1_u32..4, 0_u32..3).prop_map(|(window, length, with)| {
        let dry = format!("dry{{multiplier=0.8,base=1.2,allowed_length={length},last_n={window}}}");
        let penalties = format!("penalties{{repeat=1.1,frequency=0.1,last_n={window}}}");
        match with {
            0 => format!("{dry};dist"),
            1 => format!("{penalties};temperature{{range=0.3}};mirostat_v2"),
            _ => format!("{penalties};{dry};xtc{{probability=0.5}};adaptive_p{{target=0.3}}"),
        }
    })
}

fn logits(step: u32) -> Vec<f32> {
    (0..VOCABULARY as u32).map(|id| ((id * 7 + step * 5) % 11) as f32 / 4.0).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn drafts_leave_no_trace(
        list in lists(),
        mirror in any::<bool>(),
        text in prop::collection::vec(0_u32..5, 0..80),
        drafts in prop::collection::vec((prop::collection::vec(0_u32..5, 0..40), 0_u32..3), 1..6),
    ) {
        let rng = if mirror { RngKind::Mt19937 } else { RngKind::default() };
        let mut chain = chain(&list, rng);
        text.iter().for_each(|token| chain.accept(TokenId(*token)));
        for (nth, (draft, kept)) in (0..).zip(drafts) {
            let mut copy = chain.clone();
            chain.checkpoint();
            for (step, token) in (0..).zip(draft) {
                let _ = chain.sample(&mut logits(step));
                chain.accept(TokenId(token));
            }
            prop_assert!(chain.rollback());
            prop_assert!(!chain.rollback(), "a checkpoint serves once");
            for step in 0..=kept {
                let token = copy.sample(&mut logits(nth + step));
                prop_assert_eq!(&chain.sample(&mut logits(nth + step)), &token, "of {}", list);
                if let Ok(token) = token {
                    copy.accept(token);
                    chain.accept(token);
                }
            }
        }
        // All that is to come is the same too.
        let mut copy = chain.clone();
        for step in 0..30 {
            let token = copy.sample(&mut logits(step));
            prop_assert_eq!(&chain.sample(&mut logits(step)), &token);
            copy.accept(TokenId(step % 5));
            chain.accept(TokenId(step % 5));
        }
    }
}

#[test]
fn a_later_checkpoint_replaces_an_earlier_one_and_a_reset_drops_it() {
    let mut chain = chain("penalties{frequency=1};greedy", RngKind::default());
    let best = |chain: &mut Chain| chain.sample(&mut [2.5, 2.0]).expect("a token").0;
    chain.checkpoint();
    chain.accept(TokenId(0));
    chain.checkpoint();
    chain.accept(TokenId(1));
    assert!(chain.rollback());
    // One penalty of 1 on token 0: 1.5 against 2.
    assert_eq!(best(&mut chain), 1);
    assert!(!chain.rollback());
    chain.checkpoint();
    chain.reset();
    assert!(!chain.rollback());
    assert_eq!(best(&mut chain), 0);
}

#[test]
fn another_seed_gives_what_a_chain_built_with_it_gives() {
    for rng in [RngKind::default(), RngKind::Mt19937] {
        let list = "xtc{probability=0.5};temperature;xtc{probability=0.4};dist";
        let mut config = ChainConfig::from_samplers(list).expect("a list");
        config.rng = rng;
        config.seed = Seed::Fixed(99);
        let registry = Registry::linked().expect("distinct names");
        let mut built = config.build(&registry, &NoVocab).expect("a chain");
        let mut reseeded = chain(list, rng);
        reseeded.sample(&mut logits(1)).expect("a token");
        reseeded.reseed(99).expect("a seed");
        assert_eq!(reseeded.seed(), 99);
        for step in 0..50 {
            assert_eq!(reseeded.sample(&mut logits(step)), built.sample(&mut logits(step)));
        }
    }
    let error = chain("dist", RngKind::Mt19937).reseed(1 << 32).expect_err("33 bits");
    assert!(error.to_string().contains("4294967296"), "{error}");
}
