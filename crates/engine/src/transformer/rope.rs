//! Rotary positions: each pair of a query's or key's elements turns with the
//! position, at a speed of its own.

use std::f64::consts::TAU;

use super::{architectures::Pairs, keys::Keys};
use crate::{Gguf, LoadError, gguf::Shown};

/// How far each pair turns from one position to the next.
#[derive(Clone, Debug)]
pub(crate) struct Rope {
    /// In radians.
    speeds: Vec<f64>,
    /// What turned elements are multiplied with.
    magnitude: f64,
    pairs: Pairs,
}

/// How rotary positions are stretched over a context longer than the one of
/// the training.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scaling {
    /// What divides positions.
    factor: f64,
    /// Whether fast pairs are left alone.
    yarn: Option<Yarn>,
    magnitude: f64,
    /// Whether two lists of factors stretch further.
    pub(super) longrope: bool,
    /// The context of the training, if the file tells it.
    pub(super) original_context: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
struct Yarn {
    original_context: f64,
    /// Pairs that turn more often within that context are left alone.
    fast: f64,
    /// Pairs that turn less often are divided.
    slow: f64,
}

impl Scaling {
    /// No scaling but of magnitude.
    pub(super) fn none(self) -> Self {
        Self { factor: 1.0, yarn: None, ..self }
    }

    /// `tempered` says whether a key may temper the magnitude of `YaRN`.
    pub(super) fn read(
        keys: &mut Keys<'_>,
        context: usize,
        tempered: bool,
    ) -> Result<Self, LoadError> {
        let kind = keys.get("rope.scaling.type", Gguf::string)?.unwrap_or("linear");
        if !["none", "linear", "yarn", "longrope"].contains(&kind) {
            let expected = "none, linear, yarn or longrope";
            return Err(keys.wrong("rope.scaling.type", Shown(kind), expected));
        }
        // A divisor of positions, which 0 leaves alone; `scale_linear` is the
        // key's older name.
        let divisor = |x: f32| x.is_finite() && x >= 0.0;
        let expected = "finite and not negative";
        let older = keys.number("rope.scale_linear", divisor, expected)?;
        let factor = keys.number("rope.scaling.factor", divisor, expected)?.or(older);
        let factor = factor.filter(|&x| x > 0.0 && kind != "none").map_or(1.0, f64::from);

        let positive = |x: f32| x.is_finite() && x > 0.0;
        let expected = "finite and positive";
        let magnitude = keys.number("rope.scaling.attn_factor", positive, expected)?.unwrap_or(1.0);
        let original_context = keys.count("rope.scaling.original_context_length")?;
        let fast = keys.number("rope.scaling.yarn_beta_fast", positive, expected)?;
        let slow = keys.number("rope.scaling.yarn_beta_slow", positive, expected)?;
        let yarn = (kind == "yarn").then(|| Yarn {
            original_context: original_context.unwrap_or(context) as f64,
            fast: f64::from(fast.unwrap_or(32.0)),
            slow: f64::from(slow.unwrap_or(1.0)),
        });
        let multiplier = match tempered {
            true => {
                let within = |x: f32| x.is_finite() && x >= 0.0;
                let part = "rope.scaling.yarn_log_multiplier";
                keys.number(part, within, "finite and not negative")?
            }
            false => None,
        };
        // Peng et al., "YaRN", 2023, section 3.4; a multiplier takes back a share.
        let sharpness = |share: f64| match kind == "yarn" && factor > 1.0 {
            true => 1.0 + 0.1 * share * libm::log(factor),
            false => 1.0,
        };
        let sharpened = sharpness(1.0) / sharpness(multiplier.map_or(0.0, f64::from));
        Ok(Self {
            factor,
            yarn,
            magnitude: f64::from(magnitude) * sharpened,
            longrope: kind == "longrope",
            original_context,
        })
    }
}

impl Rope {
    /// Pair `i` of `count` turns by `1 / base^(i / count)`, before scaling.
    /// `divisors` are one for each pair, or none.
    pub(super) fn new(
        pairs: Pairs,
        count: usize,
        base: f32,
        scaling: &Scaling,
        divisors: Option<&[f32]>,
    ) -> Self {
        let base = f64::from(base);
        let speed = |pair: usize| {
            let divisor = divisors.map_or(1.0, |list| f64::from(list[pair]));
            let plain = 1.0 / libm::pow(base, pair as f64 / count as f64) / divisor;
            let stretched = plain / scaling.factor;
            match &scaling.yarn {
                None => stretched,
                Some(yarn) => {
                    let share = yarn.share_left_alone(pair, count, base);
                    stretched * (1.0 - share) + plain * share
                }
            }
        };
        Self { speeds: (0..count).map(speed).collect(), magnitude: scaling.magnitude, pairs }
    }

