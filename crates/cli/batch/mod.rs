//! Many requests from a file, over one model.

mod line;
mod results;

use std::{
    collections::{HashMap, HashSet},
    ffi::OsString,
    fs::File,
    io::{self, BufRead, BufReader},
    path::Path,
};

use clap::{ArgMatches, Command};
use logitchain_core::{Chain, Registry, Seed};
use logitchain_engine::{
    EngineError, GenerateOptions, GgufModel, Request, Scheduler, SchedulerLimits, Special,
    prompt_tokens,
};

use self::{
    line::{Line, LineReader},
    results::{Expected, Out},
};
use crate::{
    args::BatchArgs,
    chain_args::ChainPlan,
    escape::unescape,
    generate::describe,
    input::{self, Lines},
    input_error::InputError,
    many::{self, Outcome},
    output::tell,
    progress::Progress,
    report::{self, Failure},
    run::DEFAULT_LIMIT,
    stage_flags::StageFlags,
};

/// A million bytes.
const MB: usize = 1_000_000;

/// So many chains are told on stderr.
const TOLD: usize = 4;

/// Continues the texts of a file.
pub(crate) fn batch(
    args: &BatchArgs,
    given: &ArgMatches,
    flags: &StageFlags,
    program: &Command,
    registry: &Registry,
) -> Result<(), Failure> {
    let reader = LineReader::new(flags, program, given);
    let work = Work::read(&args.file, &args.model.identity(), reader, registry)?;
    let all = work.jobs.iter().fold(0_usize, |all, job| all.saturating_add(job.samples));
    let mut out = Out::open(args.out.as_deref(), work.texts().map(|text| text.expected()))?;
    if let Some(path) = args.out.as_deref().filter(|_| out.done > 0) {
        let (done, path) = (out.done, path.display());
        tell(format_args!("{done} of {all} results are in '{path}' already"));
    }
    if out.done < all {
        compute(args, &work, all, &mut out, registry)?;
    }
    match out.failed {
        0 => Ok(()),
        failed => Err(Failure::Texts { failed, all }),
    }
}

/// Computes the results that are not there.
fn compute(
    args: &BatchArgs,
    work: &Work,
    all: usize,
    out: &mut Out,
    registry: &Registry,
) -> Result<(), Failure> {
    let (model, _) = args.model.load()?;
    let chains = work.chains(&model, registry)?;
    chains.iter().take(TOLD).for_each(describe);
    if chains.len() > TOLD {
        tell(format_args!("and {} chains more", chains.len() - TOLD));
    }
    let mut limits = SchedulerLimits::default();
    limits.texts = args.parallel;
    limits.memory = args.memory.map(|mb| mb.get().saturating_mul(MB));

    check_room(work, &model, &chains, limits, out.done)?;

    let progress = Progress::of_texts(all, out.done, args.out.is_none());
    let requests = work.texts().skip(out.done).map(|text| text.begin(&model, &chains));
    let mut texts = work.texts().skip(out.done);
    let written = many::in_order(&model, limits, requests, |outcome| {
        if let Some(text) = texts.next() {
            out.write(&text.expected(), &result(&outcome), outcome.end.is_err())?;
            progress.done(out.done);
        }
        Ok(())
    });
    progress.clear();
    written
}

/// Whether there is memory for each text that is still to be written. Where there is
/// not, that is no result: with more memory it would be another.
fn check_room(
    work: &Work,
    model: &GgufModel,
    chains: &[Chain],
    limits: SchedulerLimits,
    done: usize,
) -> Result<(), Failure> {
    if limits.memory.is_none() {
        return Ok(());
    }
    let mut scheduler = Scheduler::new(model, limits);
    let mut checked = 0;
    for text in work.texts().skip(done) {
        let line = text.job.line;
        if line == checked {
            continue;
        }
        checked = line;
        // What else may be wrong is said in the result.
        let Ok(request) = text.begin(model, chains) else { continue };
        match scheduler.submit(request) {
            Ok(request) => _ = scheduler.cancel(request),
            Err(error @ EngineError::CacheLimit { .. }) => return Err(work.at(line, error.into())),
            Err(_) => {}
        }
    }
    Ok(())
}

