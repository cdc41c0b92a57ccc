//! llama.cpp's samplers as stages of ours, and as chain files.

use std::{error::Error, fmt::Write as _};

use logitchain_core::{Chain, ChainConfig, Registry, Vocab};
use serde_json::Value;

use super::{
    data::{double, list, text},
    vocab::Signs,
};

/// A stage, its parameters, and the seed of its own that llama.cpp gives it.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) name: &'static str,
    pub(crate) params: toml::Table,
    pub(crate) seed: Option<u64>,
}

/// Our name for what llama.cpp calls `name`.
pub(crate) fn stage_name(name: &str) -> &'static str {
    match name {
        "typ_p" => "typical",
        "temp" | "temp_ext" | "temperature" => "temperature",
        "adaptive_p" => "adaptive_p",
        "dist" => "dist",
        "dry" => "dry",
        "greedy" => "greedy",
        "infill" => "infill",
        "logit_bias" => "logit_bias",
        "min_p" => "min_p",
        "mirostat" => "mirostat",
        "mirostat_v2" => "mirostat_v2",
        "penalties" => "penalties",
        "top_k" => "top_k",
        "top_n_sigma" => "top_n_sigma",
        "top_p" => "top_p",
        "xtc" => "xtc",
        other => panic!("no stage is llama.cpp's `{other}`"),
    }
}

pub(crate) fn stage(sampler: &Value) -> Stage {
    let theirs = text(&sampler["sampler"]);
    let mut stage = Stage {
        name: stage_name(theirs),
        params: toml::Table::new(),
        seed: sampler["seed"].as_u64(),
    };
    for (key, value) in sampler.as_object().expect("a sampler") {
        let key = match (theirs, key.as_str()) {
            // The vocabulary's size comes with the vocabulary.
            (_, "sampler" | "seed" | "n_vocab") => continue,
            (_, "temp") => "t",
            ("temp_ext", "delta") => "range",
            ("penalties", "freq") => "frequency",
            ("penalties", "present") => "presence",
            (_, key) => key,
        };
        let value = match key {
            "breakers" => {
                let texts = list(value).iter().map(Signs::write).filter(|text| !text.is_empty());
                texts.collect::<Vec<_>>().into()
            }
            "bias" => list(value).iter().map(bias).collect::<Vec<_>>().into(),
            _ => number(value),
        };
        stage.params.insert(key.to_owned(), value);
    }
    stage
}

/// A token and what is added to its logit, as chain files write it.
pub(crate) fn bias(pair: &Value) -> toml::Value {
    vec![toml::Value::from(pair[0].as_i64().expect("an id")), double(&pair[1]).into()].into()
}

pub(crate) fn number(value: &Value) -> toml::Value {
    value.as_i64().map_or_else(|| double(value).into(), toml::Value::from)
}

/// The stages as the text of a chain file that draws as llama.cpp does.
pub(crate) fn chain_file<'a>(
    seed: u64,
    stages: impl IntoIterator<Item = (&'a str, &'a toml::Table)>,
) -> String {
    let mut file = format!("rng = \"mt19937\"\nseed = {seed}\n");
    for (name, params) in stages {
        let params = toml::to_string(params).expect("parameters are TOML");
        write!(file, "\n[[stage]]\nuse = \"{name}\"\n{params}").expect("a string grows");
    }
    file
}

/// The chain of a chain file, or the whole of an error's text.
pub(crate) fn build(file: &str, vocab: &dyn Vocab) -> Result<Chain, String> {
    let registry = Registry::linked().expect("distinct names");
    let config: ChainConfig = file.parse().map_err(|e| whole_text(&e))?;
    config.build(&registry, vocab).map_err(|e| whole_text(&e))
}

/// What an error says, and what its causes say.
pub(crate) fn whole_text(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        write!(text, ": {cause}").expect("a string grows");
        source = cause.source();
    }
    text
}
