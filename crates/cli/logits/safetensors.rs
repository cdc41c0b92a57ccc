//! The format is described at <https://huggingface.co/docs/safetensors>.

use std::{
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
};

use logitchain_core::TokenId;
use safetensors::{
    Dtype,
    tensor::{Metadata, TensorInfo},
};

use super::{
    element::Element,
    metadata::{CHAIN, MODEL, Notes, SEED},
    rows::Rows,
};
use crate::logits_error::LogitsError;

/// The tensors of a recording.
pub(crate) const LOGITS: &str = "logits";
pub(crate) const TOKENS: &str = "tokens";
pub(crate) const PROMPT: &str = "prompt";

/// The longest header that the format allows, in bytes.
pub(super) const HEADER_LIMIT: u64 = 100_000_000;

/// Bytes before the header, which say how long it is.
const LENGTH: u64 = 8;

/// Reads the header and all but the logits.
pub(super) fn open(mut file: File) -> Result<(Rows, Notes), LogitsError> {
    let found = file.metadata()?.len();
    let mut length = [0; LENGTH as usize];
    file.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    let start = LENGTH + length;
    if start > found {
        return Err(LogitsError::Format);
    }
    let mut header = vec![0; length as usize];
    file.read_exact(&mut header)?;
    if header.first() != Some(&b'{') {
        return Err(LogitsError::Format);
    }
    // It checks that the tensors follow each other, and that each is as long as
    // its shape says.
    let header: Metadata =
        serde_json::from_slice(&header).map_err(|error| LogitsError::Header(error.to_string()))?;
    let expected = start.saturating_add(header.data_len() as u64);
    if found != expected {
        return Err(LogitsError::Length { found, expected });
    }

    let (name, info) = logits(&header)?;
    let element = match info.dtype {
        Dtype::F16 => Element::F16,
        Dtype::BF16 => Element::Bf16,
        Dtype::F32 => Element::F32,
        Dtype::F64 => Element::F64,
        found => {
            let (found, expected) = (found.to_string(), "F16, BF16, F32 and F64");
            return Err(LogitsError::Type { name: format!("`{name}`"), found, expected });
        }
    };
    let (steps, vocabulary) = Rows::shape(&format!("`{name}`"), &info.shape)?;
    let start_of_logits = start + info.data_offsets.0 as u64;

    let mut ids = |name| match header.info(name) {
        Some(info) => ids(&mut file, start, name, info, vocabulary).map(Some),
        None => Ok(None),
    };
    let tokens = ids(TOKENS)?;
    let prompt = ids(PROMPT)?.unwrap_or_default();
    if let Some(tokens) = &tokens
        && tokens.len() != steps
    {
        return Err(LogitsError::Tokens { tokens: tokens.len(), steps });
    }
    let note = |key| header.metadata().as_ref().and_then(|notes| notes.get(key).cloned());
    let (model, chain) = (note(MODEL), note(CHAIN).zip(note(SEED)));
    let rows = Rows { file, start: start_of_logits, element, steps, vocabulary };
    Ok((rows, Notes { tokens, prompt, model, chain }))
}

/// The tensor of that name, or the only one.
fn logits(header: &Metadata) -> Result<(String, &TensorInfo), LogitsError> {
    if let Some(info) = header.info(LOGITS) {
        return Ok((LOGITS.to_owned(), info));
    }
    let names = header.offset_keys();
    match &names[..] {
        [] => Err(LogitsError::Empty),
        [name] => match header.info(name) {
            Some(info) => Ok((name.clone(), info)),
            None => Err(LogitsError::Empty),
        },
        _ => Err(LogitsError::Missing(names)),
    }
}

fn ids(
    file: &mut File,
    start: u64,
    name: &'static str,
    info: &TensorInfo,
    vocabulary: usize,
) -> Result<Vec<TokenId>, LogitsError> {
    if info.shape.len() != 1 {
        return Err(LogitsError::Flat { name, shape: info.shape.clone() });
    }
    let (from, to) = info.data_offsets;
    let mut bytes = vec![0; to - from];
    file.seek(SeekFrom::Start(start + from as u64))?;
    file.read_exact(&mut bytes)?;
    let ids: Vec<i64> = match info.dtype {
        Dtype::U32 => bytes.as_chunks().0.iter().map(|&b| u32::from_le_bytes(b).into()).collect(),
        Dtype::I32 => bytes.as_chunks().0.iter().map(|&b| i32::from_le_bytes(b).into()).collect(),
        Dtype::I64 => bytes.as_chunks().0.iter().map(|&b| i64::from_le_bytes(b)).collect(),
        found => {
            let (name, found) = (format!("`{name}`"), found.to_string());
            return Err(LogitsError::Type { name, found, expected: "I32, I64 and U32" });
        }
    };
    let known = ids.into_iter().enumerate().map(|(nth, id)| match u32::try_from(id) {
        Ok(token) if (token as usize) < vocabulary => Ok(TokenId(token)),
        _ => Err(LogitsError::Token { name, nth, id, vocabulary }),
    });
    known.collect()
}
