//! Every chain file in `chains/` builds, says where it comes from, and draws.

use std::{fs, path::Path};

use logitchain_core::{ChainConfig, ChainError, NoVocab, Registry};
use logitchain_stages as _;

fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of chain files") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else {
            files.push(path);
        }
    }
    files.sort();
    files
}

#[test]
fn every_shipped_chain_builds_names_its_source_and_repeats() {
    let registry = Registry::linked().expect("distinct names");
    let all = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("chains"));
    assert!(all.len() >= 70, "only {} chain files", all.len());
    for path in all {
        let name = path.display();
        let text = fs::read_to_string(&path).expect("a readable file");
        let config: ChainConfig = text.parse().unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(config.title.is_some(), "{name} has no title");
        assert!(config.source.is_some(), "{name} does not say where its values come from");
        let mut chain = config.build(&registry, &NoVocab).unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut draw = || {
            let tokens: Vec<u32> = (0..8)
                .map(|_| {
                    let mut logits: Vec<f32> =
                        (0..50).map(|i| ((i * 37) % 50) as f32 / 5.0).collect();
                    let token = chain.sample(&mut logits).unwrap_or_else(|e| panic!("{name}: {e}"));
                    chain.accept(token);
                    token.0
                })
                .collect();
            chain.reset();
            tokens
        };
        assert_eq!(draw(), draw(), "{name} does not repeat");
    }
}

#[test]
fn the_default_chain_file_is_the_default_order_with_the_default_values() {
    let registry = Registry::linked().expect("distinct names");
    let file: ChainConfig = include_str!("../chains/llama-cpp.toml").parse().expect("a chain file");
    let file = file.build(&registry, &NoVocab).expect("a chain");
    let list = ChainConfig::from_samplers(logitchain_stages::DEFAULT_ORDER).expect("a list");
    let list = list.build(&registry, &NoVocab).expect("a chain");
    // The line that llama.cpp prints for its defaults.
    let line = "logits -> ?penalties -> ?dry -> ?top-n-sigma -> top-k -> ?typical -> top-p -> \
                min-p -> ?xtc -> temp-ext -> dist";
    assert_eq!(file.to_string(), line);
    assert_eq!(list.to_string(), line);
    for (a, b) in file.stages().iter().zip(list.stages()) {
        assert_eq!((a.name(), a.params()), (b.name(), b.params()));
    }
    // llama.cpp's letters for the same order.
    let letters = ChainConfig::from_letters("edskypmxt", &registry).expect("letters");
    assert_eq!(letters.build(&registry, &NoVocab).expect("a chain").to_string(), line);
}

/// An error with all its causes, as a user sees it.
fn report(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |e| e.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn message(text: &str) -> String {
    let build = || -> Result<_, ChainError> {
        text.parse::<ChainConfig>()?.build(&Registry::linked()?, &NoVocab)
    };
    report(&build().expect_err("a wrong chain"))
}

#[test]
fn messages_say_where_what_was_written_and_what_would_be_right() {
    for (text, expected) in [
        (
            "seed = 1\n[[stage]]\nuse = \"top_j\"",
            "line 3, stage 1: no stage is called `top_j`; did you mean `top_k`? (there are \
             adaptive_p, dist, dry, greedy, infill, logit_bias, min_p, mirostat, mirostat_v2, \
             penalties, temperature, top_k, top_n_sigma, top_p, typical, xtc)",
        ),
        (
            "[[stage]]\nuse = \"top_k\"\nkk = 3\n[[stage]]\nuse = \"dist\"",
            "line 3, stage 1, `top_k`: no parameter is called `kk`; did you mean `k`? (it has k)",
        ),
        (
            "[[stage]]\nuse = \"dist\"\nk = 3",
            "line 3, stage 1, `dist`: no parameter is called `k` (it has none)",
        ),
        (
            "[[stage]]\nuse = \"Min-P\"\n\np = 1.5\n[[stage]]\nuse = \"dist\"",
            "line 4, stage 1, `min_p`: `p` must be between 0 and 1, got 1.5",
        ),
        (
            "[[stage]]\nuse = \"top_k\"\nk = \"40\"\n[[stage]]\nuse = \"dist\"",
            "line 3, stage 1, `top_k`: `k` must be a whole number, got `\"40\"`",
        ),
        (
            "samplers = \"dry{allowed_length=-1}\"",
            "line 1, stage 1, `dry`: `allowed_length` must be a whole number from 0, got `-1`",
        ),
        (
            "samplers = \"penalties{last_n=-1}\"",
            "line 1, stage 1, `penalties`: `last_n` must be a number of tokens from 0 to 4294967295, \
             or \"all\" for the whole text, got `-1`",
        ),
        (
            "samplers = 'logit_bias{bias=[\"15043--1\"]}'",
            "line 1, stage 1, `logit_bias`: `bias` cannot be `[\"15043--1\"]`: `15043--1` is not a \
             bias: write a token id from 0 to 4294967295, a sign, and a finite number or `inf` after \
             `-`, as in `15043+1.5` or `15043-inf`",
        ),
        (
            "samplers = 'dry{breakers=\"x\"}'",
            "line 1, stage 1, `dry`: `breakers` must be a list in square brackets, got `\"x\"`",
        ),
        (
            "samplers = 'dry{breakers=[1]}'",
            "line 1, stage 1, `dry`: `breakers` cannot be `[1]`: invalid type: integer `1`, \
             expected a string",
        ),
        (
            "samplers = 'logit_bias{bias=[[1, true]]}'",
            "line 1, stage 1, `logit_bias`: `bias` cannot be `[[1, true]]`: `true` is no bias for \
             token 1: write a number, or `false` to ban it",
        ),
        (
            "[[stage]]\nuse = \"dist\"\n[[stage]]\nuse = \"top_k\"",
            "line 2, stage 1: `dist` selects a token, so it must be the last stage",
        ),
        (
            "[[stage]]\nuse = \"top_k\"",
            "no stage selects a token; end the chain with one of adaptive_p, dist, greedy, \
             mirostat, mirostat_v2",
        ),
        (
            "rng = \"mt19937\"\nseed = 4294967296\nsamplers = \"\"",
            "seed 4294967296 is too large for mt19937, whose seeds end at 4294967295",
        ),
        (
            "samplers = \"top_k;temprature\"",
            "line 1, stage 2: no stage is called `temprature`; did you mean `temperature`? (there \
             are adaptive_p, dist, dry, greedy, infill, logit_bias, min_p, mirostat, mirostat_v2, \
             penalties, temperature, top_k, top_n_sigma, top_p, typical, xtc)",
        ),
    ] {
        assert_eq!(message(text), expected, "for {text:?}");
    }
}
