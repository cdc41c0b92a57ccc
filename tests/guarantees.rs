//! What every chain promises, whatever its stages and its generator.

use std::{cell::RefCell, collections::BTreeSet, ops::Range};

use logitchain::{
    BuildContext, Candidates, Chain, ChainConfig, Kind, NoVocab, ParamError, Registry, RngKind,
    Sampler, Seed, Stage, StageConfig, StageRng, TokenId,
};
use logitchain_conformance::NumberVocab;

mod support;

use support::left;

const VOCABULARY: usize = 600;

fn config(list: &str, rng: RngKind, seed: u64) -> ChainConfig {
    let mut config = ChainConfig::from_samplers(list).expect("a list");
    (config.rng, config.seed) = (rng, Seed::Fixed(seed));
    config
}

fn built(config: &ChainConfig) -> Chain {
    // Something must end a text, for `infill` to think about.
    let vocab = NumberVocab::new(VOCABULARY).ending_generation(&[3]);
    support::build(config, &vocab)
}

fn build(list: &str, rng: RngKind, seed: u64) -> Chain {
    built(&config(list, rng, seed))
}

/// Logits that differ from step to step, over several hundred tokens.
fn logits(step: u64) -> Vec<f32> {
    (0..VOCABULARY as u64)
        .map(|i| {
            let x = (i * 2_654_435_761 + step * 40_503).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            x as f32 / (1 << 24) as f32 * 12.0
        })
        .collect()
}

fn next(chain: &mut Chain, step: u64) -> TokenId {
    let token = chain.sample(&mut logits(step)).expect("a token");
    chain.accept(token);
    token
}

fn run(chain: &mut Chain, steps: Range<u64>) -> Vec<u32> {
    steps.map(|step| next(chain, step).0).collect()
}

/// Chains in which every built-in stage is active at least once.
const CHAINS: [&str; 9] = [
    "penalties{repeat=1.3,frequency=0.1};dry{multiplier=0.8};top_k;typical{p=0.9};top_p;min_p;temperature",
    "logit_bias{bias=[\"3+4\",\"5-inf\"]};top_n_sigma{n=1.5};xtc{probability=0.5,threshold=0.05};temperature{t=1.5}",
    "temperature{t=1.2,range=0.7};top_p{p=0.8}",
    "top_k{k=3};infill",
    "temperature;mirostat",
    "temperature;mirostat_v2",
    "min_p{p=0.02};temperature{t=0.03};adaptive_p{target=0.3}",
    "xtc{probability=0.5,threshold=0.01};xtc{probability=0.3,threshold=0.02};adaptive_p",
    "penalties{presence=0.5,last_n=\"all\"};greedy",
];

/// Every chain with every generator.
fn chains() -> impl Iterator<Item = (&'static str, RngKind)> {
    CHAINS.into_iter().flat_map(|list| RngKind::ALL.map(|(_, rng)| (list, rng)))
}

#[test]
fn the_chains_of_these_tests_have_every_built_in_stage() {
    let active: BTreeSet<_> = CHAINS
        .iter()
        .flat_map(|list| build(list, RngKind::default(), 1).stages().to_vec())
        .filter(|stage| !stage.is_neutral())
        .map(|stage| stage.name())
        .collect();
    let registry = Registry::linked().expect("distinct names");
    let built_in = registry.iter().filter(|stage| stage.origin == "logitchain-stages");
    assert_eq!(active, built_in.map(|stage| stage.name).collect());
}

#[test]
fn the_same_seed_gives_the_same_tokens_and_another_seed_others() {
    for (list, rng) in chains() {
        let tokens = |seed| run(&mut build(list, rng, seed), 0..60);
        assert_eq!(tokens(5), tokens(5), "{list}, {rng}");
        if !list.ends_with("greedy") {
            assert_ne!(tokens(5), tokens(6), "{list}, {rng}");
        }
    }
}

