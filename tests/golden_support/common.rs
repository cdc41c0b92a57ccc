//! Whole configurations, as llama.cpp's programs take them.

use logitchain_core::{BuildContext, Registry, RngKind, TokenId};
use serde_json::Value;

use super::{
    Case, Verdict,
    data::{bytes, ids, list, text},
    translate::{self, stage_name},
    vocab::Words,
};

/// The chain that llama.cpp's programs make of their parameters.
fn stages(params: &Value) -> Vec<(&'static str, toml::Table)> {
    let table = |pairs: &[(&str, &str)]| -> toml::Table {
        let value = |key: &str| match &params[key] {
            Value::Array(texts) => {
                texts.iter().map(|t| text(t).to_owned()).collect::<Vec<_>>().into()
            }
            number => translate::number(number),
        };
        pairs.iter().map(|(ours, theirs)| ((*ours).to_owned(), value(theirs))).collect()
    };
    let stage = |name: &'static str| {
        let pairs: &[(&str, &str)] = match name {
            "penalties" => &[
                ("last_n", "penalty_last_n"),
                ("repeat", "penalty_repeat"),
                ("frequency", "penalty_freq"),
                ("presence", "penalty_present"),
            ],
            "dry" => &[
                ("multiplier", "dry_multiplier"),
                ("base", "dry_base"),
                ("allowed_length", "dry_allowed_length"),
                ("last_n", "dry_penalty_last_n"),
                ("breakers", "dry_sequence_breakers"),
            ],
            "top_n_sigma" => &[("n", "top_n_sigma")],
            "top_k" => &[("k", "top_k")],
            "typical" => &[("p", "typ_p"), ("min_keep", "min_keep")],
            "top_p" => &[("p", "top_p"), ("min_keep", "min_keep")],
            "min_p" => &[("p", "min_p"), ("min_keep", "min_keep")],
            "xtc" => &[
                ("probability", "xtc_probability"),
                ("threshold", "xtc_threshold"),
                ("min_keep", "min_keep"),
            ],
            "temperature" => {
                &[("t", "temp"), ("range", "dynatemp_range"), ("exponent", "dynatemp_exponent")]
            }
            "adaptive_p" => &[("target", "adaptive_target"), ("decay", "adaptive_decay")],
            "mirostat" | "mirostat_v2" => &[("tau", "mirostat_tau"), ("eta", "mirostat_eta")],
            "infill" | "dist" => &[],
            other => panic!("`{other}` is not a sampler of llama.cpp's programs"),
        };
        (name, table(pairs))
    };

    let mut stages = Vec::new();
    let biases = list(&params["logit_bias"]);
    if !biases.is_empty() {
        let biases: Vec<_> = biases.iter().map(translate::bias).collect();
        stages.push(("logit_bias", toml::Table::from_iter([("bias".to_owned(), biases.into())])));
    }
    match params["mirostat"].as_u64() {
        Some(0) => {
            let names = list(&params["samplers"]).iter().map(|name| stage_name(text(name)));
            // The one that selects comes last, wherever it is named.
            let (last, all): (Vec<_>, Vec<_>) = names.partition(|name| *name == "adaptive_p");
            stages.extend(all.into_iter().map(stage));
            stages.push(stage(last.first().copied().unwrap_or("dist")));
        }
        // Mirostat replaces all other samplers but a plain temperature.
        version => {
            stages.push(("temperature", table(&[("t", "temp")])));
            stages.push(stage(if version == Some(1) { "mirostat" } else { "mirostat_v2" }));
        }
    }
    stages
}

pub(crate) fn check(case: &Case) -> Verdict {
    let params = &case.json["params"];
    let expected = case.expected();
    let stages = stages(params);
    let seed = params["seed"].as_u64().expect("a seed");
    let file = translate::chain_file(seed, stages.iter().map(|(name, table)| (*name, table)));
    let chain = translate::build(&file, &Words::new(None));
    if let Some(error) = expected.get("error") {
        return match chain {
            Ok(chain) => Err(format!("no error, but {chain}")),
            // In other words, but about the same parameter.
            Err(ours) => {
                let param = text(error).split('_').nth(1).expect("a name")[..4].to_owned();
                if ours.contains(&param) { Ok(()) } else { Err(ours) }
            }
        };
    }
    let mut chain = chain?;

    // llama.cpp prints a space after the last sampler too, and has a plain
    // temperature of another name.
    let print = text(&expected["chain_print"]).trim_end().replace("-> temp ->", "-> temp-ext ->");
    if chain.to_string() != print {
        return Err(chain.to_string());
    }
    if chain.seed() != expected["get_seed"].as_u64().expect("a seed") {
        return Err(format!("seed {}", chain.seed()));
    }
    case.history().into_iter().for_each(|token| chain.accept(token));
    for (nth, token) in (1..).zip(ids(&expected["tokens"])) {
        let got = chain.sample(&mut case.logits.clone()).map_err(|e| e.to_string())?;
        if got != TokenId(token) {
            return Err(format!("draw {nth} is {got}"));
        }
        chain.accept(got);
    }
    Ok(())
}

/// Whether breakers are refused. That their tables are llama.cpp's is tested
/// next to the stage, which shows them to nobody else.
pub(crate) fn check_breakers(case: &Case) -> Verdict {
    let texts = list(&case.json["breakers_hex"]).iter().map(bytes);
    let texts: Vec<_> = texts.map(|text| String::from_utf8(text).expect("UTF-8")).collect();
    let params = toml::Table::from_iter([("breakers".to_owned(), texts.into())]);
    let words = Words::new(case.json.get("suffix_tokens_hex"));
    let cx = BuildContext::new(&words, RngKind::Mt19937, 0);
    let registry = Registry::linked().expect("distinct names");
    let dry = registry.get("dry").expect("a stage");
    dry.build(&params, &cx).map(|_| ()).map_err(|e| translate::whole_text(&e))
}
