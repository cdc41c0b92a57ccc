use super::{Architecture, architectures::Cap, keys::Keys, rope::Scaling};
use crate::{Gguf, LoadError};

/// The numbers that describe a network.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// How many tokens a text may have.
    pub(crate) context: usize,
    /// Length of the vector that stands for a token.
    pub(super) width: usize,
    pub(super) heads: usize,
    /// Pairs of keys and values; each serves `heads / kv_heads` heads.
    pub(super) kv_heads: usize,
    /// Length of a query, key or value.
    pub(super) head_width: usize,
    pub(super) hidden: usize,
    pub(super) epsilon: f32,
    /// What scores of keys are multiplied with.
    pub(super) attention_scale: f32,
    /// How queries grow with the position.
    pub(super) position_temperature: Option<PositionTemperature>,
    /// Below what scores of keys are kept.
    pub(super) attention_cap: Option<f32>,
    /// Below what logits are kept.
    pub(super) logit_cap: Option<f32>,
    pub(super) layers: Vec<LayerConfig>,
    pub(super) rope: RopeConfig,
}

/// Llama 4's: queries are multiplied by `1 + scale * ln(1 + n)` from the `n`th
/// stretch of so many positions on.
#[derive(Clone, Copy, Debug)]
pub(super) struct PositionTemperature {
    pub(super) scale: f64,
    pub(super) stretch: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LayerConfig {
    /// How many tokens a token looks back to, itself included.
    pub(super) window: Option<usize>,
    /// Whether queries and keys turn with the position.
    pub(super) turned: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct RopeConfig {
    /// Pairs of a query's or key's elements that turn.
    pub(super) pairs: usize,
    pub(super) base: f32,
    pub(super) scaling: Scaling,
    /// The base of layers with a window.
    pub(super) window_base: f32,
    pub(super) window_scaling: Scaling,
}

impl PositionTemperature {
    pub(super) fn at(&self, position: usize) -> f32 {
        let stretches = (position / self.stretch) as f64;
        (1.0 + self.scale * libm::log(1.0 + stretches)) as f32
    }
}

impl Config {
    /// `context` shortens the file's.
    pub(super) fn read(
        gguf: &Gguf,
        architecture: &'static Architecture,
        context: Option<usize>,
    ) -> Result<Self, LoadError> {
        let keys = &mut Keys::new(gguf, architecture);
        let learnt = keys.required_count("context_length")?;
        let width = keys.required_count("embedding_length")?;
        let heads = keys.required_count("attention.head_count")?;
        let kv_heads = keys.count("attention.head_count_kv")?.unwrap_or(heads);
        if !heads.is_multiple_of(kv_heads) {
            let expected = format!("a divisor of the {heads} heads");
            return Err(keys.wrong("attention.head_count_kv", kv_heads, expected));
        }
        let head_width = read_head_width(keys, width, heads)?;
        let epsilon = "attention.layer_norm_rms_epsilon";
        let epsilon = keys
            .number(epsilon, |x| (0.0..1.0).contains(&x), "from 0 to below 1")?
            .ok_or_else(|| crate::GgufError::MissingKey { key: keys.name(epsilon) })?;

        let count = keys.required_count("block_count")?;
        let hidden = keys.required_count("feed_forward_length")?;
        let layers = read_layers(keys, architecture, gguf, count)?;
        let rope = read_rope(keys, architecture, head_width, learnt)?;
        let divisor = match architecture.scaled_by_width {
            Some(layers) if layers == count => width / heads,
            _ => head_width,
        };
        let position_temperature = read_temperature(keys, architecture, &rope, learnt)?;
        let config = Self {
            context: context.map_or(learnt, |context| context.min(learnt)),
            width,
            heads,
            kv_heads,
            head_width,
            hidden,
            epsilon,
            attention_scale: 1.0 / (divisor as f32).sqrt(),
            position_temperature,
            attention_cap: read_cap(keys, "attn_logit_softcapping", architecture.attention_cap)?,
            logit_cap: read_cap(keys, "final_logit_softcapping", architecture.logit_cap)?,
            layers,
            rope,
        };
        keys.check_that_all_are_understood()?;
        Ok(config)
    }
}

fn read_head_width(keys: &mut Keys<'_>, width: usize, heads: usize) -> Result<usize, LoadError> {
    let head_width = match keys.count("attention.key_length")? {
        Some(length) => length,
        None if width.is_multiple_of(heads) => width / heads,
        None => {
            let expected = format!("a divisor of {} {width}", keys.name("embedding_length"));
            return Err(keys.wrong("attention.head_count", heads, expected));
        }
    };
    if let Some(length) = keys.count("attention.value_length")?
        && length != head_width
    {
        let expected = format!("{head_width}, the length of keys");
        return Err(keys.wrong("attention.value_length", length, expected));
    }
    Ok(head_width)
}

fn read_layers(
    keys: &mut Keys<'_>,
    architecture: &Architecture,
    gguf: &Gguf,
    count: usize,
) -> Result<Vec<LayerConfig>, LoadError> {
    // A file with so many tensors would have run out of bytes before.
    let most = gguf.tensors().count();
    if count > most {
        let expected = format!("at most {most}, the number of tensors");
        return Err(keys.wrong("block_count", count, expected));
    }
    let turned = |layer| architecture.unturned_every.is_none_or(|every| (layer + 1) % every != 0);
    let whole = |layer| LayerConfig { window: None, turned: turned(layer) };
    let mut layers: Vec<LayerConfig> = (0..count).map(whole).collect();

    let Some(windows) = architecture.windows else { return Ok(layers) };
    let size = keys.get("attention.sliding_window", Gguf::u32)?.map(|size| size as usize);
    // 0 stands for none.
    let size = size.or(windows.size).filter(|&size| size > 0);
    let pattern = "attention.sliding_window_pattern";
    let has_window: Vec<bool> = match keys.get(pattern, Gguf::pattern)? {
        Some(crate::gguf::Pattern::Each(list)) if list.len() == count => list,
        Some(crate::gguf::Pattern::Each(list)) => {
            let found = format!("a list of {}", list.len());
            return Err(keys.wrong(pattern, found, format!("one for each of the {count} layers")));
        }
        Some(crate::gguf::Pattern::Every(every)) => has_window(every as usize, count),
        None => has_window(windows.every, count),
    };
    for (layer, has_window) in layers.iter_mut().zip(has_window) {
        layer.window = size.filter(|_| has_window);
    }
    Ok(layers)
}

/// All but each last of `every` layers; of 0, all.
fn has_window(every: usize, count: usize) -> Vec<bool> {
    (1..=count).map(|layer| every == 0 || layer % every != 0).collect()
}

fn read_rope(
    keys: &mut Keys<'_>,
    architecture: &Architecture,
    head_width: usize,
    context: usize,
) -> Result<RopeConfig, LoadError> {
    let count = keys.count("rope.dimension_count")?.unwrap_or(head_width);
    if count > head_width || !count.is_multiple_of(2) {
        let expected = format!("even and at most {head_width}, the length of keys");
        return Err(keys.wrong("rope.dimension_count", count, expected));
    }
    let positive = |x: f32| (1.0..f32::INFINITY).contains(&x);
    let expected = "finite and at least 1";
    let base = keys.number("rope.freq_base", positive, expected)?.unwrap_or(10_000.0);
    let scaling = Scaling::read(keys, context, architecture.yarn_multiplier)?;
    let (mut window_base, mut window_scaling) = (base, scaling);
    if let Some(windows) = architecture.windows {
        if let Some(own) = windows.rope_base {
            (window_base, window_scaling) = (own, scaling.none());
        }
        if let Some(own) = keys.number("rope.freq_base_swa", positive, expected)? {
            window_base = own;
        }
    }
    Ok(RopeConfig { pairs: count / 2, base, scaling, window_base, window_scaling })
}

fn read_temperature(
    keys: &mut Keys<'_>,
    architecture: &Architecture,
    rope: &RopeConfig,
    context: usize,
) -> Result<Option<PositionTemperature>, LoadError> {
    if !architecture.position_temperature {
        return Ok(None);
    }
    let part = "attention.temperature_scale";
    let scale = keys.number(part, |x| x.is_finite() && x >= 0.0, "finite and not negative")?;
    let stretch = rope.scaling.original_context.unwrap_or(context);
    let temperature = |scale| PositionTemperature { scale: f64::from(scale), stretch };
    Ok(scale.filter(|&scale| scale > 0.0).map(temperature))
}

fn read_cap(keys: &mut Keys<'_>, part: &str, cap: Cap) -> Result<Option<f32>, LoadError> {
    let default = match cap {
        Cap::None => return Ok(None),
        Cap::Optional => None,
        Cap::Default(cap) => Some(cap),
    };
    let within = |x: f32| x.is_finite() && x >= 0.0;
    let found = keys.number(part, within, "finite and not negative")?;
    // 0 stands for none.
    Ok(found.or(default).filter(|&cap| cap > 0.0))
}
