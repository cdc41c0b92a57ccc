//! The files, and the numbers as they write them.

use std::{collections::HashMap, sync::LazyLock};

use logitchain_core::TokenId;
use serde_json::Value;

/// Every family, with the number of its cases: a case that is lost, or never
/// run, shows.
pub(crate) const FAMILIES: [(&str, usize); 25] = [
    ("adaptive_p", 40),
    ("chain_default", 59),
    ("chain_pair", 39),
    ("chain_perm", 105),
    ("common", 26),
    ("dist", 34),
    ("dry", 102),
    ("dry_breakers", 18),
    ("greedy", 9),
    ("infill", 4),
    ("logit_bias", 24),
    ("min_p", 122),
    ("mirostat", 35),
    ("mirostat_v2", 35),
    ("ops", 22),
    ("parse", 17),
    ("penalties", 97),
    ("rng", 6),
    ("temp", 51),
    ("temp_ext", 74),
    ("top_k", 99),
    ("top_n_sigma", 58),
    ("top_p", 130),
    ("typ_p", 62),
    ("xtc", 73),
];

pub(crate) fn read(file: &str) -> String {
    let path = format!("{}/tests/golden/{file}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// The inputs that are too long to stand in the cases.
static LOGIT_SETS: LazyLock<HashMap<String, Vec<f32>>> = LazyLock::new(|| {
    let sets = read("logits.jsonl");
    let sets = sets.lines().map(|line| serde_json::from_str::<Value>(line).expect("a set"));
    sets.map(|set| (text(&set["name"]).to_owned(), floats(&set["values"]))).collect()
});

/// A line of a family's file.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) json: Value,
    /// One per token; empty for the kinds that have none.
    pub(crate) logits: Vec<f32>,
}

pub(crate) fn cases(family: &str) -> Vec<Case> {
    let file = read(&format!("{family}.jsonl"));
    let lines = file.lines().map(|line| serde_json::from_str::<Value>(line).expect("a case"));
    lines
        .map(|json| {
            let logits = match (json.get("logits"), json.get("logits_set")) {
                (Some(inline), _) => floats(inline),
                (None, Some(set)) => LOGIT_SETS[text(set)].clone(),
                (None, None) => Vec::new(),
            };
            Case { json, logits }
        })
        .collect()
}

impl Case {
    pub(crate) fn name(&self) -> &str {
        text(&self.json["name"])
    }

    pub(crate) fn kind(&self) -> &str {
        text(&self.json["kind"])
    }

    /// What llama.cpp answers.
    pub(crate) fn expected(&self) -> &Value {
        &self.json["expected"]
    }

    /// The samplers, as llama.cpp names them.
    pub(crate) fn chain(&self) -> &[Value] {
        list(&self.json["chain"])
    }

    /// Tokens that all samplers are told of before anything else.
    pub(crate) fn history(&self) -> Vec<TokenId> {
        let ids = self.json.get("history").map(ids).unwrap_or_default();
        ids.into_iter().map(TokenId).collect()
    }

    pub(crate) fn has_flag(&self, flag: &str) -> bool {
        self.json.get("flags").is_some_and(|flags| list(flags).iter().any(|f| f == flag))
    }
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list"))
}

/// A number, infinities and NaN in quotes. Every one is an `f32`, so reading it
/// as an `f64` first loses nothing.
pub(crate) fn double(value: &Value) -> f64 {
    match value {
        Value::String(text) => text.parse().expect("a number in quotes"),
        value => value.as_f64().unwrap_or_else(|| panic!("{value} is no number")),
    }
}

pub(crate) fn floats(value: &Value) -> Vec<f32> {
    list(value).iter().map(|v| double(v) as f32).collect()
}

pub(crate) fn ids(value: &Value) -> Vec<u32> {
    let id = |v: &Value| u32::try_from(v.as_u64().expect("an id")).expect("32 bits");
    list(value).iter().map(id).collect()
}

/// Text written as hexadecimal bytes.
pub(crate) fn bytes(value: &Value) -> Vec<u8> {
    let digits = text(value);
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal digits");
    (0..digits.len()).step_by(2).map(byte).collect()
}
