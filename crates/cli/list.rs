use logitchain_core::{
    ChainConfig, ChainError, NoVocab, Param, Registration, Registry, StageConfig,
};

use logitchain_engine::Supported;

use crate::{args::ListArgs, output, report::Failure, stage_flags::dashed, value::value};

/// Prints what stages there are, or what there is to know about one.
pub(crate) fn list(args: &ListArgs, registry: &Registry) -> Result<(), Failure> {
    match &args.stage {
        Some(name) => match registry.get(name) {
            Some(stage) => output::write(&full(stage)),
            None => Err(unknown(name, registry)),
        },
        None if args.engine && args.markdown => output::write(&engine_markdown()),
        None if args.engine => output::write(&engine()),
        None if args.markdown => output::write(&markdown(registry)),
        None => output::write(&table(registry)),
    }
}

/// What files the engine runs: what is in a file, which it may be, and a remark.
fn engine_rows() -> Vec<[String; 3]> {
    let Supported { architectures, weight_types, tokenizers, .. } = Supported::new();
    let architecture = |(name, models): (&str, &str)| {
        ["architecture".to_owned(), name.to_owned(), models.to_owned()]
    };
    let mut rows: Vec<_> = architectures.into_iter().map(architecture).collect();
    rows.push(["weights".to_owned(), weight_types.join(", "), String::new()]);
    rows.extend(tokenizers.into_iter().map(|(model, kind, pre)| {
        let pre = match pre.is_empty() {
            true => String::new(),
            false => format!("; pre-tokenizers {}", pre.join(", ")),
        };
        ["tokenizer".to_owned(), model.to_owned(), format!("{kind}{pre}")]
    }));
    rows
}

fn engine() -> String {
    let rows = engine_rows();
    let width = rows.iter().map(|[_, name, _]| name.len()).filter(|&n| n < 20).max().unwrap_or(0);
    let line = |[what, name, remark]: &[String; 3]| {
        format!("{}\n", format!("{what:<12}  {name:<width$}  {remark}").trim_end())
    };
    rows.iter().map(line).collect()
}

fn engine_markdown() -> String {
    let head = "| in the file | | |\n|---|---|---|\n".to_owned();
    let code = |names: &str| names.split(", ").map(|n| format!("`{n}`")).collect::<Vec<_>>();
    let row = |[what, name, remark]: [String; 3]| {
        format!("| {what} | {} | {remark} |\n", code(&name).join(", "))
    };
    std::iter::once(head).chain(engine_rows().into_iter().map(row)).collect()
}

/// What a chain that names the stage would say, but for the place in it.
fn unknown(name: &str, registry: &Registry) -> Failure {
    let mut chain = ChainConfig::default();
    chain.stages.push(StageConfig::new(name));
    match chain.build(registry, &NoVocab) {
        Err(ChainError::UnknownStage { name, nearest, known, .. }) => {
            let hint = nearest.map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
            let known = known.join(", ");
            Failure::Usage(format!("no stage is called `{name}`{hint} (there are {known})"))
        }
        Err(error) => error.into(),
        Ok(_) => Failure::Usage(format!("no stage is called `{name}`")),
    }
}

fn table(registry: &Registry) -> String {
    let head = ["STAGE", "KIND", "LETTER", "CRATE", "ALIASES", "OFF", "PARAMETERS"];
    let rows = registry.iter().map(|stage| {
        let name = match stage.label() {
            label if label == stage.name.replace('_', "-") => stage.name.to_owned(),
            label => format!("{} ({label})", stage.name),
        };
        let params: Vec<String> = stage.params().iter().map(brief).collect();
        [
            name,
            stage.kind.to_string(),
            stage.letter.map_or_else(dash, String::from),
            stage.origin.to_owned(),
            or_dash(stage.aliases.join(",")),
            or_dash(off(stage)),
            or_dash(params.join("  ")),
        ]
    });
    let rows: Vec<_> = std::iter::once(head.map(str::to_owned)).chain(rows).collect();
    let widths: Vec<usize> = (0..head.len())
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    let lines = rows.iter().map(|row| {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}"));
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    });
    lines.collect()
}

fn markdown(registry: &Registry) -> String {
    let head = "| stage | kind | what it does | parameters | off | letter, aliases |\n\
                |---|---|---|---|---|---|\n";
    let code = |text: String| if text.is_empty() { text } else { format!("`{text}`") };
    let rows = registry.iter().map(|stage| {
        let params: Vec<_> = stage.params().iter().map(|param| code(brief(param))).collect();
        let names = stage.letter.iter().map(char::to_string);
        let names = names.chain(stage.aliases.iter().map(|&alias| alias.to_owned()));
        let cells = [
            code(stage.name.to_owned()),
            stage.kind.to_string(),
            stage.summary(),
            params.join("<br>"),
            code(off(stage)),
            names.map(code).collect::<Vec<_>>().join(", "),
        ];
        format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|")).join(" | "))
    });
    std::iter::once(head.to_owned()).chain(rows).collect()
}

fn full(stage: &Registration) -> String {
    let mut text = format!("{}\n\n{}\n\n", stage.name, stage.description().trim());
    let mut line = |what: &str, value: &str| {
        if !value.is_empty() {
            text += &format!("{what:<9} {value}\n");
        }
    };
    line("kind", &stage.kind.to_string());
    line("printed", &stage.label());
    line("letter", &stage.letter.map_or_else(String::new, String::from));
    line("aliases", &stage.aliases.join(", "));
    line("off", &off(stage));
    line("crate", stage.origin);
    let params = stage.params();
    if !params.is_empty() {
        text += "\nparameters\n";
    }
    for param in params {
        text += &format!("  {}\n", brief(&param));
        for line in param.description.trim().lines() {
            text += &format!("      {line}\n");
        }
        if !param.flags.is_empty() {
            let flags: Vec<_> = param.flags.iter().map(|flag| dashed(flag)).collect();
            text += &format!("      flags: {}\n", flags.join(", "));
        }
    }
    text
}

/// `p=0.95 [0, 1]`: the default, and the range.
fn brief(param: &Param) -> String {
    format!("{}={}{}", param.name, value(&param.default), range(param))
}

/// ` [0, 1]`, if there is a range; a round bracket stands where the bound itself is
/// outside.
pub(crate) fn range(param: &Param) -> String {
    let low = match (param.min, param.above) {
        (Some(min), _) => Some(format!("[{min}")),
        (None, Some(above)) => Some(format!("({above}")),
        (None, None) => None,
    };
    match (low, param.max) {
        (None, None) => String::new(),
        (low, max) => {
            let low = low.unwrap_or_else(|| "(..".to_owned());
            format!(" {low}, {}", max.map_or_else(|| "..)".to_owned(), |max| format!("{max}]")))
        }
    }
}

/// The parameters that turn a stage off. Empty for a stage that is never off.
fn off(stage: &Registration) -> String {
    let off = stage.off().unwrap_or_default();
    let settings = off.iter().map(|(param, off)| format!("{param}={}", value(off)));
    settings.collect::<Vec<_>>().join(" ")
}

fn dash() -> String {
    "-".to_owned()
}

fn or_dash(text: String) -> String {
    if text.is_empty() { dash() } else { text }
}
