//! How the cases of `tests/golden` are read, run and judged.

mod chain;
mod common;
mod data;
mod differences;
mod ops;
mod parse;
mod rng;
mod tolerance;
mod translate;
mod vocab;

pub(crate) use self::{
    data::{Case, FAMILIES, cases},
    differences::Differences,
};

/// Nothing where our answer is llama.cpp's; our answer where it is another.
pub(crate) type Verdict = Result<(), String>;

/// Runs a case.
pub(crate) fn check(case: &Case) -> Verdict {
    match case.kind() {
        "apply" | "draws" | "apply_vocab" => chain::check(case),
        "ops" => ops::check(case),
        "rng" => rng::check(case),
        "parse_names" | "parse_chars" => parse::check(case),
        "common" => common::check(case),
        "dry_breakers" => common::check_breakers(case),
        other => panic!("no kind of case is called `{other}`"),
    }
}
