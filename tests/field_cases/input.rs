//! What a model or a user gives and no chain can use: logits that are no
//! numbers, misspelt names, values of the wrong type.

use logitchain::{ChainConfig, NoVocab, Registry, RngKind, SampleError, TokenId};

use crate::support::{build, drawing, left, refusal, set, watched};

/// Comparisons with NaN are false, so a search for the greatest returns what it
/// began with: engines gave one token for ever, or ended.
#[test]
fn a_logit_that_is_nan_or_infinite_names_its_token() {
    for list in ["greedy", "dist", "mirostat", "mirostat_v2", "adaptive_p{target=0.5}", "top_p"] {
        let mut chain = drawing(list, 1);
        for size in [3, 300, 20_000] {
            for at in [0, size / 2, size - 1] {
                for (bad, shown) in [(f32::NAN, "NaN"), (f32::INFINITY, "inf")] {
                    let mut logits = vec![1.0; size];
                    logits[at] = bad;
                    let error = chain.sample(&mut logits).expect_err("no number");
                    let expected =
                        format!("the logit of token {at} is {shown}: as the model gave it");
                    assert_eq!(error.to_string(), expected, "{list}");
                }
            }
        }
        // The chain lives on.
        chain.reset();
        assert!(chain.sample(&mut [1.0, 2.0]).is_ok(), "{list}");
    }
}

#[test]
fn the_first_of_several_bad_logits_is_named() {
    let error = drawing("greedy", 1).sample(&mut [0.0, f32::INFINITY, f32::NAN]);
    let error = error.expect_err("no numbers").to_string();
    assert_eq!(error, "the logit of token 1 is inf: as the model gave it");
}

#[test]
fn a_masked_token_is_fine_and_never_drawn() {
    for seed in 1..=1000 {
        let token = drawing("temperature", seed).sample(&mut [1.0, f32::NEG_INFINITY, 2.0]);
        assert_ne!(token.expect("a token"), TokenId(1));
    }
}

#[test]
fn no_logits_and_none_but_masked_ones_are_errors() {
    let mut chain = drawing("top_k;dist", 1);
    assert_eq!(chain.sample(&mut []), Err(SampleError::Empty));
    assert_eq!(SampleError::Empty.to_string(), "the model gave no logits");
    for size in [1, 3, 1000] {
        let error = chain.sample(&mut vec![f32::NEG_INFINITY; size]).expect_err("nothing to draw");
        let expected = "no candidates are left: the model masked every token";
        assert_eq!(error.to_string(), expected);
    }
}

/// -1e38 * 1e10 is -inf, a ban of the last candidates.
#[test]
fn a_penalty_that_masks_the_last_candidate_is_named() {
    let mut chain = drawing("top_k{k=1};penalties{repeat=1e10}", 1);
    chain.accept(TokenId(0));
    let error = chain.sample(&mut [-1e38, -2e38]).expect_err("nothing is left");
    assert_eq!(error.to_string(), "no candidates are left after stage 2, `penalties`");
}

#[test]
fn a_bias_beyond_the_range_of_numbers_names_token_and_stage() {
    let error = drawing("logit_bias{bias=[\"1+3e38\"]}", 1).sample(&mut [0.0, 3e38]);
    let error = error.expect_err("an overflow").to_string();
    assert_eq!(error, "the logit of token 1 is inf after stage 1, `logit_bias`");
}

/// Whatever filters do, one candidate is always left.
#[test]
fn no_chain_of_filters_leaves_nothing() {
    let filters = [
        "top_k{k=1}",
        "top_p{p=0}",
        "min_p{p=1}",
        "typical{p=0}",
        "top_n_sigma{n=1e-9}",
        "xtc{probability=1,threshold=1e-9}",
        "temperature{t=0}",
        "infill",
    ];
    let hard: [&[f32]; 6] = [
        &[0.0],
        &[0.0, 0.0, 0.0, 0.0],
        &[f32::MAX, f32::MIN, 0.0],
        &[f32::MIN, f32::NEG_INFINITY],
        &[1e-45, -1e-45, 0.0, -0.0],
        &[1.0, 0.9, 0.8, -3e38],
    ];
    for a in filters {
        for b in filters {
            for c in ["", ";xtc{probability=1,threshold=1e-9}", ";top_p{p=0.5}"] {
                for logits in hard {
                    assert!(!set(&format!("{a};{b}{c}"), logits).is_empty());
                }
            }
        }
    }
}

// ---- names and values --------------------------------------------------------