/// All that is to be done.
#[derive(Debug)]
struct Work {
    file: String,
    jobs: Vec<Job>,
    plans: Vec<Plan>,
}

/// A chain of some of the lines.
#[derive(Debug)]
struct Plan {
    plan: ChainPlan,
    /// Seeds are tried on it.
    trial: Chain,
    /// The line that was the first to have it.
    line: usize,
    /// Whether it comes of the flags of `batch` alone.
    is_default: bool,
}

/// A line's request.
#[derive(Debug)]
struct Job {
    line: usize,
    /// As JSON.
    id: String,
    /// Of all that decides the text but for the seed.
    fingerprint: u64,
    prompt: String,
    special: Special,
    options: GenerateOptions,
    samples: usize,
    plan: usize,
    seed: u64,
    /// Whether the seed is another at every run of the program.
    random: bool,
}

/// One of the texts of a request.
#[derive(Clone, Copy, Debug)]
struct Text<'a> {
    job: &'a Job,
    nth: usize,
    seed: u64,
}

impl Work {
    /// Reads and checks all lines.
    fn read(
        path: &Path,
        model: &str,
        reader: LineReader<'_>,
        registry: &Registry,
    ) -> Result<Self, Failure> {
        if path == Path::new("-") {
            let stdin = io::stdin().lock();
            return Self::of("stdin", stdin, model, reader, registry, Failure::Stdin);
        }
        let failed = |source| Failure::Read { path: path.into(), source };
        let file: File = input::open(path).map_err(failed)?;
        let name = path.display().to_string();
        Self::of(&name, BufReader::new(file), model, reader, registry, failed)
    }

    fn of(
        file: &str,
        text: impl BufRead,
        model: &str,
        mut reader: LineReader<'_>,
        registry: &Registry,
        failed: impl Fn(InputError) -> Failure,
    ) -> Result<Self, Failure> {
        let mut work = Self { file: file.to_owned(), jobs: Vec::new(), plans: Vec::new() };
        let default = reader.default_chain();
        let mut plans = HashMap::<Vec<OsString>, usize>::new();
        let mut ids = HashMap::<String, usize>::new();
        let mut lines = Lines::new(text);
        for number in 1.. {
            let text = lines.next().map_err(&failed)?;
            if text.is_empty() {
                break;
            }
            if text.trim().is_empty() {
                continue;
            }
            let line = reader.read(&text).map_err(|failure| work.at(number, failure))?;
            let id = line.id.clone().unwrap_or_else(|| number.to_string());
            if let Some(other) = ids.insert(id.clone(), number) {
                let problem = format!("the id `{id}` is that of line {other} already");
                return Err(work.at(number, Failure::Usage(problem)));
            }
            let plan = match plans.get(&line.chain) {
                Some(plan) => *plan,
                None => {
                    let is_default = line.chain == default;
                    let plan = Plan::new(&line, number, is_default, registry);
                    work.plans.push(plan.map_err(|failure| {
                        // Then the line has nothing to do with it.
                        if is_default { failure } else { work.at(number, failure) }
                    })?);
                    plans.insert(line.chain.clone(), work.plans.len() - 1);
                    work.plans.len() - 1
                }
            };
            let job = Job::new(line, number, id, model, plan, &mut work.plans[plan]);
            work.jobs.push(job.map_err(|failure| work.at(number, failure))?);
        }
        if work.jobs.is_empty() {
            return Err(Failure::Usage(format!("{file} holds no requests; one is a line of JSON")));
        }
        Ok(work)
    }

    fn at(&self, line: usize, source: Failure) -> Failure {
        Failure::Line { file: self.file.clone(), line, source: Box::new(source) }
    }

