//! From the command line to a chain.

use std::path::{Path, PathBuf};

use clap::Args;
use logitchain_core::{
    Chain, ChainConfig, ChainError, Kind, Link, NoVocab, Registry, RngKind, Seed, SeedError,
    StageConfig, StageError, TokenId, Vocab,
};
use logitchain_engine::{GgufModel, RecommendedSampling};
use logitchain_stages::DEFAULT_ORDER;

use crate::{input, recommended, report::Failure, stage_flags::Given};

/// The stage that gets the biases of `--logit-bias` and `--ignore-eos`, and the
/// parameter that holds them.
pub(crate) const BIAS: (&str, &str) = ("logit_bias", "bias");

/// The flag that needs a model's vocabulary.
const IGNORE_EOS: &str = "--ignore-eos";

const GREEDY: &str = "greedy";

#[derive(Debug, Args)]
#[command(next_help_heading = "The chain")]
pub(crate) struct ChainArgs {
    /// A chain file; flags and --seed replace its values
    #[arg(
        long,
        value_name = "FILE.toml",
        conflicts_with_all = ["samplers", "sampling_seq", "greedy"]
    )]
    pub(crate) chain: Option<PathBuf>,
    #[arg(
        long,
        value_name = "LIST",
        help = format!(
            "The stages in the order in which they run, in quotes, each with parameters in braces \
             if need be: --samplers 'top_k{{k=40}};temperature' [default: {DEFAULT_ORDER}]"
        ),
        long_help = format!(
            "The stages in the order in which they run, each with parameters in braces if need \
             be: --samplers 'top_k{{k=40}};temperature' [default: {DEFAULT_ORDER}]\n\n\
             Separated by ; or , and in quotes, since ; ends a shell's command. A stage may stand \
             twice, and then acts twice. `dist` is added at the end where no stage selects the \
             token."
        ),
        conflicts_with = "sampling_seq"
    )]
    pub(crate) samplers: Option<String>,
    /// The stages as llama.cpp's letters, such as kpt
    #[arg(long, visible_alias = "sampler-seq", value_name = "LETTERS")]
    pub(crate) sampling_seq: Option<String>,
    /// Make the chain `temperature;mirostat` (1) or `temperature;mirostat_v2`
    /// (2), as llama.cpp does; 0 is off
    #[arg(long, value_name = "0|1|2", allow_negative_numbers = true, value_parser = mirostat)]
    pub(crate) mirostat: Option<u8>,
    /// Take the most likely token: `greedy` is the chain's last stage
    #[arg(long)]
    pub(crate) greedy: bool,
    #[command(flatten)]
    pub(crate) general: GeneralArgs,
}

/// What holds for any chain, however it is written.
#[derive(Clone, Debug, Args)]
pub(crate) struct GeneralArgs {
    /// Never end the text by itself: ban the model's end tokens, in the stage
    /// `logit_bias`
    ///
    /// If the chain has no such stage, one is put in front, as with --logit-bias.
    #[arg(long)]
    pub(crate) ignore_eos: bool,
    /// Decides all random choices: a number, or `random` or -1 to draw one
    /// [default: the chain file's, or 42]
    #[arg(short, long, value_name = "SEED", allow_negative_numbers = true, value_parser = seed)]
    pub(crate) seed: Option<Seed>,
    /// The generator: xoshiro256++, or mt19937, which draws as llama.cpp does
    /// [default: the chain file's, or xoshiro256++]
    #[arg(long, value_name = "NAME", value_parser = rng)]
    pub(crate) rng: Option<RngKind>,
}

impl GeneralArgs {
    /// The same with a random seed drawn, so that several chains have the same.
    pub(crate) fn drawn(&self) -> Result<Self, Failure> {
        let seed = self.seed.map(|seed| Ok::<_, ChainError>(Seed::Fixed(seed.resolve()?)));
        Ok(Self { seed: seed.transpose()?, ..self.clone() })
    }
}

fn mirostat(text: &str) -> Result<u8, &'static str> {
    match text {
        "0" => Ok(0),
        "1" => Ok(1),
        "2" => Ok(2),
        _ => Err("write 0, 1 or 2"),
    }
}

