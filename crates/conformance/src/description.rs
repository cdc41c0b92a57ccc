//! Laws about what a stage says of itself.

use std::collections::BTreeMap;

use logitchain_core::{
    BuildContext, ChainConfig, Kind, NoVocab, Param, ParamKind, Registration, Registry, RngKind,
    Seed, Stage, StageConfig, StageError, Vocab,
};

use crate::{
    inputs,
    law::{Law, Verdict, Violation, demand},
    whole,
};

/// What fits in a line of a terminal beside the stage's name.
const SUMMARY_WIDTH: usize = 80;

pub(crate) fn check<S: Stage>() -> Verdict {
    let stage = Registration::of::<S>("the stage under test");
    documented(&stage)?;
    names(&stage)?;
    defaults::<S>(&stage)?;
    for param in stage.params() {
        range(&stage, &param)?;
    }
    neutral::<S>(&stage)
}

fn documented(stage: &Registration) -> Verdict {
    let summary = stage.summary();
    demand(Law::Documented, !summary.is_empty(), || "the struct has no doc comment".to_owned())?;
    let width = summary.chars().count();
    demand(Law::Documented, width <= SUMMARY_WIDTH, || {
        format!("the summary takes {width} characters, at most {SUMMARY_WIDTH} fit: {summary:?}")
    })?;
    for param in stage.params() {
        let described = !param.description.trim().is_empty();
        demand(Law::Documented, described, || format!("`{}` has no doc comment", param.name))?;
    }
    Ok(())
}

/// Lower-case words of letters and digits, the first of which begins with a
/// letter.
fn is_words(text: &str, joint: char) -> bool {
    let word = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
    };
    text.starts_with(|c: char| c.is_ascii_lowercase()) && text.split(joint).all(word)
}

fn names(stage: &Registration) -> Verdict {
    demand(Law::SnakeCaseName, is_words(stage.name, '_'), || {
        format!("`{}` is not snake_case", stage.name)
    })?;
    let mut owners = BTreeMap::new();
    for param in stage.params() {
        for flag in param.flags {
            demand(Law::UsableFlags, is_words(&flag, '-'), || {
                format!("the flag {flag:?} of `{}` is not lower-case words", param.name)
            })?;
            if let Some(owner) = owners.insert(flag.clone(), param.name.clone()) {
                let what = format!("both `{owner}` and `{}` have the flag {flag:?}", param.name);
                return Err(Violation::new(Law::UsableFlags, what));
            }
        }
    }
    Ok(())
}

fn defaults<S: Stage>(stage: &Registration) -> Verdict {
    let defaults = toml::Table::try_from(S::default())
        .map_err(|e| Violation::new(Law::RoundTrips, format!("cannot be written as TOML: {e}")))?;
    for param in stage.params() {
        demand(Law::DefaultsComplete, defaults.contains_key(&param.name), || {
            format!("`{}` has no value by default", param.name)
        })?;
    }
    round_trip::<S>(&defaults)?;

    let empty = toml::Table::new().try_into::<S>().map_err(|e| e.to_string());
    let empty = empty.and_then(|stage| toml::Table::try_from(stage).map_err(|e| e.to_string()));
    demand(Law::MissingKeysAreDefaults, empty.as_ref() == Ok(&defaults), || {
        format!("no parameters at all gave {empty:?} instead of {defaults:?}")
    })?;

    let mut stranger = defaults.clone();
    stranger.insert("no_such_parameter".to_owned(), 1.into());
    demand(Law::UnknownKeysRefused, stranger.try_into::<S>().is_err(), || {
        "`no_such_parameter = 1` was read without a word".to_owned()
    })?;

    let vocab = inputs::vocab(8);
    for (name, rng) in RngKind::ALL {
        let vocabularies: [(&str, &dyn Vocab); 2] =
            [("a vocabulary", &vocab), ("no vocabulary", &NoVocab)];
        for (which, vocab) in vocabularies {
            let built = stage.build(&toml::Table::new(), &BuildContext::new(vocab, rng, 1));
            if let Err(e) = built {
                let what = format!("refused with {name} and {which}: {}", whole(&e));
                return Err(Violation::new(Law::DefaultsBuild, what));
            }
        }
    }
    Ok(())
}

