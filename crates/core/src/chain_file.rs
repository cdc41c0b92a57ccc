//! Chain files: TOML in, [`ChainConfig`] out, every key accounted for.

use std::str::FromStr;

use serde::Deserialize as _;
use toml::de::{DeTable, DeValue};

use crate::{ChainConfig, ChainError, Place, RngKind, Seed, StageConfig, registry::nearest};

/// The keys of a chain file.
pub(crate) const KEYS: [&str; 7] = ["title", "source", "note", "seed", "rng", "samplers", "stage"];

impl FromStr for ChainConfig {
    type Err = ChainError;

    /// Reads a chain file.
    fn from_str(text: &str) -> Result<Self, ChainError> {
        let file = File::new(text);
        // Once for the values, once for where they stand.
        let values: toml::Table = toml::from_str(text).map_err(|e| file.not_toml(e))?;
        let spans = DeTable::parse(text).map_err(|e| file.not_toml(e))?;

        let mut config = Self::default();
        let (mut samplers, mut stages) = (None, None);
        for (key, place) in spans.get_ref() {
            let name: &str = key.get_ref();
            let at = Key { line: file.line(key.span().start), value: &values[name] };
            match name {
                "title" => config.title = Some(at.text("title")?),
                "source" => config.source = Some(at.text("source")?),
                "note" => config.note = Some(at.text("note")?),
                "seed" => {
                    let expected = "a whole number from 0 (in quotes from 2^63) or \"random\"";
                    config.seed = Seed::deserialize(at.value.clone())
                        .map_err(|_| at.wrong("seed", expected))?;
                }
                "rng" => {
                    config.rng = RngKind::deserialize(at.value.clone())
                        .map_err(|_| at.wrong("rng", "\"xoshiro256++\" or \"mt19937\""))?;
                }
                "samplers" => samplers = Some(at.samplers()?),
                "stage" => stages = Some((at.line, file.stages(place.get_ref(), &at)?)),
                _ => {
                    return Err(ChainError::UnknownKey {
                        line: at.line,
                        key: name.to_owned(),
                        nearest: nearest(name, KEYS.into_iter()).map(str::to_owned),
                        known: KEYS.map(str::to_owned).to_vec(),
                    });
                }
            }
        }
        match (samplers, stages) {
            (Some(list), None) => {
                config.stages = list.stages;
                config.implied_selector = true;
            }
            (None, Some((_, stages))) => config.stages = stages,
            (Some(_), Some((line, _))) => return Err(ChainError::TwoLists { line }),
            (None, None) => return Err(ChainError::NoStages),
        }
        Ok(config)
    }
}

struct File {
    /// Where each line begins.
    lines: Vec<usize>,
}

impl File {
    fn new(text: &str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Self { lines: std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect() }
    }

    fn line(&self, offset: usize) -> usize {
        self.lines.partition_point(|start| *start <= offset)
    }

    fn not_toml(&self, problem: toml::de::Error) -> ChainError {
        let line = problem.span().map_or(1, |span| self.line(span.start));
        ChainError::Toml { line, problem: Box::new(problem) }
    }

    /// The `[[stage]]` tables.
    fn stages(&self, spans: &DeValue<'_>, at: &Key<'_>) -> Result<Vec<StageConfig>, ChainError> {
        let wrong = || at.wrong("stage", "a list of tables, each begun by `[[stage]]`");
        let (DeValue::Array(spans), toml::Value::Array(values)) = (spans, at.value) else {
            return Err(wrong());
        };
        (1..)
            .zip(spans.iter().zip(values))
            .map(|(nth, (place, value))| {
                let (DeValue::Table(keys), toml::Value::Table(values)) = (place.get_ref(), value)
                else {
                    return Err(wrong());
                };
                let mut stage = StageConfig::new("");
                let mut params = values.clone();
                let name = params.remove("use");
                stage.params = params;
                stage.lines = keys
                    .keys()
                    .map(|key| (key.get_ref().to_string(), self.line(key.span().start)))
                    .collect();
                let line = Some(self.line(place.span().start));
                match name {
                    Some(toml::Value::String(name)) => stage.name = name,
                    Some(value) => {
                        let line = stage.lines["use"];
                        return Err(Key { line, value: &value }.wrong("use", "a stage's name"));
                    }
                    None => return Err(ChainError::NoName { at: Place { line, stage: nth } }),
                }
                Ok(stage)
            })
            .collect()
    }
}

/// A key's value, and the line it stands on.
struct Key<'a> {
    line: usize,
    value: &'a toml::Value,
}

