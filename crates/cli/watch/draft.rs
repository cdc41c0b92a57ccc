use logitchain_core::{
    Chain, ChainConfig, ChainError, Param, Registration, Registry, RngKind, Seed, StageConfig,
    Vocab,
};

use crate::value::{self, value};

/// A chain in work: as given, but for what has been changed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Draft {
    /// All but the stages.
    head: ChainConfig,
    pub(crate) slots: Vec<Slot>,
}

/// A stage in its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Slot {
    pub(crate) name: &'static str,
    /// Those that are not as by default, or have been changed.
    params: toml::Table,
    /// Whether it is switched off. Its parameters wait until it is on again.
    pub(crate) off: bool,
}

impl Draft {
    /// A chain as built, and what else its config says.
    pub(crate) fn new(config: &ChainConfig, chain: &Chain, registry: &Registry) -> Self {
        let mut head = ChainConfig::default();
        head.title.clone_from(&config.title);
        head.source.clone_from(&config.source);
        head.note.clone_from(&config.note);
        (head.seed, head.rng) = (Seed::Fixed(chain.seed()), chain.rng());
        let slots = chain.stages().iter().map(|link| {
            let mut slot = Slot { name: link.name(), params: link.params().clone(), off: false };
            let defaults = slot.registration(registry).defaults();
            slot.params.retain(|param, value| defaults.get(param) != Some(value));
            slot
        });
        Self { head, slots: slots.collect() }
    }

    /// The chain as data. A stage that is off has the parameters that make it do
    /// nothing, or is left out where there are none.
    pub(crate) fn config(&self, registry: &Registry) -> ChainConfig {
        let mut config = self.head.clone();
        let stages = self.slots.iter().filter_map(|slot| slot.config(registry));
        config.stages = stages.collect();
        config
    }

    /// # Errors
    ///
    /// As [`ChainConfig::build`].
    pub(crate) fn build(
        &self,
        registry: &Registry,
        vocab: &dyn Vocab,
    ) -> Result<Chain, ChainError> {
        self.config(registry).build(registry, vocab)
    }

    /// For each slot, its place among the stages of the built chain, from 0.
    pub(crate) fn places(&self, registry: &Registry) -> Vec<Option<usize>> {
        let mut next = 0;
        let places = self.slots.iter().map(|slot| {
            slot.config(registry).map(|_| {
                next += 1;
                next - 1
            })
        });
        places.collect()
    }

    /// The flags that give this chain on the command line.
    pub(crate) fn flags(&self, registry: &Registry) -> String {
        let stages = self.config(registry).stages;
        let stages = stages.iter().map(|stage| value::stage(&stage.name, &stage.params));
        let list = stages.collect::<Vec<_>>().join(";").replace('\'', r"'\''");
        let mut flags = format!("--samplers '{list}'");
        let default = ChainConfig::default();
        if self.head.seed != default.seed {
            flags += &format!(" --seed {}", self.head.seed);
        }
        if self.head.rng != default.rng {
            flags += &format!(" --rng {}", self.head.rng);
        }
        flags
    }

    /// The chain file.
    pub(crate) fn file(&self, registry: &Registry, changed: bool) -> String {
        let ChainConfig { title, source, note, seed, rng, stages, .. } = self.config(registry);
        let title = title.map(|title| if changed { format!("{title}, changed") } else { title });
        let mut file = String::new();
        let mut line = |key: &str, set: &toml::Value| file += &format!("{key} = {}\n", value(set));
        for (key, text) in [("title", title), ("source", source), ("note", note)] {
            text.into_iter().for_each(|text| line(key, &text.into()));
        }
        // TOML's whole numbers end at 2^63 - 1; beyond that, digits in quotes.
        let seed = seed.to_string();
        let number = seed.parse().map_or_else(|_| seed.clone().into(), toml::Value::Integer);
        line("seed", &number);
        if rng != RngKind::default() {
            line("rng", &rng.to_string().into());
        }
        for stage in stages {
            file += &format!("\n[[stage]]\nuse = {}\n", value(&stage.name.into()));
            for (name, set) in &stage.params {
                file += &format!("{name} = {}\n", value(set));
            }
        }
        file
    }
}

impl Slot {
    fn config(&self, registry: &Registry) -> Option<StageConfig> {
        let mut config = StageConfig::new(self.name);
        config.params.clone_from(&self.params);
        if self.off {
            config.params.extend(self.registration(registry).off()?);
        }
        Some(config)
    }

    pub(crate) fn registration<'a>(&self, registry: &'a Registry) -> &'a Registration {
        registry.get(self.name).expect("the chain was built of registered stages")
    }

    /// What there is to know about its parameters, in their order.
    pub(crate) fn params(&self, registry: &Registry) -> Vec<Param> {
        self.registration(registry).params()
    }

    /// The value of a parameter, whether written out or not.
    pub(crate) fn value(&self, param: &Param) -> toml::Value {
        self.params.get(&param.name).unwrap_or(&param.default).clone()
    }

    pub(crate) fn set(&mut self, param: &Param, value: toml::Value) {
        self.params.insert(param.name.clone(), value);
    }
}
