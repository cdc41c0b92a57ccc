use std::{fmt::Write as _, time::Duration};

use logitchain_engine::Timings;

/// Counts one text's times into those of a conversation.
pub(crate) fn add(all: &mut Timings, one: &Timings) {
    all.prompt_tokens += one.prompt_tokens;
    all.tokens += one.tokens;
    all.prompt += one.prompt;
    all.forward += one.forward;
    all.sampling += one.sampling;
    all.decoding += one.decoding;
}

/// Tokens, speed, and where the time of a generated token goes.
pub(crate) fn table(load: Duration, timings: &Timings) -> String {
    let parts = [
        ("forward pass", timings.forward),
        ("sampling", timings.sampling),
        ("decoding", timings.decoding),
    ];
    let generation: Duration = parts.iter().map(|(_, time)| *time).sum();
    let mut table = format!("model load   {:>10.1} ms\n", 1e3 * load.as_secs_f64());
    let rates = [
        ("prompt", timings.prompt_tokens, timings.prompt),
        ("generated", timings.tokens, generation),
    ];
    for (what, tokens, time) in rates {
        let rate = ratio(tokens as f64, time.as_secs_f64());
        let _ = writeln!(table, "{what:<12} {tokens:>10} tokens {rate:>10.1} tokens/s");
    }
    table += "per generated token";
    for (what, time) in parts {
        let micros = ratio(1e6 * time.as_secs_f64(), timings.tokens as f64);
        let percent = 100.0 * ratio(time.as_secs_f64(), generation.as_secs_f64());
        let _ = write!(table, "\n{what:<12} {micros:>10.2} µs     {percent:>10.2} %");
    }
    table
}

/// 0 of nothing is 0.
fn ratio(of: f64, by: f64) -> f64 {
    if by > 0.0 { of / by } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_are_of_generation_and_nothing_divides_by_zero() {
        let mut timings = Timings::default();
        assert!(!table(Duration::ZERO, &timings).contains("NaN"));
        timings.tokens = 10;
        timings.forward = Duration::from_micros(9_890);
        timings.sampling = Duration::from_micros(100);
        timings.decoding = Duration::from_micros(10);
        let table = table(Duration::from_millis(3), &timings);
        let lines: Vec<Vec<&str>> =
            table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["model", "load", "3.0", "ms"]);
        assert_eq!(lines[2], ["generated", "10", "tokens", "1000.0", "tokens/s"]);
        assert_eq!(lines[4], ["forward", "pass", "989.00", "µs", "98.90", "%"]);
        assert_eq!(lines[5], ["sampling", "10.00", "µs", "1.00", "%"]);
        assert_eq!(lines[6], ["decoding", "1.00", "µs", "0.10", "%"]);
    }
}