impl Key<'_> {
    fn wrong(&self, key: &'static str, expected: &'static str) -> ChainError {
        let found = match self.value {
            toml::Value::Table(_) => "a table".to_owned(),
            toml::Value::Array(_) => "a list".to_owned(),
            value => format!("`{value}`"),
        };
        ChainError::Value { line: self.line, key, expected, found }
    }

    fn text(&self, key: &'static str) -> Result<String, ChainError> {
        self.value.as_str().map(str::to_owned).ok_or_else(|| self.wrong(key, "text in quotes"))
    }

    /// A list of stages, in one string or one string each.
    fn samplers(&self) -> Result<ChainConfig, ChainError> {
        let list = match self.value {
            toml::Value::String(list) => Some(list.clone()),
            toml::Value::Array(items) => {
                let items: Option<Vec<_>> = items.iter().map(toml::Value::as_str).collect();
                items.map(|items| items.join(";"))
            }
            _ => None,
        };
        let expected = "a list of stages, as in \"top_k;temperature\"";
        let list = list.ok_or_else(|| self.wrong("samplers", expected))?;
        let mut config = ChainConfig::from_samplers(&list).map_err(|mut error| {
            if let ChainError::EmptyName { at, .. } | ChainError::Braces { at, .. } = &mut error {
                at.line = Some(self.line);
            }
            error
        })?;
        for stage in &mut config.stages {
            stage.lines.insert("use".to_owned(), self.line);
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> String {
        text.parse::<ChainConfig>().expect_err("a broken file").to_string()
    }

    #[test]
    fn a_file_gives_every_key_it_holds() {
        let config: ChainConfig =
            "title = 't'\nsource = 's'\nnote = 'n'\nseed = 7\nrng = 'mt19937'\n\
                                   [[stage]]\nuse = 'top_k'\nk = 3\n[[stage]]\nuse = 'dist'\n"
                .parse()
                .expect("a chain file");
        assert_eq!(config.title.as_deref(), Some("t"));
        assert_eq!(config.source.as_deref(), Some("s"));
        assert_eq!(config.note.as_deref(), Some("n"));
        assert_eq!(config.seed, Seed::Fixed(7));
        assert_eq!(config.rng, RngKind::Mt19937);
        assert_eq!(config.to_string(), "top_k{k=3};dist");
    }

    #[test]
    fn the_list_form_is_the_same_as_text_and_as_array() {
        for list in [r#""top_k;top_p;temperature""#, r#"["top_k", "top_p", "temperature"]"#] {
            let config: ChainConfig = format!("samplers = {list}").parse().expect("a chain file");
            assert_eq!(config.to_string(), "top_k;top_p;temperature");
        }
    }

    #[test]
    fn every_u64_can_be_a_seed() {
        let config: ChainConfig =
            "seed = '18446744073709551615'\nsamplers = ''".parse().expect("a chain file");
        assert_eq!(config.seed, Seed::Fixed(u64::MAX));
    }

    #[test]
    fn messages_say_where_what_and_what_would_be_right() {
        for (text, expected) in [
            (
                "seeed = 1\n[[stage]]\nuse = 'dist'",
                "line 1: no key is called `seeed`; did you mean `seed`? (a chain file has title, \
                 source, note, seed, rng, samplers, stage)",
            ),
            (
                "seed = -1\nsamplers = ''",
                "line 1: `seed` must be a whole number from 0 (in quotes from 2^63) or \"random\", \
                 got `-1`",
            ),
            (
                "\nrng = 'mt'\nsamplers = ''",
                "line 2: `rng` must be \"xoshiro256++\" or \"mt19937\", got `\"mt\"`",
            ),
            ("title = 3\nsamplers = ''", "line 1: `title` must be text in quotes, got `3`"),
            (
                "stage = 3",
                "line 1: `stage` must be a list of tables, each begun by `[[stage]]`, got `3`",
            ),
            (
                "[[stage]]\nk = 3",
                "line 1, stage 1: `use` is missing; it names the stage, as in `use = \"top_k\"`",
            ),
            ("[[stage]]\nuse = 3", "line 2: `use` must be a stage's name, got `3`"),
            (
                "samplers = ''\n[[stage]]\nuse = 'dist'",
                "line 2: `samplers` and `[[stage]]` both list the stages; keep one of them",
            ),
            (
                "seed = 1",
                "no stages: a chain file lists them as `[[stage]]` tables or as `samplers = \"...\"`",
            ),
        ] {
            assert_eq!(message(text), expected, "for {text:?}");
        }
        assert!(message("seed = 1\nx x").starts_with("line 2: not TOML: "));
    }
}
