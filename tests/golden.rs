//! Cases printed by llama.cpp itself, run through the library and through
//! chain files. `golden/README.md` says where they come from, and
//! `golden/differences.toml` which of them we answer differently on purpose.

use std::collections::BTreeSet;

use logitchain_stages as _;

mod golden_support;

use golden_support::{Differences, FAMILIES, cases, check};

/// Runs every case of a family, and fails for every one that is neither
/// answered as llama.cpp does nor as the list of differences says.
fn holds(family: &str) {
    let differences = Differences::read();
    let cases = cases(family);
    let count = FAMILIES.iter().find(|(name, _)| *name == family).expect("a known family").1;
    assert_eq!(cases.len(), count, "cases in {family}.jsonl");
    let problems: Vec<String> =
        cases.iter().filter_map(|case| differences.judge(case.name(), check(case))).collect();
    assert!(problems.is_empty(), "{} of {count}:\n{}", problems.len(), problems.join("\n"));
}

/// A test for each family: `name: "family"`.
macro_rules! families {
    ($($test:ident: $family:literal,)*) => {
        $(#[test] fn $test() { holds($family); })*
        const TESTED: &[&str] = &[$($family),*];
    };
}

families! {
    top_k_keeps_what_llama_cpp_keeps: "top_k",
    top_p_keeps_what_llama_cpp_keeps: "top_p",
    min_p_keeps_what_llama_cpp_keeps: "min_p",
    typical_keeps_what_llama_cpp_keeps: "typ_p",
    top_n_sigma_keeps_what_llama_cpp_leaves_unmasked: "top_n_sigma",
    xtc_drops_what_and_when_llama_cpp_does: "xtc",
    infill_keeps_what_llama_cpp_keeps: "infill",
    temperature_gives_the_logits_of_llama_cpp: "temp",
    dynamic_temperature_gives_the_logits_of_llama_cpp: "temp_ext",
    penalties_give_the_logits_of_llama_cpp: "penalties",
    dry_gives_the_logits_of_llama_cpp: "dry",
    dry_takes_the_breakers_that_llama_cpp_takes: "dry_breakers",
    logit_bias_gives_the_logits_of_llama_cpp: "logit_bias",
    greedy_selects_what_llama_cpp_selects: "greedy",
    dist_draws_what_llama_cpp_draws: "dist",
    mirostat_draws_what_llama_cpp_draws: "mirostat",
    mirostat_v2_draws_what_llama_cpp_draws: "mirostat_v2",
    adaptive_p_draws_what_llama_cpp_draws: "adaptive_p",
    chains_in_the_default_order_draw_what_llama_cpp_draws: "chain_default",
    pairs_of_stages_draw_what_llama_cpp_draws: "chain_pair",
    chains_in_any_order_draw_what_llama_cpp_draws: "chain_perm",
    resets_clones_and_accepted_tokens_do_what_they_do_in_llama_cpp: "ops",
    mt19937_gives_the_numbers_of_libstdcxx: "rng",
    lists_and_letters_name_the_stages_that_they_name_in_llama_cpp: "parse",
    whole_configurations_print_and_draw_as_in_llama_cpp: "common",
}

#[test]
fn every_family_has_a_test() {
    let known: BTreeSet<_> = FAMILIES.iter().map(|(family, _)| *family).collect();
    assert_eq!(known, TESTED.iter().copied().collect());
    let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden"));
    let files = files.expect("a folder").map(|file| file.expect("a file").file_name());
    let families: BTreeSet<_> = files
        .filter_map(|file| Some(file.to_str()?.strip_suffix(".jsonl")?.to_owned()))
        .filter(|file| file != "logits")
        .collect();
    assert!(families.iter().map(String::as_str).eq(known), "{families:?}");
}

#[test]
fn every_listed_difference_is_about_a_case() {
    let all: Vec<_> = FAMILIES.iter().flat_map(|(family, _)| cases(family)).collect();
    let names: BTreeSet<_> = all.iter().map(|case| case.name()).collect();
    assert_eq!(names.len(), all.len(), "names are unique");
    let differences = Differences::read();
    let unknown: Vec<_> = differences.names().filter(|name| !names.contains(name)).collect();
    assert!(unknown.is_empty(), "no such cases: {unknown:?}");
}

#[test]
fn the_page_on_differences_tells_of_every_listed_one_and_no_other() {
    let page = include_str!("../crates/stages/src/differences.md");
    let (_, cases) = page.split_once("\n# llama.cpp, case by case\n").expect("its last part");
    let headings: Vec<_> = cases.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    assert_eq!(headings, Differences::read().headings());
}