#[test]
fn a_clone_continues_as_the_original_would() {
    for (list, rng) in chains() {
        let whole = run(&mut build(list, rng, 5), 0..60);
        // After no step, one, and enough to fill a window of 64 with a prompt.
        for (at, prompt) in [(0, 0), (1, 0), (30, 0), (30, 50)] {
            let mut original = build(list, rng, 5);
            (0..prompt).for_each(|token| original.accept(TokenId(token)));
            let before = run(&mut original, 0..at);
            let mut copy = original.clone();
            // In turns, so that neither may touch the other.
            let both: Vec<_> = (at..60)
                .map(|step| (next(&mut original, step).0, next(&mut copy, step).0))
                .collect();
            let (originals, copies): (Vec<_>, Vec<_>) = both.into_iter().unzip();
            assert_eq!(originals, copies, "{list}, {rng}, after {prompt} and {at}");
            if prompt == 0 {
                assert_eq!([before, copies].concat(), whole, "{list}, {rng}, after {at}");
            }
        }
    }
}

#[test]
fn a_clone_between_sampling_and_accepting_continues_too() {
    for (list, rng) in chains() {
        let mut original = build(list, rng, 5);
        run(&mut original, 0..20);
        let token = original.sample(&mut logits(20)).expect("a token");
        let mut copy = original.clone();
        original.accept(token);
        copy.accept(token);
        assert_eq!(run(&mut original, 21..60), run(&mut copy, 21..60), "{list}, {rng}");
    }
}

#[test]
fn reset_equals_a_fresh_build() {
    for (list, rng) in chains() {
        let fresh = run(&mut build(list, rng, 5), 0..40);
        let mut chain = build(list, rng, 5);
        (0..70).for_each(|token| chain.accept(TokenId(token)));
        for steps in [0, 1, 40] {
            run(&mut chain, 0..steps);
            chain.reset();
            assert_eq!(run(&mut chain, 0..40), fresh, "{list}, {rng}, after {steps}");
            chain.reset();
        }
        // A token that was drawn and never accepted is forgotten as well, even
        // if the next prompt begins with it.
        let token = chain.sample(&mut logits(7)).expect("a token");
        chain.reset();
        chain.accept(token);
        let mut other = build(list, rng, 5);
        other.accept(token);
        let fresh = run(&mut other, 0..40);
        assert_eq!(run(&mut chain, 0..40), fresh, "{list}, {rng}, after a token");
    }
}

/// The first error comes before any stage, the second after some have run.
#[test]
fn reset_after_an_error_equals_a_fresh_build() {
    for (list, rng) in chains() {
        let fresh = run(&mut build(list, rng, 5), 0..30);
        let mut chain = build(list, rng, 5);
        run(&mut chain, 0..5);
        chain.sample(&mut [f32::NAN; 8]).expect_err("no numbers");
        chain.reset();
        assert_eq!(run(&mut chain, 0..30), fresh, "{list}, {rng}");
    }
    for (_, rng) in RngKind::ALL {
        let list = "xtc{probability=0.5,threshold=0.01};logit_bias{bias=[\"5-inf\"]};dist";
        let fresh = run(&mut build(list, rng, 5), 0..30);
        let mut chain = build(list, rng, 5);
        let mut only_five = [f32::NEG_INFINITY; 8];
        only_five[5] = 1.0;
        let error = chain.sample(&mut only_five).expect_err("the last token is banned");
        assert!(error.to_string().contains("logit_bias"), "{error}");
        chain.reset();
        assert_eq!(run(&mut chain, 0..30), fresh, "{list}, {rng}");
    }
}

/// Every stage with the parameters at which its documentation says that it is
/// off: what `neutral()` gives, and other such values.
fn neutral_stages() -> Vec<StageConfig> {
    let registry = Registry::linked().expect("distinct names");
    let neutral = registry.iter().filter_map(|stage| {
        let mut config = StageConfig::new(stage.name);
        config.params = stage.neutral()?;
        Some(config)
    });
    let others = [
        "penalties{last_n=0,repeat=2}",
        "dry{last_n=0,multiplier=1}",
        "top_n_sigma{n=0}",
        "top_k{k=-1}",
        "top_p{p=1,min_keep=3}",
        "min_p{p=0,min_keep=3}",
        "xtc{probability=1,threshold=0.51}",
        "xtc{probability=0,threshold=0.01}",
    ];
    let others = others.map(|list| {
        ChainConfig::from_samplers(list).expect("a list").stages.pop().expect("a stage")
    });
    neutral.chain(others).collect()
}

