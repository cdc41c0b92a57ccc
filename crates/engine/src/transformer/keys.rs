use std::{collections::BTreeSet, fmt::Display};

use super::Architecture;
use crate::{Gguf, GgufError, LoadError, gguf::Shown};

/// The keys of an architecture, of which none may be left over: a network that
/// leaves out what its file asks for runs, and writes nonsense.
pub(super) struct Keys<'a> {
    gguf: &'a Gguf,
    architecture: &'static Architecture,
    used: BTreeSet<String>,
}

impl<'a> Keys<'a> {
    pub(super) fn new(gguf: &'a Gguf, architecture: &'static Architecture) -> Self {
        Self { gguf, architecture, used: BTreeSet::new() }
    }

    /// The whole key.
    pub(super) fn name(&self, part: &str) -> String {
        format!("{}.{part}", self.architecture.name)
    }

    /// What a getter finds.
    pub(super) fn get<T>(
        &mut self,
        part: &str,
        get: impl FnOnce(&'a Gguf, &str) -> Result<Option<T>, GgufError>,
    ) -> Result<Option<T>, LoadError> {
        let key = self.name(part);
        let found = get(self.gguf, &key)?;
        self.used.insert(key);
        Ok(found)
    }

    /// A number that is not 0.
    pub(super) fn count(&mut self, part: &str) -> Result<Option<usize>, LoadError> {
        match self.get(part, Gguf::u32)? {
            Some(0) => Err(self.wrong(part, 0, "positive")),
            number => Ok(number.map(|number| number as usize)),
        }
    }

    /// The same, which must be there.
    pub(super) fn required_count(&mut self, part: &str) -> Result<usize, LoadError> {
        let missing = GgufError::MissingKey { key: self.name(part) };
        Ok(self.count(part)?.ok_or(missing)?)
    }

    /// A number within a range.
    pub(super) fn number(
        &mut self,
        part: &str,
        within: impl Fn(f32) -> bool,
        expected: &str,
    ) -> Result<Option<f32>, LoadError> {
        match self.get(part, Gguf::f32)? {
            Some(found) if !within(found) => Err(self.wrong(part, found, expected)),
            number => Ok(number),
        }
    }

    pub(super) fn wrong(
        &self,
        part: &str,
        found: impl Display,
        expected: impl Into<String>,
    ) -> LoadError {
        let found = found.to_string();
        LoadError::Value { key: self.name(part), found, expected: expected.into() }
    }

    /// Refuses keys that nothing has asked for and that could matter.
    pub(super) fn check_that_all_are_understood(&mut self) -> Result<(), LoadError> {
        let prefix = self.name("");
        for key in self.gguf.keys() {
            let Some(part) = key.strip_prefix(&prefix) else { continue };
            if !self.used.contains(key)
                && !self.architecture.without_effect.contains(&part)
                && !self.is_neutral(key, part)?
            {
                let key = Shown(key).to_string();
                return Err(LoadError::UnknownKey { key, architecture: self.architecture.name });
            }
        }
        Ok(())
    }

    /// Whether a key says what is so anyway.
    fn is_neutral(&self, key: &str, part: &str) -> Result<bool, LoadError> {
        let number =
            |neutral: fn(f32) -> bool| Ok::<_, LoadError>(self.gguf.f32(key)?.is_some_and(neutral));
        match part {
            // How the weights once were arranged, and whether a long context
            // was learnt or only made possible. The size is compared with the
            // tokenizer's later.
            "tensor_data_layout" | "rope.scaling.finetuned" | "vocab_size" => Ok(true),
            "expert_count" | "expert_used_count" => match self.gguf.u32(key)? {
                Some(count) if count > 0 => {
                    let evidence = format!("{} is {count}", Shown(key));
                    Err(LoadError::Feature { feature: "a mixture of experts", evidence })
                }
                _ => Ok(true),
            },
            "attention.causal" => Ok(self.gguf.bool(key)? == Some(true)),
            "use_parallel_residual" => Ok(self.gguf.bool(key)? == Some(false)),
            "pooling_type" => Ok(self.gguf.u32(key)? == Some(0)),
            "rope.scaling.yarn_ext_factor" => number(|x| x < 0.0),
            "rope.scaling.yarn_log_multiplier" => number(|x| x == 0.0),
            "rope.scaling.yarn_attn_factor" => number(|x| x.to_bits() == 1.0_f32.to_bits()),
            _ => Ok(false),
        }
    }
}
