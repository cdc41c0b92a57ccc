use logitchain_core::TokenId;
use ratatui::text::{Line, Span};

use super::{CHANGED, CHOSEN, Scene, words};

/// Texts are shown to this length, in tokens.
const TOKENS: usize = 1000;

/// The text so far, with this step's token.
pub(super) fn lines(scene: Scene<'_>, width: u16) -> Vec<Line<'static>> {
    let Scene { state, look, recording } = scene;
    let before = recording.before(state.step).iter().filter_map(|step| step.token);
    let before: Vec<TokenId> = recording.prompt().iter().copied().chain(before).collect();
    let seen = before.len().saturating_sub(TOKENS);
    let bytes: Vec<u8> =
        before[seen..].iter().flat_map(|token| state.vocab.bytes(*token)).copied().collect();
    let token = recording.steps()[state.step].token;
    let mut spans = vec![Span::raw(words::plain(&String::from_utf8_lossy(&bytes)))];
    if let Some(token) = token {
        spans.push(Span::styled(words::token(state.vocab, token), CHOSEN));
    }
    if let Ok(other) = look.outcome
        && Some(other) != token
    {
        spans.push(Span::raw(" → "));
        spans.push(Span::styled(words::token(state.vocab, other), CHANGED));
    }
    words::wrap(&spans, width.into())
}