/// What a watched chain leaves, to the bit.
fn bits(chain: &mut Chain, step: u64) -> Vec<(u32, u32)> {
    let left = left(chain, &logits(step));
    chain.accept(TokenId(left[0].0));
    left.into_iter().map(|(id, logit)| (id, logit.to_bits())).collect()
}

#[test]
fn a_neutral_stage_anywhere_changes_no_bit() {
    let neutral = neutral_stages();
    let names: BTreeSet<_> = neutral.iter().map(|stage| stage.name.as_str()).collect();
    assert!(names.len() >= 10, "{names:?}");
    let stages =
        "penalties{repeat=1.2};top_k{k=50};xtc{probability=0.5,threshold=0.02};temperature{t=1.3}";
    for (_, rng) in RngKind::ALL {
        for end in ["probe", "dist", "mirostat", "mirostat_v2", "adaptive_p{target=0.2}"] {
            let plain = config(&format!("{stages};{end}"), rng, 9);
            let observe = |chain: &mut Chain| -> Vec<Vec<(u32, u32)>> {
                if end == "probe" {
                    (0..20).map(|step| bits(chain, step)).collect()
                } else {
                    vec![run(chain, 0..20).into_iter().map(|token| (token, 0)).collect()]
                }
            };
            let expected = observe(&mut built(&plain));
            for extra in &neutral {
                for at in 0..plain.stages.len() {
                    let mut with = plain.clone();
                    with.stages.insert(at, extra.clone());
                    let mut chain = built(&with);
                    assert!(chain.stages()[at].is_neutral(), "{with}");
                    assert!(observe(&mut chain) == expected, "{rng}: `{with}` differs");
                }
            }
        }
    }
}

/// Active stages that draw nothing.
const DRAWLESS: [&str; 11] = [
    "penalties{repeat=1.3}",
    "dry{multiplier=0.8}",
    "logit_bias{bias=[\"3+4\",\"5-inf\"]}",
    "top_n_sigma{n=1.5}",
    "top_k{k=40}",
    "typical{p=0.9}",
    "top_p{p=0.9}",
    "min_p{p=0.1}",
    "temperature{t=0.7}",
    "temperature{t=1.2,range=0.7}",
    "infill",
];

const ENDS: [&str; 4] = ["dist", "mirostat", "mirostat_v2", "adaptive_p{target=0.2}"];

/// The random streams in a chain, with how far each has come: name of the
/// stage, and what its `Debug` shows of the generator. That of mt19937 shows
/// nothing.
fn streams(list: &str, steps: u64) -> Vec<(&'static str, String)> {
    let mut chain = build(list, RngKind::Xoshiro256PlusPlus, 3);
    run(&mut chain, 0..steps);
    let all = chain.stages().iter().map(|stage| (stage.name(), format!("{stage:?}")));
    all.filter_map(|(name, text)| Some((name, text[text.find("StageRng {")?..].to_owned())))
        .collect()
}

/// Neither where the streams begin nor how they advance depends on what others
/// drop or change.
#[test]
fn adding_or_removing_a_stage_leaves_the_streams_of_built_in_stages_alone() {
    let xtc = "xtc{probability=0.5,threshold=0.02}";
    for end in ENDS {
        let base = [xtc, xtc, end];
        let expected = streams(&base.join(";"), 25);
        assert_eq!(expected.len(), 3);
        let earlier = streams(&base.join(";"), 24);
        assert!(expected.iter().zip(earlier).all(|(a, b)| *a != b), "{end}: streams advance");
        for other in DRAWLESS {
            for at in 0..base.len() {
                let mut with = base.to_vec();
                with.insert(at, other);
                assert!(streams(&with.join(";"), 25) == expected, "{with:?}");
            }
        }
        // One more of a name leaves those before it alone.
        let with = streams(&[xtc, xtc, xtc, end].join(";"), 25);
        assert!([&with[..2], &with[3..]].concat() == expected, "a third `xtc` before {end}");
    }
}

