use crate::{Gguf, GgufError, gguf::Shown};

const PREFIX: &str = "general.sampling.";

/// The settings for sampling that a model's maker recommends, in the file's
/// keys `general.sampling.*`.
///
/// Names and meanings are those of llama.cpp's flags. What the file does not
/// say is `None`.
///
/// ```
/// # use logitchain_engine::{EMBEDDED_GGUF, Gguf, RecommendedSampling};
/// let file = Gguf::from_static(EMBEDDED_GGUF)?;
/// assert_eq!(RecommendedSampling::read(&file)?, None);
/// # Ok::<(), logitchain_engine::GgufError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RecommendedSampling {
    /// Stages in the order in which they run, such as `top_k;temperature`.
    pub sequence: Option<String>,
    /// How many tokens are kept; 0 for all.
    pub top_k: Option<i32>,
    /// The share of probability that is kept.
    pub top_p: Option<f32>,
    /// The least probability, in shares of the largest.
    pub min_p: Option<f32>,
    /// How often the likely tokens are dropped.
    pub xtc_probability: Option<f32>,
    /// From what probability on a token is likely.
    pub xtc_threshold: Option<f32>,
    /// The temperature.
    pub temp: Option<f32>,
    /// How many tokens penalties look back; -1 for all.
    pub penalty_last_n: Option<i32>,
    /// What logits of tokens that occurred are divided by.
    pub penalty_repeat: Option<f32>,
    /// 1 or 2 for Mirostat in that version, and 0 for none.
    pub mirostat: Option<i32>,
    /// The surprise that Mirostat aims at.
    pub mirostat_tau: Option<f32>,
    /// How fast Mirostat learns.
    pub mirostat_eta: Option<f32>,
    /// Keys that begin with `general.sampling.` and are none of llama.cpp's.
    pub unknown: Vec<String>,
}

impl RecommendedSampling {
    /// What a file recommends; `None` if it says nothing.
    ///
    /// # Errors
    ///
    /// If a value has another type than its key asks for, or is not finite.
    pub fn read(gguf: &Gguf) -> Result<Option<Self>, GgufError> {
        let mut found = Self::default();
        let mut any = false;
        for key in gguf.keys() {
            let Some(name) = key.strip_prefix(PREFIX) else { continue };
            any = true;
            let integer = || gguf.i32(key);
            let number = || gguf.finite(key);
            match name {
                "sequence" => found.sequence = gguf.string(key)?.map(str::to_owned),
                "top_k" => found.top_k = integer()?,
                "top_p" => found.top_p = number()?,
                "min_p" => found.min_p = number()?,
                "xtc_probability" => found.xtc_probability = number()?,
                "xtc_threshold" => found.xtc_threshold = number()?,
                "temp" => found.temp = number()?,
                "penalty_last_n" => found.penalty_last_n = integer()?,
                "penalty_repeat" => found.penalty_repeat = number()?,
                "mirostat" => found.mirostat = integer()?,
                "mirostat_tau" => found.mirostat_tau = number()?,
                "mirostat_eta" => found.mirostat_eta = number()?,
                _ => found.unknown.push(Shown(key).to_string()),
            }
        }
        Ok(any.then_some(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gguf::test_file::TestFile;

    fn read(file: &TestFile) -> Result<Option<RecommendedSampling>, GgufError> {
        RecommendedSampling::read(&Gguf::from_bytes(file.bytes()).unwrap())
    }

    #[test]
    fn every_key_of_llama_cpp_is_read() {
        let integer = |file: TestFile, name: &str, number: i32| {
            file.raw(&format!("{PREFIX}{name}"), 5, &number.to_le_bytes())
        };
        let number =
            |file: TestFile, name: &str, number| file.f32(&format!("{PREFIX}{name}"), number);
        let mut file = TestFile::new().string("general.sampling.sequence", "top_k;temperature");
        for (name, value) in [("top_k", 1), ("penalty_last_n", -1), ("mirostat", 2)] {
            file = integer(file, name, value);
        }
        for (name, value) in [
            ("top_p", 0.1),
            ("min_p", 0.2),
            ("xtc_probability", 0.3),
            ("xtc_threshold", 0.4),
            ("temp", 0.5),
            ("penalty_repeat", 1.6),
            ("mirostat_tau", 0.7),
            ("mirostat_eta", 0.8),
        ] {
            file = number(file, name, value);
        }
        let expected = RecommendedSampling {
            sequence: Some("top_k;temperature".to_owned()),
            top_k: Some(1),
            top_p: Some(0.1),
            min_p: Some(0.2),
            xtc_probability: Some(0.3),
            xtc_threshold: Some(0.4),
            temp: Some(0.5),
            penalty_last_n: Some(-1),
            penalty_repeat: Some(1.6),
            mirostat: Some(2),
            mirostat_tau: Some(0.7),
            mirostat_eta: Some(0.8),
            unknown: vec![],
        };
        assert_eq!(read(&file), Ok(Some(expected)));
        assert_eq!(read(&TestFile::new()), Ok(None));
    }

    #[test]
    fn unknown_keys_are_told() {
        let file = TestFile::new().f32("general.sampling.top_q", 0.5);
        let unknown = vec!["general.sampling.top_q".to_owned()];
        let expected = RecommendedSampling { unknown, ..RecommendedSampling::default() };
        assert_eq!(read(&file), Ok(Some(expected)));
    }

    #[test]
    fn values_that_cannot_be_used_are_refused() {
        for (file, expected) in [
            (
                TestFile::new().f32("general.sampling.temp", f32::NAN),
                "the metadata value 'general.sampling.temp' is the f32 NaN; it must be a finite number",
            ),
            (
                TestFile::new().string("general.sampling.top_k", "40"),
                "the metadata value 'general.sampling.top_k' is the string '40'; it must be a whole number of at most 31 bits and a sign",
            ),
        ] {
            assert_eq!(read(&file).unwrap_err().to_string(), expected);
        }
    }
}