pub(crate) fn round_trip<S: Stage>(params: &toml::Table) -> Verdict {
    let broken = |what: String| Violation::new(Law::RoundTrips, what);
    let text = params.to_string();
    let again: S = toml::from_str(&text)
        .map_err(|e| broken(format!("{text:?} cannot be read again: {}", e.message())))?;
    let again = toml::Table::try_from(again).map_err(|e| broken(e.to_string()))?;
    demand(Law::RoundTrips, again == *params, || format!("{text:?} became {:?}", again.to_string()))
}

fn range(stage: &Registration, param: &Param) -> Verdict {
    let vocab = inputs::vocab(8);
    let built = |value: &toml::Value| {
        let params = toml::Table::from_iter([(param.name.clone(), value.clone())]);
        stage.build(&params, &BuildContext::new(&vocab, RngKind::default(), 1))
    };
    let refused = |law, value: f64, why: &str| {
        let whole_number = param.kind == ParamKind::Integer;
        let value = if whole_number { (value as i64).into() } else { toml::Value::from(value) };
        match built(&value) {
            Ok(_) => {
                Err(Violation::new(law, format!("`{} = {value}` {why} is accepted", param.name)))
            }
            Err(StageError::Param(error)) => {
                demand(Law::ObjectionsNameTheParameter, error.param() == param.name, || {
                    format!("`{} = {value}` is refused with: {error}", param.name)
                })
            }
            Err(_) => Ok(()),
        }
    };
    let number = matches!(param.kind, ParamKind::Integer | ParamKind::Number);
    let step = |bound: f64| {
        // A stage may well compare as f32, so "just outside" is what f32 can tell.
        if param.kind == ParamKind::Integer { 1.0 } else { 1e-6 * bound.abs().max(1.0) }
    };
    let schema = stage.schema();
    let stated = |key: &str| {
        let properties = schema.get("properties")?;
        properties.get(&param.name)?.get(key)?.as_f64().filter(|_| number)
    };
    for (key, below) in [
        ("minimum", true),
        ("maximum", false),
        ("exclusiveMinimum", true),
        ("exclusiveMaximum", false),
    ] {
        let Some(bound) = stated(key) else { continue };
        let outside = if below { bound - step(bound) } else { bound + step(bound) };
        // Not what the field's type could not hold anyway.
        if param.kind == ParamKind::Integer && outside.abs() > 9e15 {
            continue;
        }
        let limit = format!("lies outside its range ({key} {bound}), but");
        refused(Law::RangesEnforced, outside, &limit)?;
        if key.starts_with("exclusive") {
            refused(Law::RangesEnforced, bound, &limit)?;
            continue;
        }
        let end =
            if param.kind == ParamKind::Integer { (bound as i64).into() } else { bound.into() };
        match built(&end) {
            // A bound that another parameter sets is no fault of this one.
            Err(StageError::Param(error)) if error.param() != param.name => {}
            Err(error) => {
                let what = format!("`{} = {end}` is refused: {}", param.name, whole(&error));
                return Err(Violation::new(Law::RangeEndsAccepted, what));
            }
            Ok(_) => {}
        }
    }
    if param.kind == ParamKind::Number {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            refused(Law::NonFiniteRefused, value, "is no finite number, but")?;
        }
    }
    Ok(())
}

fn neutral<S: Stage>(stage: &Registration) -> Verdict {
    let Some(neutral) = S::neutral() else { return Ok(()) };
    let law = Law::NeutralRecognised;
    demand(law, neutral.is_neutral(), || {
        format!("`is_neutral` does not recognise {neutral:?}, which `neutral` gives")
    })?;
    let params = stage.neutral().unwrap_or_default();
    round_trip::<S>(&params)?;
    let cannot = |e: String| Violation::new(law, format!("neutral parameters are refused: {e}"));
    let vocab = inputs::vocab(8);
    if S::KIND == Kind::Select {
        return Err(Violation::new(
            law,
            "a selecting stage cannot be neutral: nothing would select",
        ));
    }
    // A chain wants a selecting stage at its end; any will do, since it is the
    // printed line that counts.
    let registry = Registry::default().with::<S>().and_then(|r| r.with::<crate::observe::Last>());
    let registry = registry.map_err(|e| cannot(whole(&e)))?;
    let mut config = ChainConfig::default();
    let mut first = StageConfig::new(S::NAME);
    first.params = params;
    config.stages = vec![first, StageConfig::new(crate::observe::Last::NAME)];
    config.seed = Seed::Fixed(1);
    let chain = config.build(&registry, &vocab).map_err(|e| cannot(whole(&e)))?;
    let line = chain.to_string();
    demand(law, line.starts_with("logits -> ?"), || format!("the chain prints {line:?}"))
}
