use super::decimal::{Decimal, ONE, Range};
use crate::{report::Failure, stage_flags::Given};

/// So many settings are compared at most.
const MAX_SETTINGS: usize = 1000;

/// All combinations of the values of some flags.
#[derive(Debug)]
pub(crate) struct Grid {
    /// In the order of the command line.
    flags: Vec<Vec<Given>>,
}

/// One combination.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) flags: Vec<Given>,
    /// One of each flag that has several, in the order of the command line.
    pub(crate) values: Vec<String>,
}

impl Grid {
    /// Reads the flags' values.
    pub(crate) fn new(given: Vec<Given>) -> Result<Self, Failure> {
        let mut settings = 1_usize;
        let mut flags = Vec::with_capacity(given.len());
        for given in given {
            let Some(text) = given.several() else {
                flags.push(vec![given]);
                continue;
            };
            let texts = values(text)
                .map_err(|problem| Failure::Usage(format!("{}: {problem}", given.flag)))?;
            settings = settings.saturating_mul(texts.len());
            flags.push(texts.into_iter().map(|text| given.with(text)).collect());
        }
        if settings > MAX_SETTINGS {
            let factors: Vec<String> = flags
                .iter()
                .filter(|values: &&Vec<Given>| values.len() > 1)
                .map(|values| format!("{} values of {}", values.len(), values[0].flag))
                .collect();
            return Err(Failure::Usage(format!(
                "{} make {settings} settings; {MAX_SETTINGS} are the most",
                factors.join(" times ")
            )));
        }
        Ok(Self { flags })
    }

    /// The flags that have several values.
    pub(crate) fn axes(&self) -> impl Iterator<Item = &str> {
        self.flags.iter().filter(|values| values.len() > 1).map(|values| &*values[0].flag)
    }

    /// All combinations; the values of the first flag change last.
    pub(crate) fn settings(&self) -> Vec<Setting> {
        let mut settings = vec![Setting { flags: Vec::new(), values: Vec::new() }];
        for values in &self.flags {
            let with = |setting: &Setting, given: &Given| {
                let mut setting = setting.clone();
                if values.len() > 1 {
                    setting.values.extend(given.several().map(str::to_owned));
                }
                setting.flags.push(given.clone());
                setting
            };
            settings = settings
                .iter()
                .flat_map(|setting| values.iter().map(move |given| with(setting, given)))
                .collect();
        }
        settings
    }
}

/// Reads a list of values and ranges.
fn values(text: &str) -> Result<Vec<String>, String> {
    if text.trim().is_empty() {
        return Err(
            "it has no value; write one, a list such as 0.5,1, or a range such as 0.2..2:0.2"
                .to_owned(),
        );
    }
    let mut values: Vec<String> = Vec::new();
    for element in text.split(',').map(str::trim) {
        let new = if element.is_empty() {
            return Err(format!("`{text}` has a comma too many"));
        } else if element.contains("..") {
            let range = range(element)?;
            if range.len > MAX_SETTINGS as i128 {
                return Err(format!(
                    "`{element}` are {} values, and {MAX_SETTINGS} settings are the most; take a \
                     larger step",
                    range.len
                ));
            }
            range.texts().collect()
        } else {
            vec![element.to_owned()]
        };
        for value in new {
            let number = |text: &str| text.parse::<f64>().ok();
            let same = |other: &String| {
                *other == value || number(other).is_some_and(|n| number(&value) == Some(n))
            };
            if values.iter().any(same) {
                return Err(format!("`{text}` has {value} twice"));
            }
            values.push(value);
        }
    }
    Ok(values)
}

/// Reads `0.2..2.0:0.2`.
fn range(text: &str) -> Result<Range, String> {
    let (low, rest) = text.split_once("..").unwrap_or((text, ""));
    let Some((high, step)) = rest.split_once(':') else {
        return Err(format!("`{text}` lacks its step, as in {text}:0.1"));
    };
    let number = |text: &str| {
        Decimal::parse(text.trim()).ok_or_else(|| {
            format!("`{text}` is no decimal number; a range is low..high:step, as in 0.2..2:0.2")
        })
    };
    let (from, to, by) = (number(low)?, number(high)?, number(step)?);
    Range::new(from, to, by).ok_or_else(|| {
        let forward = Range::new(from, to, ONE).is_some();
        match (forward, step.trim().trim_start_matches('-')) {
            (true, _) => {
                format!("a step of {step} gets nowhere; write one above 0, as in {low}..{high}:0.1")
            }
            (false, step) => format!("`{text}` goes from high to low; write {high}..{low}:{step}"),
        }
    })
}
