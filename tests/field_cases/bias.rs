//! Biases: how they are written, and that they act everywhere.

use logitchain::{Chain, ChainConfig, TokenId};
use logitchain_conformance::NumberVocab;

use crate::support::{
    assert_distribution, distribution, drawing, ids, logits_after, refusal, refusal_in,
};

fn built(file: &str) -> Chain {
    let config: ChainConfig = file.parse().expect("a chain file");
    crate::support::build(&config, &logitchain::NoVocab)
}

/// Clients write a ban in many ways, and lists were lost on the way.
#[test]
fn all_forms_of_a_bias_mean_the_same() {
    let file = |bias: &str| {
        built(&format!("[[stage]]\nuse = 'logit_bias'\nbias = [{bias}]\n[[stage]]\nuse = 'dist'"))
    };
    let params = |bias: &str| file(bias).stages()[0].params().clone();
    for form in ["'15043-inf'", "[15043, false]", "[15043, -inf]"] {
        assert_eq!(params(form)["bias"].to_string(), "[\"15043-inf\"]", "{form}");
    }
    for form in ["'15043+1.5'", "[15043, 1.5]", "'15043+15e-1'"] {
        assert_eq!(params(form)["bias"].to_string(), "[\"15043+1.5\"]", "{form}");
    }
    for form in ["'15043-100'", "[15043, -100]", "[15043, -100.0]"] {
        assert_eq!(params(form)["bias"].to_string(), "[\"15043-100\"]", "{form}");
    }
    let list = drawing("logit_bias{bias=[\"15043-inf\"]}", 1);
    assert_eq!(list.stages()[0].params(), file("[15043, false]").stages()[0].params());
}

#[test]
fn what_is_no_bias_is_refused_and_shown() {
    for text in ["15043", "x-1", "15043--1", "15043+inf", "15043-nan", "-1+2", "1+ 2", ""] {
        assert_eq!(
            refusal(&format!("logit_bias{{bias=[\"{text}\"]}}")),
            format!(
                "stage 1, `logit_bias`: `bias` cannot be `[\"{text}\"]`: `{text}` is not a bias: \
                 write a token id from 0 to 4294967295, a sign, and a finite number or `inf` after \
                 `-`, as in `15043+1.5` or `15043-inf`"
            )
        );
    }
    let error = refusal("logit_bias{bias=[[15043,true]]}");
    let end = ": `true` is no bias for token 15043: write a number, or `false` to ban it";
    assert!(error.ends_with(end), "{error}");
    for pair in ["[15043,nan]", "[15043,inf]"] {
        let error = refusal(&format!("logit_bias{{bias=[{pair}]}}"));
        assert!(error.ends_with("for token 15043 is neither a finite number nor -inf"), "{error}");
    }
}

/// Some interfaces promise that -100 is a ban. Here, as in llama.cpp, every
/// finite bias is added and nothing else: 150 - 100 is still the greatest.
#[test]
fn a_bias_of_minus_a_hundred_is_no_ban() {
    let with = |bias: &str| ids(&format!("logit_bias{{bias=[{bias}]}}"), &[150.0, 0.0]);
    assert_eq!(with("\"0-100\""), [0, 1]);
    assert_eq!(with("\"0-inf\""), [1]);
}

/// e^1.5 / (e^1.5 + e + 1) = .546549
#[test]
fn a_bias_is_added_to_the_logit() {
    let got = distribution("logit_bias{bias=[\"0+0.5\"]}", &[1.0, 1.0, 0.0]);
    assert_distribution(&got, &[(0, 0.546549), (1, 0.331499), (2, 0.121952)]);
}

#[test]
fn biases_on_one_token_add_up() {
    let with = |bias: &str| logits_after(&format!("logit_bias{{bias=[{bias}]}}"), &[], &[1.0, 0.0]);
    assert_eq!(with("\"0+2\",\"0-0.5\""), [2.5, 0.0]);
    assert_eq!(with("\"0-inf\",\"0+100\""), [f32::NEG_INFINITY, 0.0]);
    assert_eq!(with("\"0+100\",\"0-inf\""), [f32::NEG_INFINITY, 0.0]);
}

#[test]
fn banning_every_token_is_an_error_that_names_the_stage() {
    for before in ["", "top_k{k=3};"] {
        let list = format!("{before}logit_bias{{bias=[\"0-inf\",\"1-inf\",\"2-inf\"]}}");
        let position = 1 + usize::from(!before.is_empty());
        let error = drawing(&list, 1).sample(&mut [1.0, 2.0, 3.0]).expect_err("nothing is left");
        let expected = format!("no candidates are left after stage {position}, `logit_bias`");
        assert_eq!(error.to_string(), expected);
    }
}

/// An id that wraps around would bias another token, and one past the end has
/// taken an engine down.
#[test]
fn ids_outside_the_vocabulary_are_refused_by_name() {
    let vocab = NumberVocab::new(8);
    for id in ["8", "2147483648"] {
        assert_eq!(
            refusal_in(&format!("logit_bias{{bias=[\"{id}+1\"]}}"), &vocab),
            format!("stage 1, `logit_bias`: `bias` names token {id}, but the vocabulary ends at 7")
        );
    }
    // 2^32 + 3 would be 3.
    let error = refusal_in("logit_bias{bias=[\"4294967299+1\"]}", &vocab);
    assert!(error.contains("`4294967299+1` is not a bias: write a token id from 0 to "), "{error}");
    for pair in ["[4294967299, 1.0]", "[-1, 1.0]", "[1.5, 1.0]", "[false, 1.0]"] {
        assert_eq!(
            refusal_in(&format!("logit_bias{{bias=[{pair}]}}"), &vocab),
            format!(
                "stage 1, `logit_bias`: `bias` cannot be `[{pair}]`: a token id is a whole number \
                 from 0 to 4294967295"
            )
        );
    }
    crate::support::watched_in("logit_bias{bias=[\"7+1\"]}", &vocab);
}

/// A ban reached only the first token, or only some ways of drawing.
#[test]
fn a_ban_holds_for_every_token_and_every_way_to_select() {
    // Token 3 has practically all of the probability.
    let logits = [1.0, 0.5, 0.0, 30.0, 0.2];
    let ban = "logit_bias{bias=[\"3-inf\"]}";
    for rest in [
        "",
        ";greedy",
        ";dist",
        ";penalties{repeat=1.1};dry{multiplier=0.8};top_n_sigma{n=2};top_k;typ_p{p=0.9};top_p;\
         min_p;xtc{probability=0.5};temperature",
        ";mirostat",
        ";mirostat_v2",
        ";adaptive_p{target=0.5}",
        ";infill",
        ";temperature{t=0}",
    ] {
        let mut chain = drawing(&format!("{ban}{rest}"), 1);
        for _ in 0..200 {
            let token = chain.sample(&mut logits.clone()).expect("a token");
            assert_ne!(token, TokenId(3), "{chain}");
            chain.accept(token);
        }
    }
    assert_eq!(drawing("dist", 1).sample(&mut logits.clone()), Ok(TokenId(3)));
}

/// (2 + 1) / 2 = 1.5 and 2 / 2 + 1 = 2: the biases are added to the logits as
/// they come.
#[test]
fn a_bias_acts_where_the_chain_has_it() {
    let bias = "logit_bias{bias=[\"0+1\"]}";
    let first = format!("{bias};penalties{{repeat=2}}");
    assert_eq!(logits_after(&first, &[0], &[2.0]), [1.5]);
    let last = format!("penalties{{repeat=2}};{bias}");
    assert_eq!(logits_after(&last, &[0], &[2.0]), [2.0]);
}