/// The names of all stages, in the order of the alphabet.
fn all() -> String {
    let registry = Registry::linked().expect("no two stages share a name");
    let mut names: Vec<&str> = registry.iter().map(|stage| stage.name).collect();
    names.sort_unstable();
    names.join(", ")
}

/// Engines skipped a name they did not know, and with it the stage.
#[test]
fn an_unknown_stage_is_an_error_with_the_nearest_name() {
    let all = all();
    assert_eq!(
        refusal("top_k;temprature"),
        format!(
            "stage 2: no stage is called `temprature`; did you mean `temperature`? (there are {all})"
        )
    );
    assert_eq!(
        refusal("quadratic"),
        format!("stage 1: no stage is called `quadratic` (there are {all})")
    );
    assert_eq!(
        refusal("samplers = 'top_k'\n\n[[stage]]\nuse = 'top_k'\n"),
        "line 3: `samplers` and `[[stage]]` both list the stages; keep one of them"
    );
    assert_eq!(
        refusal("seed = 1\n[[stage]]\nuse = 'top_q'\n"),
        format!(
            "line 3, stage 1: no stage is called `top_q`; did you mean `top_k`? (there are {all})"
        )
    );
}

#[test]
fn an_unknown_parameter_is_an_error_with_the_nearest_name() {
    assert_eq!(
        refusal("penalties{repeet=1.1}"),
        "stage 1, `penalties`: no parameter is called `repeet`; did you mean `repeat`? (it has \
         last_n, repeat, frequency, presence, order)"
    );
    assert_eq!(
        refusal("[[stage]]\nuse = 'min_p'\np = 0.1\nmin_keap = 1\n[[stage]]\nuse = 'dist'"),
        "line 4, stage 1, `min_p`: no parameter is called `min_keap`; did you mean `min_keep`? \
         (it has p, min_keep)"
    );
    assert_eq!(
        refusal("greedy{k=1}"),
        "stage 1, `greedy`: no parameter is called `k` (it has none)"
    );
}

#[test]
fn values_out_of_range_are_errors_with_the_range() {
    for (list, expected) in [
        ("top_p{p=1.5}", "stage 1, `top_p`: `p` must be between 0 and 1, got 1.5"),
        ("top_p{p=-0.1}", "stage 1, `top_p`: `p` must be between 0 and 1, got -0.1"),
        ("top_p{p=nan}", "stage 1, `top_p`: `p` must be between 0 and 1, got NaN"),
        ("min_p{p=1.5}", "stage 1, `min_p`: `p` must be between 0 and 1, got 1.5"),
        ("typical{p=2}", "stage 1, `typical`: `p` must be between 0 and 1, got 2"),
        ("xtc{probability=2}", "stage 1, `xtc`: `probability` must be between 0 and 1, got 2"),
        ("xtc{threshold=2}", "stage 1, `xtc`: `threshold` must be between 0 and 1, got 2"),
        ("top_n_sigma{n=nan}", "stage 1, `top_n_sigma`: `n` must be a finite number, got NaN"),
        ("temperature{range=-1}", "stage 1, `temperature`: `range` must be at least 0, got -1"),
        ("mirostat{m=0}", "stage 1, `mirostat`: `m` must be at least 1, got 0"),
        ("mirostat_v2{tau=-1}", "stage 1, `mirostat_v2`: `tau` must be at least 0, got -1"),
        ("mirostat_v2{eta=inf}", "stage 1, `mirostat_v2`: `eta` must be a finite number, got inf"),
        ("adaptive_p{target=2}", "stage 1, `adaptive_p`: `target` must be between -1 and 1, got 2"),
        ("adaptive_p{decay=1}", "stage 1, `adaptive_p`: `decay` must be between 0 and 0.99, got 1"),
    ] {
        assert_eq!(refusal(list), expected);
    }
}

#[test]
fn values_of_the_wrong_type_are_errors_with_the_value() {
    for (list, expected) in [
        ("top_p{p=\"0.9\"}", "`top_p`: `p` must be a number, got `\"0.9\"`"),
        ("top_p{min_keep=-1}", "`top_p`: `min_keep` must be a whole number from 0, got `-1`"),
        ("top_p{min_keep=1.5}", "`top_p`: `min_keep` must be a whole number from 0, got `1.5`"),
        (
            "penalties{order=\"last\"}",
            "`penalties`: `order` must be `repeat_first` or `subtract_first`, got `\"last\"`",
        ),
        (
            "penalties{last_n=\"everything\"}",
            "`penalties`: `last_n` must be a number of tokens from 0 to 4294967295, or \"all\" for \
             the whole text, got `\"everything\"`",
        ),
        ("penalties{repeat=true}", "`penalties`: `repeat` must be a number, got `true`"),
    ] {
        assert_eq!(refusal(list), format!("stage 1, {expected}"));
    }
}