thread_local! {
    static HEARD: RefCell<Vec<(u8, u64)>> = const { RefCell::new(Vec::new()) };
}

/// Write down a word of the stage's own stream at every token.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Listener {
    /// Tells one from another.
    mark: u8,
    #[serde(skip)]
    rng: Option<StageRng>,
}

impl Stage for Listener {
    const NAME: &'static str = "listener";
    const KIND: Kind = Kind::Filter;

    fn build(mut self, cx: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> {
        self.rng = Some(cx.rng());
        Ok(Box::new(self))
    }
}

impl Sampler for Listener {
    fn apply(&mut self, _: &mut Candidates<'_>) {
        let word = self.rng.as_mut().expect("set by build").word();
        HEARD.with_borrow_mut(|heard| heard.push((self.mark, word)));
    }
}

/// The same for a stage of anybody's, with both generators, and among others
/// that draw.
#[test]
fn adding_or_removing_a_stage_leaves_the_stream_of_any_stage_alone() {
    let registry = support::registry().with::<Listener>().expect("distinct names");
    for (_, rng) in RngKind::ALL {
        let hear = |list: &[&str]| {
            let mut chain =
                config(&list.join(";"), rng, 3).build(&registry, &NoVocab).expect("a chain");
            run(&mut chain, 0..25);
            let mut heard = HEARD.take();
            heard.sort_by_key(|(mark, _)| *mark);
            heard
        };
        let base = ["listener{mark=1}", "listener{mark=2}", "greedy"];
        let expected = hear(&base);
        assert_eq!(expected.len(), 50);
        let distinct: BTreeSet<_> = expected.iter().map(|(_, word)| word).collect();
        // mt19937 begins with the same numbers in every stage.
        let streams = if rng == RngKind::Mt19937 { 1 } else { 2 };
        assert_eq!(distinct.len(), 25 * streams, "{rng}");
        for end in ENDS {
            assert!(hear(&[base[0], base[1], end]) == expected, "{rng}: {end}");
        }
        for other in DRAWLESS.into_iter().chain(["xtc{probability=0.5,threshold=0.02}", "xtc"]) {
            for at in 0..base.len() {
                let mut with = base.to_vec();
                with.insert(at, other);
                assert!(hear(&with) == expected, "{rng}: {with:?}");
            }
        }
    }
}

/// Stages that run and find nothing to do: no token has half of the
/// probability, none lies so far below the best, nothing repeats so long.
#[test]
fn a_stage_without_effect_changes_no_token() {
    let unsorting = [
        "min_p{p=1e-9}",
        "top_n_sigma{n=50}",
        "dry{multiplier=1,allowed_length=40}",
        "logit_bias{bias=[\"3+0\"]}",
    ];
    // With mt19937 a stage that sorts changes, as in llama.cpp, the order in
    // which a draw walks the candidates.
    let sorting = ["xtc{probability=1,threshold=0.5}", "top_k{k=5000}"];
    for (_, rng) in RngKind::ALL {
        for end in ["top_n_sigma{n=1};dist", "mirostat_v2", "mirostat", "adaptive_p{target=0.01}"] {
            let plain = run(&mut build(end, rng, 3), 0..30);
            let sorting = if rng == RngKind::default() { &sorting[..] } else { &[] };
            for idle in unsorting.iter().chain(sorting) {
                let mut chain = build(&format!("{idle};{end}"), rng, 3);
                assert!(!chain.stages()[0].is_neutral(), "{idle} runs");
                assert_eq!(run(&mut chain, 0..30), plain, "{rng}: `{idle};{end}`");
            }
        }
    }
}

#[test]
fn the_stages_of_one_chain_draw_unrelated_numbers() {
    // Were coin and draw the same number, a low draw would always meet an
    // active coin: with the probability 0.5, tokens from the upper half of the
    // line would never follow one. Over 200 tokens both occur with either.
    let mut chain = build("xtc{probability=0.5,threshold=0.1}", RngKind::default(), 11);
    let mut counts = [0; 4];
    for _ in 0..400 {
        // Inactive: ids 0 to 3, a quarter each. Active: only id 3 of those.
        let token = chain.sample(&mut [1.0, 1.0, 1.0, 1.0]).expect("a token").index();
        counts[token] += 1;
    }
    // Ids 0 to 2 each: 0.5 * 0.25 of 400 = 50, within four standard deviations.
    for (id, count) in counts[..3].iter().enumerate() {
        assert!((24..=76).contains(count), "token {id} was drawn {count} times");
    }
}

#[test]
fn every_u64_is_a_seed_of_its_own() {
    let seeds = [0, 1, 42, u64::from(u32::MAX), 1 << 32, u64::MAX - 1, u64::MAX];
    let runs: Vec<_> =
        seeds.iter().map(|seed| run(&mut build("", RngKind::default(), *seed), 0..20)).collect();
    for (i, a) in runs.iter().enumerate() {
        assert!(runs[i + 1..].iter().all(|b| a != b), "seed {} repeats another", seeds[i]);
    }
}

#[test]
fn a_logit_that_is_no_number_stops_the_chain_and_names_the_token() {
    let mut chain = build("temperature", RngKind::default(), 1);
    let error = |chain: &mut Chain, logits: &mut [f32]| {
        chain.sample(logits).expect_err("bad logits").to_string()
    };
    assert_eq!(error(&mut chain, &mut []), "the model gave no logits");
    let nan = "the logit of token 1 is NaN: as the model gave it";
    assert_eq!(error(&mut chain, &mut [1.0, f32::NAN, 2.0]), nan);
    // The next call works.
    assert!(chain.sample(&mut [1.0, f32::NEG_INFINITY, 2.0]).is_ok());
}

/// A stage that says what is not so.
mod liar {
    use logitchain_core::{BuildContext, Candidates, Kind, ParamError, Sampler, Stage, TokenId};
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    /// Choose a token that an earlier stage may have dropped.
    #[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    pub(crate) struct Foreign {
        /// The token.
        pub(crate) token: u32,
    }

