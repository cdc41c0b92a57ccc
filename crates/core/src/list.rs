//! Chains as lists: `top_k{k=40};temperature`, and letters.

use crate::{ChainConfig, ChainError, Place, Registry, StageConfig};

impl ChainConfig {
    /// Reads a list of stages: names, separated by `;` or `,`, each with
    /// parameters in braces where they are not the defaults. Spaces around
    /// names do not matter. Where no listed stage selects a token, `dist` is
    /// added at the end; so the empty list is `dist` alone.
    ///
    /// ```
    /// # use logitchain_core::ChainConfig;
    /// let config = ChainConfig::from_samplers("top_k{k=40}; temperature")?;
    /// assert_eq!(config.stages[0].params["k"], 40.into());
    /// assert_eq!(config.stages[1].name, "temperature");
    /// # Ok::<(), logitchain_core::ChainError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If a place between separators is empty or the braces hold no parameters.
    pub fn from_samplers(list: &str) -> Result<Self, ChainError> {
        let stages = if list.trim().is_empty() {
            Vec::new()
        } else {
            split(list)
                .into_iter()
                .enumerate()
                .map(|(nth, text)| parse_stage(list, nth + 1, text))
                .collect::<Result<_, _>>()?
        };
        Ok(Self { stages, implied_selector: true, ..Self::default() })
    }

    /// Reads llama.cpp's `--sampling-seq`: a letter for each stage. `dist` is
    /// added at the end where no stage selects a token.
    ///
    /// # Errors
    ///
    /// If no stage has a letter.
    pub fn from_letters(letters: &str, registry: &Registry) -> Result<Self, ChainError> {
        let stages = (1..).zip(letters.chars()).map(|(stage, letter)| {
            let known = || {
                let all = registry.iter().filter_map(|s| Some(format!("{} {}", s.letter?, s.name)));
                all.collect::<Vec<_>>().join(", ")
            };
            registry.by_letter(letter).map(|s| StageConfig::new(s.name)).ok_or_else(|| {
                let at = Place { line: None, stage };
                ChainError::UnknownLetter { at, letter, known: known() }
            })
        });
        let stages = stages.collect::<Result<_, _>>()?;
        Ok(Self { stages, implied_selector: true, ..Self::default() })
    }
}

/// The characters of a list that stand outside of quotes, each with its place
/// and with the number of braces and brackets that are open around it.
fn unquoted(list: &str) -> impl Iterator<Item = (usize, char, usize)> + '_ {
    let mut depth = 0_usize;
    let mut quote = None;
    let mut escaped = false;
    list.char_indices().filter_map(move |(at, c)| {
        if let Some(open) = quote {
            if c == open && !escaped {
                quote = None;
            }
            escaped = c == '\\' && open == '"' && !escaped;
            return None;
        }
        match c {
            '"' | '\'' if depth > 0 => quote = Some(c),
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        Some((at, c, depth))
    })
}

/// Cuts a list at the separators outside braces and quotes.
fn split(list: &str) -> Vec<&str> {
    let mut start = 0;
    let mut items = Vec::new();
    for (at, c, depth) in unquoted(list) {
        if depth == 0 && matches!(c, ';' | ',') {
            items.push(&list[start..at]);
            start = at + 1;
        }
    }
    items.push(&list[start..]);
    items
}

/// Reads one stage of a list: a name, and parameters in braces if any.
fn parse_stage(list: &str, stage: usize, text: &str) -> Result<StageConfig, ChainError> {
    let at = Place { line: None, stage };
    let text = text.trim();
    let (name, braces) = match text.find('{') {
        Some(open) => (text[..open].trim_end(), Some(&text[open..])),
        None => (text, None),
    };
    if name.is_empty() {
        return Err(ChainError::EmptyName { at, list: list.to_owned() });
    }
    let mut config = StageConfig::new(name);
    if let Some(braces) = braces {
        let problem = |problem: &str| ChainError::Braces {
            at,
            text: text.to_owned(),
            problem: problem.trim().to_owned(),
        };
        // Where the first brace closes, the stage must end: what came after would
        // be TOML of its own, or a comment.
        let close = unquoted(braces).find(|(_, c, depth)| *c == '}' && *depth == 0);
        if close.is_none_or(|(at, ..)| at + 1 < braces.len()) {
            return Err(problem("the braces must close at its end"));
        }
        // An inline table is TOML, so lists and files share one syntax.
        let document: toml::Table =
            toml::from_str(&format!("x = {braces}")).map_err(|e| problem(e.message()))?;
        match document.into_iter().next() {
            Some((_, toml::Value::Table(params))) => config.params = params,
            _ => return Err(problem("the braces hold no parameters")),
        }
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &str) -> Vec<String> {
        let config = ChainConfig::from_samplers(list).expect("a list");
        config.stages.into_iter().map(|stage| stage.name).collect()
    }

    #[test]
    fn separators_are_semicolons_or_commas_and_spaces_do_not_matter() {
        assert_eq!(names("top_k; temperature "), ["top_k", "temperature"]);
        assert_eq!(names("top_k,temperature"), ["top_k", "temperature"]);
        assert!(names(" ").is_empty());
    }

    #[test]
    fn separators_inside_braces_and_quotes_belong_to_the_parameters() {
        let list = r#"dry{breakers=["\n", ";", ",", "\"}"], base=1.75};top_k"#;
        let config = ChainConfig::from_samplers(list).expect("a list");
        assert_eq!(config.stages.len(), 2);
        let breakers = config.stages[0].params["breakers"].as_array().expect("an array");
        assert_eq!(breakers[3].as_str(), Some("\"}"));
    }

    #[test]
    fn an_empty_place_is_an_error_that_shows_the_list() {
        let error = ChainConfig::from_samplers("top_k;;temperature").expect_err("empty");
        assert_eq!(
            error.to_string(),
            "stage 2 of `top_k;;temperature` is empty; write a stage's name between the separators"
        );
    }

    #[test]
    fn broken_braces_are_errors_that_show_the_stage() {
        for list in [
            "top_k{k=40",
            "top_k{k}",
            "top_k{k=}",
            "top_k{k=1}x",
            "top_k{k=1,k=2}",
            "top_k{k=1}\ntemperature={t=0.5}",
            "top_k{k=1} # temperature{t=0.5}",
            "penalties{last_n=all}",
        ] {
            let error = ChainConfig::from_samplers(list).expect_err("broken").to_string();
            assert!(error.starts_with(&format!("stage 1: `{list}` is not a stage")), "{error}");
        }
    }

    #[test]
    fn a_list_prints_as_it_is_read() {
        let list = r#"top_k{k=40};x{a="b;c",d=[1, 2]};dist"#;
        let config = ChainConfig::from_samplers(list).expect("a list");
        assert_eq!(config.to_string(), list);
    }
}
