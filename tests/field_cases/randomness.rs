//! Draws: that they are spread as the probabilities say, and that a seed means
//! the same text everywhere and for ever.

use std::{cell::RefCell, collections::BTreeSet};

use logitchain::{
    BuildContext, Candidates, ChainConfig, Kind, NoVocab, ParamError, Registry, RngKind, Sampler,
    Seed, Stage, StageRng,
};

use crate::support::{drawing, ln};

thread_local! {
    static STREAM: RefCell<Option<StageRng>> = const { RefCell::new(None) };
}

/// Hand out the random stream of the stage `dist`, which it takes the name of.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct NotDist {}

impl Stage for NotDist {
    const NAME: &'static str = "dist";
    const KIND: Kind = Kind::Select;

    fn build(self, cx: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> {
        STREAM.set(Some(cx.rng()));
        Ok(Box::new(self))
    }
}

impl Sampler for NotDist {
    fn apply(&mut self, candidates: &mut Candidates<'_>) {
        candidates.choose(candidates.best().id);
    }
}

/// The numbers that `dist` draws in a chain with this seed.
fn stream(rng: RngKind, seed: u64) -> StageRng {
    let mut config = ChainConfig::from_samplers("dist").expect("a list");
    (config.rng, config.seed) = (rng, Seed::Fixed(seed));
    let registry = Registry::default().with::<NotDist>().expect("a stage");
    config.build(&registry, &NoVocab).expect("a chain");
    STREAM.take().expect("a stream")
}

/// Written down once; no update of a dependency may change them. Computed by a
/// separate program in another language, from the published algorithms:
/// xoshiro256++ seeded by SplitMix64 from the seed xor FNV-1a of the stage's
/// name and its number.
#[test]
fn a_seed_gives_these_words_on_every_machine() {
    const WORDS: [u64; 32] = [
        0x2893_256e_11ba_d94c,
        0xb247_2bfc_17ee_5fd8,
        0xcdee_2f88_2f78_0e4b,
        0x944c_3b75_0353_d1c9,
        0x68d4_17b0_d990_68e7,
        0x5870_5293_21f5_bf50,
        0xc484_77bc_6412_835e,
        0xeaa4_f8a9_9f2d_dbee,
        0x3011_fc8a_135d_349b,
        0x08c9_fb75_bbbc_21c1,
        0xb413_0819_dcec_7869,
        0x4a70_f0bc_715c_1eae,
        0xdc73_f844_de54_4e23,
        0xaad6_df87_3cdb_41bd,
        0x776f_c5ff_ec05_32d0,
        0xd493_c7d7_8870_3e7c,
        0x768f_8530_0db0_fe93,
        0xa19d_c75d_393a_4266,
        0x505e_5b16_032c_eb52,
        0xe9af_c4dd_7f66_8cfb,
        0x826e_b7c4_9770_9771,
        0xffa0_ad8e_bd41_09d2,
        0xd2e2_be4c_c57d_8170,
        0xf912_410b_6df0_b6b6,
        0xcd0a_179b_c286_8532,
        0xc602_e308_e55d_297d,
        0x0b20_ece6_04e5_6a0a,
        0xaedd_39bf_33d8_9736,
        0x49d0_01f8_6e2c_ecca,
        0xbbd2_51e9_1e63_d3aa,
        0x8ebc_31ba_7a36_e131,
        0x4401_4c0b_b2b2_6fd6,
    ];
    let mut words = stream(RngKind::default(), 1234);
    let mut numbers = words.clone();
    for word in WORDS {
        assert_eq!(words.word(), word);
        // The upper 53 bits, as a fraction.
        let u = (word >> 11) as f64 / (1_u64 << 53) as f64;
        assert_eq!(numbers.uniform().to_bits(), u.to_bits());
    }
}

/// As above, from the published mt19937: two words make a number, the low one
/// first.
#[test]
fn a_seed_gives_these_words_of_mt19937() {
    const WORDS: [u64; 8] = [
        822_569_775,
        2_137_449_171,
        2_671_936_806,
        3_512_589_365,
        1_880_026_316,
        2_629_000_564,
        3_373_089_432,
        3_312_965_625,
    ];
    let mut words = stream(RngKind::Mt19937, 1234);
    let mut numbers = words.clone();
    assert_eq!(WORDS.map(|_| words.word()), WORDS);
    for pair in WORDS.chunks(2) {
        let u = (pair[1] as f64 * 4_294_967_296.0 + pair[0] as f64) / 18_446_744_073_709_551_616.0;
        assert!((numbers.uniform() - u).abs() < 1e-15);
    }
}

/// Of 1,024 equally likely tokens, 200 draws hit 181.8 distinct ones on
/// average; neighbouring seeds gave one and the same in some engines.
#[test]
fn seeds_and_successive_draws_give_different_tokens() {
    let by_seed: BTreeSet<u32> = (1..=200)
        .map(|seed| drawing("dist", seed).sample(&mut [0.0; 1024]).expect("a token").0)
        .collect();
    assert!(by_seed.len() >= 150, "{}", by_seed.len());
    let mut chain = drawing("dist", 5);
    let by_step: BTreeSet<u32> =
        (0..200).map(|_| chain.sample(&mut [0.0; 1024]).expect("a token").0).collect();
    assert!(by_step.len() >= 150, "{}", by_step.len());
}

/// Four standard deviations of 10,000 pairs are .04.
#[test]
fn successive_tokens_are_uncorrelated() {
    let mut chain = drawing("dist", 9);
    let centred: Vec<f64> = (0..10_000)
        .map(|_| f64::from(chain.sample(&mut [0.0; 1024]).expect("a token").0) - 511.5)
        .collect();
    let products: f64 = centred.windows(2).map(|pair| pair[0] * pair[1]).sum();
    let squares: f64 = centred.iter().map(|x| x * x).sum();
    assert!((products / squares).abs() < 0.04, "{}", products / squares);
}

/// Four standard deviations of 10,000 draws: 196, 184 and 120.
#[test]
fn tokens_are_as_frequent_as_they_are_probable() {
    for list in ["dist", "shuffle;dist", "top_k{k=3};dist"] {
        let mut chain = drawing(list, 11);
        let logits = ln(&[0.6, 0.3, 0.1]);
        let mut counts = [0_i32; 3];
        for _ in 0..10_000 {
            counts[chain.sample(&mut logits.clone()).expect("a token").index()] += 1;
        }
        for (count, (expected, off)) in counts.iter().zip([(6000, 196), (3000, 184), (1000, 120)]) {
            assert!((count - expected).abs() <= off, "{list}: {counts:?}");
        }
    }
}

#[test]
fn a_seed_repeats_its_tokens_and_so_does_a_reset_chain() {
    let logits: Vec<f32> = (0..500_u32).map(|i| (i * 31 % 97) as f32 * 0.05).collect();
    let list = "top_k{k=100};xtc{probability=0.5,threshold=0.001};temperature;dist";
    let mut chain = drawing(list, 77);
    let mut run = || -> Vec<u32> {
        chain.reset();
        (0..500).map(|_| chain.sample(&mut logits.clone()).expect("a token").0).collect()
    };
    let first = run();
    assert_eq!(run(), first);
    let mut other = drawing(list, 77);
    let again: Vec<u32> =
        (0..500).map(|_| other.sample(&mut logits.clone()).expect("a token").0).collect();
    assert_eq!(again, first);
    let mut other = drawing(list, 78);
    let different: Vec<u32> =
        (0..500).map(|_| other.sample(&mut logits.clone()).expect("a token").0).collect();
    assert_ne!(different, first);
}

/// The candidates lie side by side by id, each as long as its probability; the
/// one in which the number falls is drawn. The first two numbers of the seed are
/// known from the words above: 0x2893... / 2^64 = .15850, 0xb247... = .69640.
#[test]
fn the_number_falls_into_the_drawn_token() {
    for (first, logits) in [
        // Ends at .1, .4 and 1; and at .2, .5 and 1.
        (1, ln(&[0.1, 0.3, 0.6])),
        (0, ln(&[0.2, 0.3, 0.5])),
        (0, ln(&[0.16, 0.84])),
        (1, ln(&[0.158, 0.842])),
    ] {
        for list in ["dist", "shuffle;dist", "top_p{p=0.9999};dist"] {
            let mut chain = drawing(list, 1234);
            let token = |chain: &mut logitchain::Chain| {
                chain.sample(&mut logits.clone()).expect("a token").0
            };
            assert_eq!(token(&mut chain), first, "{list}");
            assert_eq!(token(&mut chain), logits.len() as u32 - 1, "{list}");
        }
    }
}

/// The stream of a stage does not depend on what others spend, so XTC that is
/// off or never fires changes no draw.
#[test]
fn a_stage_that_does_nothing_spends_nothing() {
    let tokens = |list: &str| -> Vec<u32> {
        let mut chain = drawing(list, 3);
        (0..100).map(|_| chain.sample(&mut [1.0, 0.9, 0.8, 0.7]).expect("a token").0).collect()
    };
    let plain = tokens("dist");
    assert_eq!(tokens("xtc{probability=0};dist"), plain);
    assert_eq!(tokens("xtc{probability=0.5,threshold=0.49};dist"), plain);
    assert_eq!(tokens("top_p{p=1};temperature{t=1};penalties;dist"), plain);
}

/// `tau` is the target and `eta` the rate: an engine had them swapped for years.
/// Shares 4 : 2 : 1, so token 2 has .142857 and a surprise of log2 7 = 2.807
/// bits. The first limit is twice the target: 4 bits let it pass, 2 never do.
/// 57 of 400, and four standard deviations are 28.
#[test]
fn mirostat_aims_at_tau_and_learns_at_eta() {
    let logits = ln(&[4.0, 2.0, 1.0]);
    let draws = |tau: u32, eta: u32| {
        let list = format!("mirostat_v2{{tau={tau},eta={eta}}}");
        let third = (1..=400).filter(|seed| {
            drawing(&list, *seed).sample(&mut logits.clone()).expect("a token").0 == 2
        });
        third.count()
    };
    let n = draws(2, 1);
    assert!((29..=85).contains(&n), "{n} times");
    assert_eq!(draws(1, 2), 0);
}

/// After a draw the limit moves by eta times what the surprise was off the
/// target. Shares 4 : 2 : 1 have .807, 1.807 and 2.807 bits. From a limit of
/// 2 * 1.5 = 3 and with eta 1, a draw of token 0 moves it to 3 - (.807 - 1.5) =
/// 3.693, of token 1 to 2.693, of token 2 to 1.693: after 1 or 2, token 2 (2.807
/// bits) cannot come next, and after 2 only token 0 can.
#[test]
fn mirostat_moves_its_limit_against_the_surprise() {
    let logits = ln(&[4.0, 2.0, 1.0]);
    let mut after_two = 0;
    for seed in 1..=400 {
        let mut chain = drawing("mirostat_v2{tau=1.5,eta=1}", seed);
        let mut draw = || {
            let token = chain.sample(&mut logits.clone()).expect("a token");
            chain.accept(token);
            token.0
        };
        match (draw(), draw()) {
            (2, second) => {
                assert_eq!(second, 0);
                after_two += 1;
            }
            (1, second) => assert_ne!(second, 2),
            _ => {}
        }
    }
    assert!(after_two > 0);
}
