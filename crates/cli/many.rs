//! Many texts at once, given out in their order.

use std::collections::{HashMap, VecDeque};

use logitchain_core::TokenId;
use logitchain_engine::{
    Event, GgufModel, Request, RequestId, Scheduler, SchedulerLimits, StopReason,
};

use crate::report::Failure;

/// How many texts wait for an earlier one at most, for each that is written at once:
/// a long one in front is not to fill the memory with those behind it.
const AHEAD: usize = 16;

/// What became of a request.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Up to where it failed, if it did.
    pub(crate) text: String,
    pub(crate) tokens: Vec<TokenId>,
    pub(crate) end: Result<StopReason, Failure>,
}

/// A request that is under way, or waits for those before it.
#[derive(Debug, Default)]
struct Slot {
    text: String,
    tokens: Vec<TokenId>,
    end: Option<Result<StopReason, Failure>>,
}

/// Continues texts, and hands over what became of each, in their order. Requests are
/// asked for only as there is room for them.
pub(crate) fn in_order(
    model: &GgufModel,
    limits: SchedulerLimits,
    mut requests: impl Iterator<Item = Result<Request, Failure>>,
    mut take: impl FnMut(Outcome) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let texts = limits.texts.get();
    let mut scheduler = Scheduler::new(model, limits);
    let mut slots = VecDeque::<Slot>::new();
    let mut taken = 0;
    let mut places = HashMap::<RequestId, usize>::new();
    loop {
        while scheduler.running() + scheduler.waiting() < texts
            && slots.len() < texts.saturating_mul(AHEAD)
        {
            let Some(request) = requests.next() else { break };
            let submitted = request.and_then(|request| Ok(scheduler.submit(request)?));
            let mut slot = Slot::default();
            match submitted {
                Ok(id) => _ = places.insert(id, taken + slots.len()),
                Err(failure) => slot.end = Some(Err(failure)),
            }
            slots.push_back(slot);
        }
        if slots.is_empty() {
            return Ok(());
        }
        while slots.front().is_some_and(|slot| slot.end.is_some()) {
            if let Some(Slot { text, tokens, end: Some(end) }) = slots.pop_front() {
                taken += 1;
                take(Outcome { text, tokens, end })?;
            }
        }
        for event in scheduler.step()? {
            match event {
                Event::Token { request, step } => {
                    let slot = &mut slots[places[&request] - taken];
                    slot.text += &step.text;
                    slot.tokens.push(step.token);
                }
                Event::Done { request, reason } => {
                    if let Some(place) = places.remove(&request) {
                        slots[place - taken].end = Some(Ok(reason));
                    }
                }
                Event::Failed { request, error: source } => {
                    if let Some(place) = places.remove(&request) {
                        let slot = &mut slots[place - taken];
                        let nth = slot.tokens.len() + 1;
                        slot.end = Some(Err(Failure::Sample { nth, source }));
                    }
                }
                _ => {}
            }
        }
    }
}