fn seed(text: &str) -> Result<Seed, SeedError> {
    match text {
        "-1" => Ok(Seed::Random),
        _ => text.parse(),
    }
}

fn rng(text: &str) -> Result<RngKind, String> {
    let known = RngKind::ALL.iter().find(|(name, _)| *name == text);
    known
        .map(|(_, rng)| *rng)
        .ok_or_else(|| format!("there are {}", RngKind::ALL.map(|(name, _)| name).join(" and ")))
}

/// Where a chain comes from.
#[derive(Clone, Debug)]
enum Origin {
    File(PathBuf),
    /// This flag lists the stages.
    List(&'static str),
    /// A chain that the program knows, and the user asked for.
    Program,
    /// The one where nothing is said.
    Default,
    /// The model's file.
    Model,
}

/// Where a model's file recommends how to sample.
const RECOMMENDED: &str =
    "general.sampling in the model's file (--samplers or --chain take its place)";

impl Origin {
    fn fault(&self, source: ChainError) -> Failure {
        match self {
            Self::File(path) => Failure::ChainFile { path: path.clone(), source: source.into() },
            // Lists have no seed in them.
            Self::List(_) if matches!(source, ChainError::Seed { .. }) => source.into(),
            Self::List(flag) => {
                Failure::Flag { flag: (*flag).to_owned(), source: Box::new(Failure::Chain(source)) }
            }
            Self::Program | Self::Default => Failure::Chain(source),
            Self::Model => Failure::Flag {
                flag: RECOMMENDED.to_owned(),
                source: Box::new(Failure::Chain(source)),
            },
        }
    }
}

/// A chain as it is written, before flags set parameters in it.
#[derive(Clone, Debug)]
pub(crate) struct WrittenChain {
    config: ChainConfig,
    origin: Origin,
    ignore_eos: bool,
    own_seed: Seed,
}

impl WrittenChain {
    /// The chain that flags choose.
    pub(crate) fn new(args: &ChainArgs, registry: &Registry) -> Result<Self, Failure> {
        let (config, origin) = source(args, registry)?;
        Self::checked(config, origin, &args.general, registry)
    }

    /// A list of stages, or the path of a chain file, as the argument `name`.
    pub(crate) fn of(
        name: &'static str,
        text: &str,
        args: &GeneralArgs,
        registry: &Registry,
    ) -> Result<Self, Failure> {
        let path = Path::new(text);
        let (config, origin) = if path.extension().is_some_and(|end| end == "toml") {
            (read(path)?, Origin::File(path.into()))
        } else {
            let origin = Origin::List(name);
            (ChainConfig::from_samplers(text).map_err(|source| origin.fault(source))?, origin)
        };
        Self::checked(config, origin, args, registry)
    }

    /// Whether a stage, known by its own name, stands in it.
    pub(crate) fn has(&self, stage: &str, registry: &Registry) -> bool {
        !occurrences(&self.config, stage, registry).is_empty()
    }

    /// As a list of stages.
    pub(crate) fn list(&self) -> String {
        self.config.to_string()
    }

    /// Builds it once on trial, as it is written: a flag whose stage is misspelt
    /// there is not what to complain about, and places are to be those in the text.
    fn checked(
        config: ChainConfig,
        origin: Origin,
        args: &GeneralArgs,
        registry: &Registry,
    ) -> Result<Self, Failure> {
        let own_seed = config.seed;
        let mut written = Self { config, origin, ignore_eos: args.ignore_eos, own_seed };
        let config = &mut written.config;
        config.seed = args.seed.unwrap_or(config.seed);
        config.rng = args.rng.unwrap_or(config.rng);
        // Drawn once: the chain on trial and the real one are the same.
        config.seed = Seed::Fixed(config.seed.resolve()?);
        let built = config.build(registry, &NoVocab);
        built.map_err(|source| written.origin.fault(source))?;
        Ok(written)
    }

