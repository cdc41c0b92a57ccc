use serde::Serialize;

use super::measure::Measures;
use crate::table::{Align, Table};

/// A comparison of settings.
#[derive(Debug, Serialize)]
pub(crate) struct Sweep {
    pub(crate) seed: u64,
    pub(crate) draws: u32,
    /// How many logits there are.
    pub(crate) vocabulary: usize,
    /// The flags that have several values.
    pub(crate) axes: Vec<String>,
    pub(crate) settings: Vec<Row>,
}

/// One setting.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) setting: String,
    /// Of the axes, as typed.
    pub(crate) values: Vec<String>,
    /// As it prints.
    pub(crate) chain: String,
    #[serde(flatten)]
    pub(crate) measures: Measures,
}

impl Sweep {
    /// With escape sequences for styles.
    pub(crate) fn table(&self) -> String {
        let numbers = ["entropy", "tokens", "removed", "drawn entropy", "p-value"];
        let numbers = numbers.map(|head| (Align::Right, head.to_owned()));
        let mut columns = vec![(Align::Left, "setting".to_owned())];
        columns.extend(numbers);
        columns.push((Align::Left, "repeats".to_owned()));
        let mut table = Table::new(columns);
        for row in &self.settings {
            let measures = &row.measures;
            table.row(vec![
                row.setting.as_str().into(),
                format!("{:.3}", measures.entropy_bits).into(),
                measures.reachable_tokens.to_string().into(),
                format!("{:.4}", measures.removed_mass).into(),
                format!("{:.3}", measures.drawn_entropy_bits).into(),
                measures.p_value.map_or_else(|| "-".to_owned(), |p| format!("{p:.3}")).into(),
                yes(measures.repeats).into(),
            ]);
        }
        table.render()
    }

    pub(crate) fn json(&self) -> String {
        let json = serde_json::to_string_pretty(self).expect("names are text, numbers are finite");
        json + "\n"
    }

    /// A column for each flag that has several values.
    pub(crate) fn csv(&self) -> String {
        let measures = [
            "entropy_bits",
            "reachable_tokens",
            "removed_mass",
            "drawn_entropy_bits",
            "p_value",
            "repeats",
        ];
        let mut writer = csv::Writer::from_writer(Vec::new());
        let flags = self.axes.iter().map(|flag| flag.trim_start_matches('-'));
        let head = std::iter::once("setting").chain(flags).chain(measures);
        let mut write = |record: Vec<String>| {
            writer.write_record(record).expect("all records are as long, and memory takes them");
        };
        write(head.map(str::to_owned).collect());
        for Row { setting, values, measures, .. } in &self.settings {
            let cells = [
                measures.entropy_bits.to_string(),
                measures.reachable_tokens.to_string(),
                measures.removed_mass.to_string(),
                measures.drawn_entropy_bits.to_string(),
                measures.p_value.map_or_else(String::new, |p| p.to_string()),
                yes(measures.repeats).to_owned(),
            ];
            let record = std::iter::once(setting.clone()).chain(values.iter().cloned());
            write(record.chain(cells).collect());
        }
        let bytes = writer.into_inner().expect("memory takes all");
        String::from_utf8(bytes).expect("records are text")
    }
}

fn yes(is: bool) -> &'static str {
    if is { "yes" } else { "NO" }
}
