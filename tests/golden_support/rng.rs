//! The random words of mt19937, and the numbers made of them.

use logitchain_core::{
    BuildContext, Candidates, NoVocab, Registry, RngKind, Sampler, Scratch, StageRng,
};

use super::{
    Case, Verdict,
    data::{floats, ids, list},
};

pub(crate) fn check(case: &Case) -> Verdict {
    let seed = case.json["seed"].as_u64().expect("a seed");
    let cx = BuildContext::new(&NoVocab, RngKind::Mt19937, seed);
    let expected = case.expected();
    let same = |what: &str, same: bool| if same { Ok(()) } else { Err(format!("other {what}")) };

    let words = |from: usize, count: usize| -> Vec<u32> {
        let mut rng = cx.rng();
        (0..from + count).map(|_| rng.word() as u32).skip(from).collect()
    };
    same("words", words(0, 12) == ids(&expected["u32"]))?;
    same("words from 1872", words(1872, 4) == ids(&expected["u32_from_1872"]))?;

    let mut rng = cx.rng();
    let doubles = list(&expected["f64"]).iter().map(|v| v.as_f64().expect("a number"));
    same("f64", doubles.into_iter().all(|v| rng.uniform().to_bits() == v.to_bits()))?;

    // A coin is true from the probability on that the number is, so two
    // neighbouring probabilities pin it down.
    let (mut at, mut below) = (cx.rng(), cx.rng());
    let pinned = |v: &f32| at.coin(f64::from(*v)) && !below.coin(f64::from(v.next_down()));
    same("f32", floats(&expected["f32"]).iter().all(pinned))?;

    let wanted = ids(&expected["discrete_1_2_3_4"]);
    let mut logits = [0.1, 0.2, 0.3, 0.4_f32].map(f32::ln);
    let mut rng: StageRng = cx.rng();
    let draws = wanted.iter().map(|_| {
        let (mut logits, mut scratch) = (logits, Scratch::default());
        let mut all = Candidates::for_draws_by(RngKind::Mt19937, &mut logits, &mut scratch)
            .expect("candidates");
        all.draw(&mut rng).0
    });
    same("draws", draws.eq(wanted.iter().copied()))?;

    // A lone candidate costs mirostat no word: the draws after it are the same.
    // In its array the most likely come first, so the weights go in that order.
    logits.reverse();
    let mut mirostat = all_keeping_mirostat(&cx);
    let mut draw = |logits: &mut [f32]| {
        let mut scratch = Scratch::default();
        let mut all =
            Candidates::for_draws_by(RngKind::Mt19937, logits, &mut scratch).expect("candidates");
        mirostat.apply(&mut all);
        all.chosen().expect("a token").0
    };
    for _ in 0..5 {
        draw(&mut [0.0]);
    }
    let first = expected["u32_after_5_discrete_of_size_1"].as_u64().expect("a word") as u32;
    assert_eq!(first, words(0, 1)[0]);
    let mut fresh = cx.rng();
    let draws = wanted.iter().map(|_| {
        let (mut logits, mut scratch) = (logits, Scratch::default());
        let mut all = Candidates::for_draws_by(RngKind::Mt19937, &mut logits, &mut scratch)
            .expect("candidates");
        all.draw(&mut fresh).0
    });
    let after: Vec<u32> = wanted.iter().map(|_| draw(&mut logits.clone())).collect();
    same("draws after lone candidates", draws.eq(after))
}

/// A mirostat whose limit is out of reach and stays there.
fn all_keeping_mirostat(cx: &BuildContext<'_>) -> Box<dyn Sampler> {
    let registry = Registry::linked().expect("distinct names");
    let params = toml::Table::from_iter([
        ("tau".to_owned(), toml::Value::from(50.0)),
        ("eta".to_owned(), toml::Value::from(0.0)),
    ]);
    let stage = registry.get("mirostat_v2").expect("a stage");
    stage.build(&params, cx).expect("good parameters").sampler
}