    /// The chain with the flags' values.
    pub(crate) fn plan(self, given: Vec<Given>, registry: &Registry) -> Result<ChainPlan, Failure> {
        let Self { config, origin, ignore_eos, own_seed } = self;
        let inserted = false;
        let mut plan = ChainPlan { config, origin, given, ignore_eos, inserted, own_seed };
        plan.complete(registry)?;
        Ok(plan)
    }
}

/// A chain that has been found right, as far as it can be without a model.
#[derive(Clone, Debug)]
pub(crate) struct ChainPlan {
    config: ChainConfig,
    origin: Origin,
    given: Vec<Given>,
    ignore_eos: bool,
    /// Whether a stage stands in front that the user did not write.
    inserted: bool,
    /// The seed where no flag says another.
    own_seed: Seed,
}

impl ChainArgs {
    /// Whether any of them says what the chain is.
    pub(crate) fn choose(&self) -> bool {
        let Self { chain, samplers, sampling_seq, mirostat, greedy, general: _ } = self;
        let listed = chain.is_some() || samplers.is_some() || sampling_seq.is_some();
        listed || mirostat.is_some() || *greedy
    }
}

impl ChainPlan {
    /// Puts the chain together: what is wrong in it is to be found before a model
    /// is loaded.
    pub(crate) fn new(
        args: &ChainArgs,
        given: Vec<Given>,
        registry: &Registry,
    ) -> Result<Self, Failure> {
        WrittenChain::new(args, registry)?.plan(given, registry)
    }

    /// Adds what flags say to the stages as they were written.
    fn complete(&mut self, registry: &Registry) -> Result<(), Failure> {
        let biased = self.given.iter().any(|given| given.targets.iter().any(|t| t.stage == BIAS.0));
        if (biased || self.ignore_eos) && self.occurrences(BIAS.0, registry).is_empty() {
            self.config.stages.insert(0, StageConfig::new(BIAS.0));
            self.inserted = true;
        }
        self.apply_flags(registry)?;
        self.build(registry, &NoVocab)?;
        Ok(())
    }

    /// Follows what the model's maker recommends, where the user has said
    /// nothing else, and tells so. A chain file says all.
    fn follow(
        &mut self,
        recommended: &RecommendedSampling,
        registry: &Registry,
        tell: &mut dyn FnMut(String),
    ) -> Result<(), Failure> {
        for key in &recommended.unknown {
            tell(format!("note: the model's key `{key}` is unknown here, and not followed"));
        }
        if matches!(self.origin, Origin::File(_)) {
            let order = recommended::stages(recommended);
            let order = order.map(|(key, list)| recommended::order(key, &list));
            let settings = recommended::settings(recommended).into_iter();
            let all: Vec<String> =
                order.into_iter().chain(settings.map(|setting| setting.to_string())).collect();
            if !all.is_empty() {
                let list = all.join(", ");
                tell(format!("note: the model recommends {list}; the chain file says otherwise"));
            }
            return Ok(());
        }
        let mut followed = Vec::new();
        if let (Origin::Default, Some((key, list))) =
            (&self.origin, recommended::stages(recommended))
        {
            self.origin = Origin::Model;
            let config = ChainConfig::from_samplers(&list);
            self.config.stages = config.map_err(|source| self.origin.fault(source))?.stages;
            let written = self.config.build(registry, &NoVocab);
            written.map_err(|source| self.origin.fault(source))?;
            self.inserted = false;
            self.complete(registry)?;
            followed.push(recommended::order(key, &list));
            if let Some(sequence) = recommended.sequence.as_ref().filter(|_| key != "sequence") {
                tell(format!("note: the model's sequence={sequence} gives way to its {key}"));
            }
        }
        let mut without_stage = Vec::new();
        let said = std::mem::take(&mut self.config.stages);
        self.config.stages.clone_from(&said);
        for setting in recommended::settings(recommended) {
            let text = setting.to_string();
            let places: Vec<usize> =
                setting.stages.iter().flat_map(|stage| self.occurrences(stage, registry)).collect();
            let mut free =
                places.iter().filter(|&&nth| !said[nth].params.contains_key(setting.param));
            if places.is_empty() {
                without_stage.push(text);
            } else if free.clone().next().is_some() {
                free.by_ref().for_each(|&nth| {
                    let params = &mut self.config.stages[nth].params;
                    params.insert(setting.param.to_owned(), setting.value.clone());
                });
                followed.push(text);
            }
        }
        let built = self.config.build(registry, &NoVocab);
        built.map_err(|source| Origin::Model.fault(source))?;
        if !followed.is_empty() {
            tell(format!("recommended by the model: {}", followed.join(", ")));
        }
        if !without_stage.is_empty() {
            let list = without_stage.join(", ");
            tell(format!("note: the model recommends {list}, whose stage is not in the chain"));
        }
        Ok(())
    }