    impl Stage for Foreign {
        const NAME: &'static str = "foreign";
        const KIND: Kind = Kind::Select;
        const LETTER: Option<char> = Some('k');

        fn build(self, _: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> {
            Ok(Box::new(self))
        }
    }

    impl Sampler for Foreign {
        fn apply(&mut self, candidates: &mut Candidates<'_>) {
            candidates.choose(TokenId(self.token));
        }
    }
}

#[test]
fn a_stage_cannot_choose_what_is_no_candidate() {
    let registry = Registry::default()
        .with::<logitchain_stages::TopK>()
        .and_then(|r| r.with::<liar::Foreign>());
    // Both claim the letter k.
    let error = registry.expect_err("a letter stands for one stage").to_string();
    assert_eq!(
        error,
        "the letter `k` stands for both `top_k` of this program and `foreign` of this program"
    );
    let registry = Registry::default().with::<liar::Foreign>().expect("one stage");
    for (token, candidate) in [(1, true), (0, false), (7, false)] {
        let config = ChainConfig::from_samplers(&format!("foreign{{token={token}}}"));
        let mut chain = config.expect("a list").build(&registry, &NoVocab).expect("a chain");
        let result = chain.sample(&mut [f32::NEG_INFINITY, 1.0]);
        match result {
            Ok(chosen) => assert!(candidate && chosen == TokenId(token)),
            Err(error) => {
                assert!(!candidate);
                let expected = format!(
                    "token {token}, which is no candidate, was selected after stage 1, `foreign`"
                );
                assert_eq!(error.to_string(), expected);
            }
        }
    }
}

#[test]
fn a_long_chain_file_is_read_in_time_proportional_to_its_length() {
    // 40,000 stages took over a minute when every key counted its line from the
    // beginning; far less than a second is needed.
    let file = "[[stage]]\nuse = \"top_k\"\nk = 4\n".repeat(40_000) + "[[stage]]\nuse = \"dist\"\n";
    let start = std::time::Instant::now();
    let config: ChainConfig = file.parse().expect("a chain file");
    assert_eq!(config.stages.len(), 40_001);
    assert!(start.elapsed().as_secs() < 20, "it took {:?}", start.elapsed());
}
