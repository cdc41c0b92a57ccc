//! No parameter is accepted and then dropped.

use std::collections::BTreeSet;

use logitchain::{ChainConfig, Kind, NoVocab, Registry, TokenId};

use crate::support::{assert_distribution, build, left, registry, softmax, watched};

/// Softmax: .579542 .260405 .117008 .043045.
const LOGITS: [f32; 4] = [2.0, 1.2, 0.4, -0.6];

/// What one parameter at a time does, in a list and in a file. All numbers are
/// softmax values; the penalties all lower the best logit to 1, by design.
#[test]
fn each_parameter_has_its_worked_effect_in_lists_and_files() {
    let two: &[(u32, f64)] = &[(0, 0.689974), (1, 0.310026)];
    let lowered: &[(u32, f64)] = &[(1, 0.410955), (0, 0.336461), (2, 0.184654), (3, 0.067930)];
    let tops: &[(u32, f64)] = &[(1, 0.619338), (2, 0.278286), (3, 0.102376)];
    let sharp: &[(u32, f64)] = &[(0, 0.801170), (1, 0.161753), (2, 0.032657), (3, 0.004420)];
    for (stage, parameters, history, expected) in [
        ("top_k", "k=2", &[][..], two),
        ("top_p", "p=0.8", &[], two),
        ("min_p", "p=0.25", &[], two),
        ("typical", "p=0.5", &[], two),
        ("top_n_sigma", "n=1", &[], two),
        ("xtc", "threshold=0.2,probability=1", &[], tops),
        ("temperature", "t=0.5", &[], sharp),
        ("penalties", "repeat=2", &[0], lowered),
        ("penalties", "presence=1", &[0], lowered),
        ("penalties", "frequency=0.5", &[0, 0], lowered),
        ("dry", "multiplier=1", &[1, 2, 0, 3, 1, 2], lowered),
        ("logit_bias", "bias=[\"0-1\"]", &[], lowered),
    ] {
        let list = watched(&format!("{stage}{{{parameters}}}"));
        // Each of these stands on a line of its own in a file.
        let lines = parameters.replace(",", "\n");
        let file = format!("[[stage]]\nuse = '{stage}'\n{lines}\n[[stage]]\nuse = 'probe'\n");
        let file: ChainConfig = file.parse().expect("a chain file");
        for mut chain in [list, build(&file, &NoVocab)] {
            history.iter().for_each(|id| chain.accept(TokenId(*id)));
            assert_distribution(&softmax(&left(&mut chain, &LOGITS)), expected);
        }
    }
}

/// What a list does over 60 steps: the candidates it leaves, or the tokens.
fn outcome(list: &str, selects: bool) -> Vec<Vec<(u32, f32)>> {
    let mut chain = if selects { crate::support::drawing(list, 3) } else { watched(list) };
    (0..60_u32)
        .map(|step| {
            let logits: Vec<f32> = (0..20)
                .map(|id| 3.0 - id as f32 * 0.4 + (step.wrapping_mul(id) % 5) as f32 * 0.3)
                .collect();
            let result = if selects {
                vec![(chain.sample(&mut logits.clone()).expect("a token").0, 0.0)]
            } else {
                left(&mut chain, &logits)
            };
            chain.accept(TokenId(step / 2 % 3));
            result
        })
        .collect()
}

/// For every parameter of every stage, two settings that differ in it alone and
/// must differ in what they do. A new parameter without a line here fails.
#[test]
fn every_parameter_of_every_stage_changes_something() {
    let settings = [
        ("adaptive_p", "target", "target=0.2", "target=0.6"),
        ("adaptive_p", "decay", "target=0.2,decay=0.1", "target=0.2,decay=0.99"),
        ("dry", "multiplier", "multiplier=1", "multiplier=2"),
        ("dry", "base", "multiplier=1,base=1.5", "multiplier=1,base=2"),
        ("dry", "allowed_length", "multiplier=1", "multiplier=1,allowed_length=3"),
        ("dry", "last_n", "multiplier=1,last_n=8", "multiplier=1,last_n=\"all\""),
        ("logit_bias", "bias", "bias=[\"1+1\"]", "bias=[\"1+2\"]"),
        ("min_p", "p", "p=0.1", "p=0.3"),
        ("min_p", "min_keep", "p=0.9", "p=0.9,min_keep=5"),
        ("mirostat", "tau", "tau=1", "tau=3"),
        ("mirostat", "eta", "tau=1,eta=0", "tau=1,eta=1"),
        ("mirostat", "m", "tau=1,m=2", "tau=1,m=20"),
        ("mirostat_v2", "tau", "tau=1", "tau=3"),
        ("mirostat_v2", "eta", "tau=1,eta=0", "tau=1,eta=1"),
        ("penalties", "last_n", "repeat=2,last_n=2", "repeat=2,last_n=\"all\""),
        ("penalties", "repeat", "repeat=2", "repeat=3"),
        ("penalties", "frequency", "frequency=1", "frequency=2"),
        ("penalties", "presence", "presence=1", "presence=2"),
        (
            "penalties",
            "order",
            "repeat=2,presence=1",
            "repeat=2,presence=1,order=\"subtract_first\"",
        ),
        ("temperature", "t", "t=0.5", "t=0.6"),
        ("temperature", "range", "t=1,range=0.2", "t=1,range=0.4"),
        ("temperature", "exponent", "t=1,range=0.5", "t=1,range=0.5,exponent=2"),
        ("top_k", "k", "k=2", "k=3"),
        ("top_n_sigma", "n", "n=1", "n=2"),
        ("top_p", "p", "p=0.5", "p=0.9"),
        ("top_p", "min_keep", "p=0.1", "p=0.1,min_keep=5"),
        ("typical", "p", "p=0.5", "p=0.9"),
        ("typical", "min_keep", "p=0.1", "p=0.1,min_keep=5"),
        ("xtc", "probability", "probability=0.3", "probability=1"),
        ("xtc", "threshold", "probability=1,threshold=0.05", "probability=1,threshold=0.2"),
        ("xtc", "min_keep", "probability=1", "probability=1,min_keep=20"),
    ];
    for (stage, param, one, other) in settings {
        let selects = registry().get(stage).is_some_and(|s| s.kind == Kind::Select);
        let outcome = |parameters: &str| outcome(&format!("{stage}{{{parameters}}}"), selects);
        assert_ne!(outcome(one), outcome(other), "{stage}.{param}");
        assert_eq!(outcome(one), outcome(one), "{stage}.{param}");
    }
    let tried: BTreeSet<(String, String)> =
        settings.iter().map(|s| (s.0.to_owned(), s.1.to_owned())).collect();
    let linked = Registry::linked().expect("no two stages share a name");
    let all: BTreeSet<(String, String)> = linked
        .iter()
        .flat_map(|s| s.params().into_iter().map(|p| (s.name.to_owned(), p.name)))
        .collect();
    let untried: Vec<_> = all.difference(&tried).collect();
    // Breakers need a vocabulary with text; they have tests of their own.
    assert_eq!(untried, [&("dry".to_owned(), "breakers".to_owned())]);
}
