//! Lists of samplers, as names and as letters.

use logitchain_core::{ChainConfig, NoVocab, Registry};

use super::{
    Case, Verdict,
    data::{list, text},
    translate::{stage_name, whole_text},
};

pub(crate) fn check(case: &Case) -> Verdict {
    let registry = Registry::linked().expect("distinct names");
    let input = text(&case.json["input"]);
    let config = match case.kind() {
        "parse_chars" => ChainConfig::from_letters(input, &registry),
        _ => ChainConfig::from_samplers(input),
    };
    let config = config.map_err(|e| whole_text(&e))?;
    // What is unknown shows when the chain is built.
    config.build(&registry, &NoVocab).map_err(|e| whole_text(&e))?;
    let name = |given: &str| registry.get(given).expect("a stage").name;
    let ours: Vec<_> = config.stages.iter().map(|stage| name(&stage.name)).collect();
    let theirs = list(&case.expected()["samplers"]).iter().map(|name| stage_name(text(name)));
    if theirs.eq(ours.iter().copied()) { Ok(()) } else { Err(ours.join(";")) }
}
