//! Random chains over random logits, by llama.cpp and by logitchain.
//!
//! `LOGITCHAIN_CASES` sets how many; each is a function of its number, so that a
//! failing one can be run again.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use logitchain_core::Registry;
use logitchain_peers::{
    compare::{Outcome, compare},
    random::Case,
};
use logitchain_stages as _;

fn cases() -> u64 {
    std::env::var("LOGITCHAIN_CASES").map_or(10_000, |n| n.parse().expect("a number of cases"))
}

#[test]
fn random_chains_give_llama_cpps_survivors_probabilities_and_tokens() {
    let registry = Registry::linked().expect("distinct names");
    let first: u64 = std::env::var("LOGITCHAIN_FIRST_CASE")
        .map_or(0, |n| n.parse().expect("the number of a case"));
    let (next, counts, failures) =
        (AtomicU64::new(first), Mutex::new(BTreeMap::new()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, Into::into) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= first + cases() {
                        break;
                    }
                    match compare(&Case::new(number), &registry) {
                        Ok(outcome) => {
                            *counts.lock().expect("no panic").entry(outcome).or_insert(0_u64) += 1;
                        }
                        Err(e) => failures.lock().expect("no panic").push(e.0),
                    }
                }
            });
        }
    });
    let (counts, failures) =
        (counts.into_inner().expect("no panic"), failures.into_inner().expect("no panic"));
    for (outcome, count) in &counts {
        println!("{count:9} {outcome:?}");
    }
    for failure in failures.iter().take(20) {
        println!("UNEXPLAINED {failure}");
    }
    assert!(failures.is_empty(), "{} of {} cases differ unexplained", failures.len(), cases());
    // Ties and thresholds are rare, or something is wrong with the explanations.
    let same = counts.get(&Outcome::Same).copied().unwrap_or_default();
    assert!(same * 100 >= cases() * 85, "only {same} of {} cases are the same", cases());
}

/// Found among a million, each with a reason that is hardly seen elsewhere: a
/// probability that is 0 only after the division by the sum, entropies and
/// probabilities for which 20,000 weights below 2^-24 of the best are lost, logits
/// that lie so close that a temperature's last digit turns them round, and
/// temperatures that make llama.cpp's logits infinite.
#[test]
fn the_rarest_differences_stay_explained() {
    let registry = Registry::linked().expect("distinct names");
    for (number, expected) in [
        (416_588, Outcome::NanEntropy),
        (900_922, Outcome::NanEntropy),
        (932_197, Outcome::SumInF32),
        (934_215, Outcome::SumInF32),
        (432_430, Outcome::SumInF32),
        (699_557, Outcome::SumInF32),
        (982_505, Outcome::SumInF32),
        (527_278, Outcome::Same),
        (443_267, Outcome::TinyTemperature),
        (511_836, Outcome::TinyTemperature),
    ] {
        match compare(&Case::new(number), &registry) {
            Ok(outcome) => assert_eq!(outcome, expected, "case {number}"),
            Err(e) => panic!("{e}"),
        }
    }
}
