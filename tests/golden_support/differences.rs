//! The list of cases that we answer differently on purpose.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Verdict, data::read};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    difference: Vec<Entry>,
}

/// Cases that differ for one reason.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// Where the documentation tells of it.
    heading: String,
    /// For people.
    #[allow(dead_code, reason = "its presence is checked")]
    reason: String,
    /// Our answer, case by case.
    #[serde(default)]
    ours: BTreeMap<String, String>,
    /// For cases that are all refused alike: what the error says.
    refused: Option<String>,
    #[serde(default)]
    cases: Vec<String>,
}

/// What is on the list about a case.
#[derive(Debug)]
enum Ours {
    /// This answer.
    Is(String),
    /// An error with this text in it.
    Says(String),
}

#[derive(Debug)]
pub(crate) struct Differences {
    cases: BTreeMap<String, Ours>,
    headings: Vec<String>,
}

impl Differences {
    pub(crate) fn read() -> Self {
        let file: File = toml::from_str(&read("differences.toml")).expect("a list of differences");
        let mut all = BTreeMap::new();
        let mut headings = Vec::new();
        for entry in file.difference {
            let mut add = |case: String, ours| {
                let old = all.insert(case.clone(), ours);
                assert!(old.is_none(), "{case} is listed twice");
            };
            entry.ours.into_iter().for_each(|(case, ours)| add(case, Ours::Is(ours)));
            for case in entry.cases {
                let says = entry.refused.clone().expect("`cases` stand with `refused`");
                add(case, Ours::Says(says));
            }
            headings.push(entry.heading);
        }
        Self { cases: all, headings }
    }

    /// Where the documentation tells of each group, in the order of the list.
    pub(crate) fn headings(&self) -> &[String] {
        &self.headings
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.cases.keys().map(String::as_str)
    }

    /// What is wrong with a case's outcome, if anything.
    pub(crate) fn judge(&self, case: &str, verdict: Verdict) -> Option<String> {
        match (self.cases.get(case), verdict) {
            (None, Ok(())) => None,
            (None, Err(got)) => Some(format!("{case} differs and is not listed; ours: \"{got}\"")),
            (Some(_), Ok(())) => Some(format!("{case} is listed, but is the same")),
            (Some(Ours::Is(ours)), Err(got)) if *ours == got => None,
            (Some(Ours::Says(text)), Err(got)) if got.contains(text) => None,
            (Some(ours), Err(got)) => {
                Some(format!("{case}: ours is \"{got}\", listed is {ours:?}"))
            }
        }
    }
}