    fn texts(&self) -> impl Iterator<Item = Text<'_>> {
        self.jobs.iter().flat_map(|job| {
            let rng = self.plans[job.plan].trial.rng();
            (0..job.samples).map(move |nth| {
                let seed = rng.nth_seed(job.seed, nth as u64);
                Text { job, nth, seed }
            })
        })
    }

    /// The chains, built once for all lines that have them.
    fn chains(&self, model: &GgufModel, registry: &Registry) -> Result<Vec<Chain>, Failure> {
        // Most of them are of all chains.
        let mut told = HashSet::new();
        let mut once = |line: String| {
            if !told.contains(&line) {
                tell(&line);
                told.insert(line);
            }
        };
        let built = self.plans.iter().map(|plan| {
            plan.plan.clone().for_model(registry, model, &mut once).map_err(|failure| {
                if plan.is_default { failure } else { self.at(plan.line, failure) }
            })
        });
        built.collect()
    }
}

impl Plan {
    fn new(
        line: &Line,
        number: usize,
        is_default: bool,
        registry: &Registry,
    ) -> Result<Self, Failure> {
        let plan = ChainPlan::new(&line.args.chain, line.given.clone(), registry)?;
        let trial = plan.on_trial(registry)?;
        Ok(Self { plan, trial, line: number, is_default })
    }
}

impl Job {
    fn new(
        line: Line,
        number: usize,
        id: String,
        model: &str,
        at: usize,
        plan: &mut Plan,
    ) -> Result<Self, Failure> {
        let Line { mut prompt, samples, args, .. } = line;
        let written = args.chain.general.seed.unwrap_or(plan.plan.own_seed());
        let seed = written.resolve()?;
        plan.trial.reseed(seed)?;
        if args.generate.escape {
            prompt = unescape(&prompt);
        }
        let special = if args.special { Special::Parse } else { Special::Plain };
        let options = args.generate.options(DEFAULT_LIMIT)?;
        let (chain, ends) = (plan.plan.config(), plan.plan.ignores_eos());
        let all = (model, &prompt, special, &options, &chain.stages, chain.rng, ends);
        let fingerprint = fingerprint(&format!("{all:?}"));
        Ok(Self {
            line: number,
            id,
            fingerprint,
            prompt,
            special,
            options,
            samples,
            plan: at,
            seed,
            random: written == Seed::Random,
        })
    }
}

/// A number that texts seldom share: FNV-1a, of 64 bits.
fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

impl Text<'_> {
    /// What its result begins with.
    fn expected(&self) -> Expected {
        let Job { id, fingerprint, samples, random, line, .. } = self.job;
        Expected {
            id: id.clone(),
            sample: (*samples > 1).then_some(self.nth),
            fingerprint: *fingerprint,
            seed: self.seed,
            random: *random,
            line: *line,
        }
    }

    fn begin(&self, model: &GgufModel, chains: &[Chain]) -> Result<Request, Failure> {
        let Job { prompt, special, options, plan, .. } = self.job;
        let mut chain = chains[*plan].clone();
        chain.reseed(self.seed)?;
        let prompt = prompt_tokens(model.tokenizer(), prompt, *special)?;
        Ok(Request { prompt, chain, options: options.clone() })
    }
}

/// What a result says of a text: members of a JSON object.
fn result(outcome: &Outcome) -> String {
    let json = |text: &str| serde_json::Value::from(text).to_string();
    match &outcome.end {
        Ok(reason) => {
            let tokens: Vec<String> = outcome.tokens.iter().map(ToString::to_string).collect();
            let (text, tokens) = (json(&outcome.text), tokens.join(","));
            format!("\"text\":{text},\"tokens\":[{tokens}],\"stop\":{}", json(reason.word()))
        }
        Err(failure) => format!("\"error\":{}", json(&report::line(failure))),
    }
}