#[test]
fn stages_that_select_stand_at_the_end_and_only_there() {
    assert_eq!(
        refusal("greedy;top_k"),
        "stage 1: `greedy` selects a token, so it must be the last stage"
    );
    assert_eq!(
        refusal("[[stage]]\nuse = 'top_k'\n"),
        "no stage selects a token; end the chain with one of adaptive_p, dist, greedy, mirostat, \
         mirostat_v2"
    );
}

#[test]
fn a_place_without_a_name_is_an_error_and_spaces_are_not() {
    assert_eq!(
        refusal("top_k;;temperature"),
        "stage 2 of `top_k;;temperature` is empty; write a stage's name between the separators"
    );
    let spaced = drawing(" top_k ; temperature ", 1).to_string();
    assert_eq!(spaced, "logits -> top-k -> temp-ext -> dist");
}

/// A server knew only full names where the command line knew short ones too, so
/// that the temperature never applied. Here one registry serves every reader.
#[test]
fn aliases_are_the_same_in_lists_and_files() {
    for (alias, name) in [
        ("temp", "temperature"),
        ("top-k", "top_k"),
        ("Top_K", "top_k"),
        ("typ_p", "typical"),
        ("typical", "typical"),
        ("typical-p", "typical"),
        ("nucleus", "top_p"),
    ] {
        let list = drawing(alias, 1);
        let as_text = format!("seed = 1\nsamplers = '{alias}'");
        let as_array = format!("seed = 1\nsamplers = ['{alias}']");
        let as_table = format!("seed = 1\n[[stage]]\nuse = '{alias}'\n[[stage]]\nuse = 'dist'");
        assert_eq!(list.stages()[0].name(), name);
        for file in [as_text, as_array, as_table] {
            let config: ChainConfig = file.parse().expect("a chain file");
            assert_eq!(build(&config, &NoVocab).to_string(), list.to_string());
        }
    }
}

/// A file format that takes `;` for the start of a comment loaded the first
/// stage and dropped the rest.
#[test]
fn a_semicolon_in_a_file_separates_stages() {
    for list in [
        r#""top_k;top_p;temperature""#,
        r#"["top_k", "top_p", "temperature"]"#,
        "'top_k,top_p,temp'",
    ] {
        let config: ChainConfig = format!("samplers = {list}").parse().expect("a chain file");
        let chain = build(&config, &NoVocab);
        assert_eq!(chain.to_string(), "logits -> top-k -> top-p -> temp-ext -> dist");
    }
}

#[test]
fn a_chain_prints_as_a_list_that_reads_back() {
    let list = "penalties{repeat=1.1,last_n=\"all\"};dry{breakers=[\";\", \"}\"]};top_k{k=5};dist";
    let config = ChainConfig::from_samplers(list).expect("a list");
    let again = ChainConfig::from_samplers(&config.to_string()).expect("the same list");
    assert_eq!(again, config);
    assert_eq!(config.to_string(), list);
}

/// A seed that mt19937 cannot hold would be cut off, and repeat another's text.
#[test]
fn a_seed_beyond_32_bits_is_refused_for_mt19937() {
    let mut config = ChainConfig::from_samplers("dist").expect("a list");
    config.rng = RngKind::Mt19937;
    config.seed = logitchain::Seed::Fixed(1 << 32);
    let registry = Registry::linked().expect("no two stages share a name");
    let error = config.build(&registry, &NoVocab).expect_err("too large");
    assert_eq!(
        error.to_string(),
        "seed 4294967296 is too large for mt19937, whose seeds end at 4294967295"
    );
}

/// A failed call must not leave anything behind that shows in the next.
#[test]
fn after_an_error_a_chain_samples_as_before() {
    let mut chain = watched("top_p{p=0.9};temperature{t=0.5}");
    let logits = [1.0, 2.0, 0.5, -3.0];
    let expected = left(&mut chain, &logits);
    chain.sample(&mut [f32::NAN; 300]).expect_err("no numbers");
    chain.sample(&mut [f32::NEG_INFINITY; 7]).expect_err("all masked");
    assert_eq!(left(&mut chain, &logits), expected);
}
