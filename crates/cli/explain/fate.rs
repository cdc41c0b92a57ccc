use logitchain_core::{Fate, TokenId, Trace, Vocab};

use super::stages::keeps;
use crate::{
    escape::unescape,
    report::Failure,
    table::{number, percent},
    token_text::named,
};

/// The tokens that `--token` means: an id, or all that have this text.
pub(super) fn find(
    asked: &str,
    vocab: &dyn Vocab,
    vocabulary: usize,
) -> Result<Vec<TokenId>, Failure> {
    if !asked.is_empty() && asked.bytes().all(|byte| byte.is_ascii_digit()) {
        return match asked.parse().map(TokenId) {
            Ok(token) if token.index() < vocabulary => Ok(vec![token]),
            _ => Err(Failure::Usage(format!(
                "--token {asked}: ids go from 0 to {}",
                vocabulary.saturating_sub(1)
            ))),
        };
    }
    let quoted = asked.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let text = unescape(quoted.unwrap_or(asked));
    if vocab.size() == 0 {
        return Err(Failure::Usage(format!(
            "--token {asked}: no text is known of these tokens; write an id, or give the model \
             with -m"
        )));
    }
    let same = |text: &str| {
        let ids = (0..vocab.size() as u32).map(TokenId);
        ids.filter(|&token| vocab.bytes(token) == text.as_bytes()).collect::<Vec<_>>()
    };
    let (found, spaced) = (same(&text), same(&format!(" {text}")));
    if !found.is_empty() {
        return Ok(found);
    }
    let parts = vocab.tokenize(text.as_bytes());
    let parts: Vec<String> = parts.iter().map(|&token| named(vocab, token)).collect();
    let hint = match &spaced[..] {
        [] => format!("it is written as {}", parts.join(", ")),
        spaced => {
            let spaced: Vec<_> = spaced.iter().map(|&token| named(vocab, token)).collect();
            format!("there is {}", spaced.join(", "))
        }
    };
    Err(Failure::Usage(format!("--token {asked}: no single token has this text; {hint}")))
}

/// Why a token could not appear, or that it could.
pub(super) fn sentence(trace: &Trace, token: TokenId, vocab: &dyn Vocab) -> String {
    let name = named(vocab, token);
    match trace.fate(token) {
        Fate::Masked => format!("{name} could not appear: its logit was -inf from the start."),
        Fate::Removed { stage, cut, logit, probability } => {
            let before = trace.stages().iter().find(|s| *s.place() == stage).map(|s| s.before());
            let rule = match (cut, before) {
                (Some(cut), Some(before)) => format!(", which {}", keeps(cut, before)),
                _ => String::new(),
            };
            format!(
                "{name} could not appear: it was dropped by stage {}, `{}`{rule}. Its logit was \
                 {} there, and its probability {}.",
                stage.position,
                stage.name,
                number(logit),
                percent(probability)
            )
        }
        Fate::Left { logit, probability } => {
            let why = match (trace.outcome(), trace.draw()) {
                (Err(_), _) => "but the chain failed".to_owned(),
                (Ok(other), Some(_)) => {
                    format!("which was its chance; {} was drawn", named(vocab, *other))
                }
                (Ok(other), None) => format!("but {} was chosen", named(vocab, *other)),
            };
            format!(
                "{name} was there to the end, with the logit {} and the probability {}, {why}.",
                number(logit),
                percent(probability)
            )
        }
        Fate::Chosen { logit, probability } => format!(
            "{name} was chosen, with the logit {} and the probability {}.",
            number(logit),
            percent(probability)
        ),
        other => format!("{name}: {other:?}"),
    }
}