    /// The chain as data. Its seed is fixed.
    pub(crate) fn config(&self) -> &ChainConfig {
        &self.config
    }

    /// The seed, drawn already if it is a random one.
    pub(crate) fn seed(&self) -> Result<u64, Failure> {
        Ok(self.config.seed.resolve()?)
    }

    /// Whether the model's end tokens are to be banned.
    pub(crate) fn ignores_eos(&self) -> bool {
        self.ignore_eos
    }

    /// The seed where no flag says another: the chain file's, or the default.
    pub(crate) fn own_seed(&self) -> Seed {
        self.own_seed
    }

    /// The chain without a model's vocabulary.
    pub(crate) fn on_trial(&self, registry: &Registry) -> Result<Chain, Failure> {
        self.build(registry, &NoVocab)
    }

    /// The chain for a model; `tell` hears what of it the model's maker recommends.
    pub(crate) fn for_model(
        mut self,
        registry: &Registry,
        model: &GgufModel,
        tell: &mut dyn FnMut(String),
    ) -> Result<Chain, Failure> {
        if let Some(recommended) = model.recommended_sampling() {
            self.follow(recommended, registry, tell)?;
        }
        self.for_vocab(registry, model.tokenizer())
    }

    /// The chain for a vocabulary.
    pub(crate) fn for_vocab(
        mut self,
        registry: &Registry,
        vocab: &dyn Vocab,
    ) -> Result<Chain, Failure> {
        if self.ignore_eos {
            let ends = (0..vocab.size() as u32).map(TokenId);
            let ends = ends.filter(|&token| vocab.is_end_of_generation(token));
            let bans: Vec<toml::Value> = ends.map(|token| format!("{token}-inf").into()).collect();
            let nth = self.occurrences(BIAS.0, registry)[0];
            let biases = self.config.stages[nth].params.entry(BIAS.1);
            if let Some(biases) = biases.or_insert(toml::Value::Array(vec![])).as_array_mut() {
                biases.extend(bans);
            }
        }
        self.build(registry, vocab)
    }

    fn build(&self, registry: &Registry, vocab: &dyn Vocab) -> Result<Chain, Failure> {
        self.config.build(registry, vocab).map_err(|mut source| {
            let given = self.blame(&source);
            if self.inserted
                && let ChainError::Stage { at, source: problem, .. } = &mut source
            {
                // Places are those in what the user wrote.
                at.stage -= 1;
                if at.stage == 0 {
                    let problem = Failure::Param(problem.clone());
                    let flag = given.map_or_else(|| IGNORE_EOS.to_owned(), Given::to_string);
                    return Failure::Flag { flag, source: Box::new(problem) };
                }
            }
            let Some(given) = given else { return self.origin.fault(source) };
            let source = match &self.origin {
                Origin::File(_) => self.origin.fault(source),
                // The one flag says enough.
                Origin::List(_) | Origin::Program | Origin::Default | Origin::Model => {
                    source.into()
                }
            };
            Failure::Flag { flag: given.to_string(), source: Box::new(source) }
        })
    }

    /// The flag that set the parameter which a stage rejects.
    fn blame(&self, error: &ChainError) -> Option<&Given> {
        let ChainError::Stage { name, source, .. } = error else { return None };
        let wrong = match source {
            StageError::Type { param, .. } => param,
            StageError::Param(error) => error.param(),
            _ => return None,
        };
        let sets = |given: &&Given| {
            given.targets.iter().any(|t| t.stage == *name && t.param.name == wrong)
        };
        self.given.iter().find(sets)
    }

    fn occurrences(&self, stage: &str, registry: &Registry) -> Vec<usize> {
        occurrences(&self.config, stage, registry)
    }