    /// The turn of a position.
    pub(super) fn at(&self, position: usize) -> Rotation {
        let angle = |speed: &f64| {
            let angle = position as f64 * speed;
            let (sin, cos) = libm::sincos(angle);
            ((cos * self.magnitude) as f32, (sin * self.magnitude) as f32)
        };
        Rotation { turns: self.speeds.iter().map(angle).collect(), pairs: self.pairs }
    }
}

impl Yarn {
    /// 1 for fast pairs, 0 for slow ones, and a straight line between.
    fn share_left_alone(&self, pair: usize, count: usize, base: f64) -> f64 {
        let elements = 2.0 * count as f64;
        // The pair that turns so often within the original context.
        let turning = |turns: f64| {
            elements * libm::log(self.original_context / (turns * TAU)) / (2.0 * libm::log(base))
        };
        let first = libm::floor(turning(self.fast)).max(0.0);
        let last = libm::ceil(turning(self.slow)).min(elements - 1.0);
        let along = (pair as f64 - first) / (last - first).max(0.001);
        1.0 - along.clamp(0.0, 1.0)
    }
}

/// Cosine and sine of each pair's angle, for one position.
#[derive(Debug)]
pub(super) struct Rotation {
    turns: Vec<(f32, f32)>,
    pairs: Pairs,
}

impl Rotation {
    /// Turns the pairs; what is beyond them stays.
    pub(super) fn apply(&self, head: &mut [f32]) {
        let turn = |a: &mut f32, b: &mut f32, (cos, sin): (f32, f32)| {
            (*a, *b) = (*a * cos - *b * sin, *a * sin + *b * cos);
        };
        match self.pairs {
            Pairs::Neighbours => {
                let (pairs, _) = head.as_chunks_mut::<2>();
                for ([a, b], &angle) in pairs.iter_mut().zip(&self.turns) {
                    turn(a, b, angle);
                }
            }
            Pairs::Halves => {
                let (first, second) = head.split_at_mut(self.turns.len());
                for ((a, b), &angle) in first.iter_mut().zip(second).zip(&self.turns) {
                    turn(a, b, angle);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::f32::consts::PI;

    use super::*;

    const PLAIN: Scaling = Scaling {
        factor: 1.0,
        yarn: None,
        magnitude: 1.0,
        longrope: false,
        original_context: None,
    };

    fn close(found: &[f32], expected: &[f32]) {
        assert_eq!(found.len(), expected.len());
        for (a, b) in found.iter().zip(expected) {
            assert!((a - b).abs() < 1e-6, "{found:?}, not {expected:?}");
        }
    }

    /// By hand: 1 radian times position 1 for the first pair, and for the
    /// second, with base (2/pi)^2, a quarter turn.
    #[test]
    fn a_quarter_turn_swaps_a_pair() {
        let base = (2.0 / PI).powi(2);
        let rope = |pairs| Rope::new(pairs, 2, base, &PLAIN, None).at(1);
        let (cos, sin) = (1.0_f32.cos(), 1.0_f32.sin());
        let mut head = [1.0, 0.0, 1.0, 2.0, 7.0];
        rope(Pairs::Neighbours).apply(&mut head);
        close(&head, &[cos, sin, -2.0, 1.0, 7.0]);
        let mut head = [1.0, 1.0, 0.0, 2.0, 7.0];
        rope(Pairs::Halves).apply(&mut head);
        close(&head, &[cos, -2.0, sin, 1.0, 7.0]);
    }

    /// By hand: position 6 divided by 2 is position 3; a divisor of 3 makes it 1.
    #[test]
    fn factors_divide_positions_and_speeds() {
        let scaling = Scaling { factor: 2.0, magnitude: 10.0, ..PLAIN };
        let mut head = [1.0, 0.0, 1.0, 0.0];
        Rope::new(Pairs::Neighbours, 2, 1.0, &scaling, Some(&[1.0, 3.0])).at(6).apply(&mut head);
        let (three, one) = (3.0_f32, 1.0_f32);
        close(&head, &[three.cos(), three.sin(), one.cos(), one.sin()].map(|x| 10.0 * x));
    }

    /// By hand, with base e^2 and a context of 2 pi e^8, where pair `i` of 16
    /// turns e^(8 - i/8) times: more than e^7 before pair 8, and fewer than e^6
    /// after pair 16, which is beyond the last one.
    #[test]
    fn yarn_leaves_fast_pairs_alone_and_stretches_slow_ones() {
        let base = (2.0_f64).exp();
        let yarn = Yarn {
            original_context: TAU * (8.0_f64).exp(),
            // Not quite whole numbers, which rounding takes up or down.
            fast: (6.99_f64).exp(),
            slow: (6.01_f64).exp(),
        };
        let share = |pair| yarn.share_left_alone(pair, 16, base);
        assert!(share(8) == 1.0 && share(0) == 1.0);
        assert!((share(12) - 0.5).abs() < 1e-9, "{}", share(12));
        assert!((share(15) - 0.125).abs() < 1e-9, "{}", share(15));
    }
}
