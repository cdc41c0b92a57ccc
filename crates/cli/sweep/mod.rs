//! Settings of a chain, side by side.

mod decimal;
mod draws;
mod grid;
mod measure;
mod output;
mod picture;

use std::fs;

use logitchain_core::Registry;

use self::{
    grid::Grid,
    measure::Measures,
    output::{Row, Sweep},
};
use crate::{
    args::SweepArgs,
    chain_args::{ChainPlan, WrittenChain},
    logits::Logits,
    output::{check_new, tell, write, write_failure, write_styled},
    progress::Progress,
    report::Failure,
    stage_flags::Given,
};

/// What is compared where nothing is asked for.
const DOZEN: [&str; 12] = [
    "dist",
    "temperature{t=0.7}",
    "temperature{t=1.5}",
    "top_k{k=40}",
    "top_p{p=0.9}",
    "min_p{p=0.05}",
    "typical{p=0.9}",
    "top_n_sigma{n=1}",
    "xtc{probability=0.5,threshold=0.1}",
    "temperature{t=1.5};top_p{p=0.9}",
    "temperature{t=1.5};min_p{p=0.05}",
    "top_k{k=40};top_p{p=0.95};min_p{p=0.05};temperature{t=0.8}",
];

/// A setting, and what is its own in it.
struct Planned {
    name: String,
    values: Vec<String>,
    plan: ChainPlan,
}

/// Compares settings of a chain.
pub(crate) fn sweep(
    args: &SweepArgs,
    given: Vec<Given>,
    registry: &Registry,
) -> Result<(), Failure> {
    let dozen = given.is_empty() && !args.chain.choose();
    let (axes, planned) = if dozen {
        (Vec::new(), the_dozen(args, registry)?)
    } else {
        let grid = Grid::new(given)?;
        (grid.axes().map(str::to_owned).collect(), combinations(args, &grid, registry)?)
    };
    if args.svg.is_some() {
        picture::check_axis(&axes, planned.iter().map(|planned| &*planned.values))?;
    }
    if args.svg.is_some() && args.svg == args.csv {
        let problem = "--csv and --svg name the same file; each needs one of its own";
        return Err(Failure::Usage(problem.to_owned()));
    }
    for (flag, path) in [("--csv", &args.csv), ("--svg", &args.svg)] {
        if path.as_ref().is_some_and(|path| args.logits.reads(path)) {
            let problem = format!("{flag} would overwrite the logits; name another file");
            return Err(Failure::Usage(problem));
        }
        path.as_ref().map_or(Ok(()), |path| check_new(flag, path, args.force))?;
    }

    let mut source = args.logits.open()?;
    let step = args.logits.step();
    if step > 1 && matches!(source, Logits::Prompt { .. }) {
        return Err(Failure::Usage(format!(
            "--step {step} is for --logits-file: every setting would write a text of its own up to \
             there; `record` writes such a file"
        )));
    }
    let (mut logits, mut settings) = (Vec::new(), Vec::new());
    let seed = planned[0].plan.seed()?;
    let progress = Progress::of_settings(planned.len());
    for Planned { name, values, plan } in planned {
        let mut chain = || {
            let mut chain = source.chain(plan.clone(), registry)?;
            if step == 1 && !logits.is_empty() {
                // The model need not read the prompt again.
                source.prompt().iter().for_each(|token| chain.accept(*token));
            } else {
                logits = source.at(step, &mut chain)?;
            }
            Ok::<_, Failure>(chain)
        };
        let (one, again) = (chain()?, chain()?);
        let printed = one.to_string();
        let measures = Measures::of(one, again, step, &logits, args.draws).map_err(|source| {
            Failure::Setting { setting: name.clone(), source: Box::new(source) }
        })?;
        settings.push(Row { setting: name, values, chain: printed, measures });
        progress.done(settings.len());
    }
    progress.clear();
    let sweep = Sweep { seed, draws: args.draws, vocabulary: logits.len(), axes, settings };

    tell(format_args!("seed: {}", sweep.seed));
    if !dozen && let Some(row) = sweep.settings.first() {
        tell(format_args!("sampler chain: {}", row.chain));
    }
    for row in sweep.settings.iter().filter(|row| row.measures.moves) {
        tell(format_args!(
            "note: `{}` changes with every draw, so that its draws have no one distribution",
            row.setting
        ));
    }
    for (flag, path, content) in [
        ("--csv", &args.csv, Sweep::csv as fn(&Sweep) -> String),
        ("--svg", &args.svg, picture::svg),
    ] {
        if let Some(path) = path {
            // It may have come into being meanwhile.
            check_new(flag, path, args.force)?;
            fs::write(path, content(&sweep)).map_err(|source| write_failure(path, source))?;
        }
    }
    if args.json { write(&sweep.json()) } else { write_styled(&sweep.table()) }
}

fn the_dozen(args: &SweepArgs, registry: &Registry) -> Result<Vec<Planned>, Failure> {
    let general = args.chain.general.drawn()?;
    let planned = DOZEN.iter().map(|list| {
        let written = WrittenChain::of("the dozen", list, &general, registry)?;
        let plan = written.plan(Vec::new(), registry)?;
        Ok(Planned { name: (*list).to_owned(), values: Vec::new(), plan })
    });
    planned.collect()
}

fn combinations(
    args: &SweepArgs,
    grid: &Grid,
    registry: &Registry,
) -> Result<Vec<Planned>, Failure> {
    let written = WrittenChain::new(&args.chain, registry)?;
    let planned = grid.settings().into_iter().map(|setting| {
        let name = if setting.values.is_empty() {
            // The only one.
            written.list()
        } else {
            let flags = grid.axes().zip(&setting.values);
            flags.map(|(flag, value)| format!("{flag} {value}")).collect::<Vec<_>>().join(" ")
        };
        let plan = written.clone().plan(setting.flags, registry)?;
        Ok(Planned { name, values: setting.values, plan })
    });
    planned.collect()
}