    fn apply_flags(&mut self, registry: &Registry) -> Result<(), Failure> {
        for given in &self.given {
            let mut applied = false;
            for target in &given.targets {
                for nth in self.occurrences(target.stage, registry) {
                    let stage = &mut self.config.stages[nth];
                    let param = &target.param.name;
                    if !matches!(self.origin, Origin::File(_)) && stage.params.contains_key(param) {
                        return Err(Failure::Usage(format!(
                            "`{given}` and `{stage}` both set `{param}` of stage {}; leave one out",
                            nth + 1 - usize::from(self.inserted),
                        )));
                    }
                    stage.params.insert(param.clone(), given.value(&target.param));
                    applied = true;
                }
            }
            if !applied {
                let stages = given.targets.iter().map(|target| format!("`{}`", target.stage));
                let stages = stages.collect::<Vec<_>>().join(" and ");
                let is = if given.targets.len() == 1 { "is" } else { "are" };
                let chain = self.build(registry, &NoVocab)?;
                let written = chain.stages().iter().skip(usize::from(self.inserted));
                let names: Vec<&str> = written.map(Link::name).collect();
                let whose = match self.origin {
                    Origin::Model => " that the model recommends; --samplers sets another",
                    _ => "",
                };
                return Err(Failure::Usage(format!(
                    "{} belongs to {stages}, which {is} not in the chain `{}`{whose}",
                    given.flag,
                    names.join(";")
                )));
            }
        }
        Ok(())
    }
}

/// Where in a chain a stage stands.
fn occurrences(config: &ChainConfig, stage: &str, registry: &Registry) -> Vec<usize> {
    let same =
        |config: &StageConfig| registry.get(&config.name).is_some_and(|known| known.name == stage);
    let stages = config.stages.iter().enumerate().filter(|(_, config)| same(config));
    stages.map(|(nth, _)| nth).collect()
}

/// The chain that the user chose, and where it comes from.
fn source(args: &ChainArgs, registry: &Registry) -> Result<(ChainConfig, Origin), Failure> {
    // 0 leaves the choice to the others, so clap cannot tell this.
    let mirostat = args.mirostat.filter(|&version| version != 0);
    let others = [
        ("--chain", args.chain.is_some()),
        ("--samplers", args.samplers.is_some()),
        ("--sampling-seq", args.sampling_seq.is_some()),
        ("--greedy", args.greedy),
    ];
    if let (Some(version), Some((other, _))) = (mirostat, others.iter().find(|(_, given)| *given)) {
        return Err(Failure::Usage(format!(
            "`--mirostat {version}` and `{other}` both say what the chain is; leave one out"
        )));
    }
    if let Some(path) = &args.chain {
        return Ok((read(path)?, Origin::File(path.clone())));
    }
    let (config, origin) = match (&args.samplers, &args.sampling_seq, mirostat) {
        (Some(list), ..) => (ChainConfig::from_samplers(list), Origin::List("--samplers")),
        (_, Some(letters), _) => {
            (ChainConfig::from_letters(letters, registry), Origin::List("--sampling-seq"))
        }
        (.., Some(1)) => (ChainConfig::from_samplers("temperature;mirostat"), Origin::Program),
        (.., Some(_)) => (ChainConfig::from_samplers("temperature;mirostat_v2"), Origin::Program),
        // Both say something, if it is only that Mirostat is off.
        _ if args.greedy || args.mirostat.is_some() => {
            (ChainConfig::from_samplers(DEFAULT_ORDER), Origin::Program)
        }
        _ => (ChainConfig::from_samplers(DEFAULT_ORDER), Origin::Default),
    };
    let mut config = config.map_err(|source| origin.fault(source))?;
    if args.greedy {
        let selects = |stage: &StageConfig| {
            registry.get(&stage.name).filter(|stage| stage.kind == Kind::Select)
        };
        match config.stages.last().and_then(|last| Some((last, selects(last)?.name))) {
            // Both say the same.
            Some((_, GREEDY)) => return Ok((config, origin)),
            Some((last, _)) => {
                let problem = format!("`--greedy` would replace `{last}`; leave one out");
                return Err(Failure::Usage(problem));
            }
            None => {}
        }
        config.stages.push(StageConfig::new(GREEDY));
    }
    Ok((config, origin))
}

/// Reads a chain file.
pub(crate) fn read(path: &Path) -> Result<ChainConfig, Failure> {
    let text = input::chain_file(path)?;
    text.parse()
        .map_err(|source| Failure::ChainFile { path: path.into(), source: Box::new(source) })
}
