use proptest::prelude::*;

use super::*;

/// Expected values: `libm::exp` in `f64`, an independent implementation.
#[test]
#[cfg_attr(miri, ignore = "too many numbers for Miri")]
fn exp_is_accurate_to_one_in_a_few_million() {
    for i in 0..870_000_u32 {
        let x = -(i as f32) * 1e-4;
        let right = libm::exp(f64::from(x));
        let error = (f64::from(exp(x)) - right).abs();
        let bound = if x >= -20.0 { 1.5e-7 } else { 3.5e-7 };
        assert!(error <= right * bound, "exp({x}) is {}, not {right}", exp(x));
    }
}

#[test]
fn exp_of_zero_is_one_and_far_below_it_is_zero() {
    assert_eq!(exp(0.0).to_bits(), 1.0_f32.to_bits());
    assert_eq!(exp(-0.0).to_bits(), 1.0_f32.to_bits());
    for x in [-87.001, -104.0, -1e30, f32::MIN, f32::NEG_INFINITY] {
        assert_eq!(exp(x).to_bits(), 0, "exp({x})");
    }
    assert_eq!(exp_nearest(f32::NEG_INFINITY).to_bits(), 0);
}

/// The bits are part of the promise that a seed gives the same text on every
/// machine: these were written down once and may never change.
#[test]
fn value_stability() {
    let bits = [-0.1_f32, -1.0, -7.25, -50.0, -86.5].map(|x| exp(x).to_bits());
    assert_eq!(bits, [0x3f67_a36d, 0x3ebc_5ab2, 0x3a3a_2aff, 0x1b69_2bed, 0x0113_bc76]);
}

fn logits() -> impl Strategy<Value = Vec<f32>> {
    let logit = prop_oneof![
        8 => -30.0..30.0_f32,
        1 => Just(f32::NEG_INFINITY),
        1 => prop_oneof![Just(0.0_f32), Just(-0.0), Just(1e30), Just(-1e30), Just(1e-40)],
    ];
    prop::collection::vec(logit, 1..1500)
}

/// Temperatures, sensible ones and others.
fn t() -> impl Strategy<Value = f32> {
    prop_oneof![4 => 0.01..9.0_f32, 1 => 1e-6..1e6_f32, 1 => 1e-38..1e-30_f32, 1 => 1e30..1e38_f32]
}

proptest! {
    /// What the machine's vectors compute is what any machine computes.
    #[test]
    fn every_kernel_gives_the_portable_bits(logits in logits(), floor in -30.0..30.0_f32, t in t()) {
        let blocks = logits.len().div_ceil(BLOCK);
        let best = maximum(&logits);
        prop_assert_eq!(best.to_bits(), over::maximum::<Plain>(&logits).to_bits());

        let (mut a, mut b) = (vec![0.0; blocks], vec![0.0; blocks]);
        prop_assert_eq!(maxima(&logits, &mut a), over::maxima::<Plain>(&logits, &mut b));
        let bits = |list: &[f32]| list.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        prop_assert_eq!(bits(&a), bits(&b));

        if best > f32::NEG_INFINITY {
            let (mut a, mut b) = (vec![0.0; blocks], vec![0.0; blocks]);
            masses(&logits, best, &mut a);
            over::masses::<Plain>(&logits, best, &mut b);
            let bits = |list: &[f64]| list.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            prop_assert_eq!(bits(&a), bits(&b));

            let masses_of = a;
            let (mut c, mut d) = (vec![0.0; blocks], vec![0.0; blocks]);
            masses_at(&logits, 0.7, best / 0.7, &mut c);
            over::masses_at::<Plain>(&logits, 0.7, best / 0.7, &mut d);
            prop_assert_eq!(&c, &d);

            // And the same as of logits that are divided.
            let mut divided = logits.clone();
            divide(&mut divided, 0.7);
            masses(&divided, best / 0.7, &mut d);
            prop_assert_eq!(&c, &d);

            // Masking and weighing at once is doing so one after the other.
            let floor = best - 2.0;
            let (mut masked, mut also, mut apart) = (logits.clone(), logits.clone(), logits.clone());
            mask_below(&mut masked, floor, best, &mut c);
            over::mask_below::<Plain>(&mut also, floor, best, &mut d);
            prop_assert_eq!(&c, &d);
            mask(&mut apart, Range::from(floor), None);
            masses(&apart, best, &mut d);
            prop_assert_eq!(&c, &d);
            prop_assert_eq!(&masked, &apart);
            prop_assert_eq!(&also, &apart);

            let (mut c, mut d) = (vec![0.0; logits.len()], vec![0.0; logits.len()]);
            weights(&logits, best, &mut c);
            over::weights::<Plain>(&logits, best, &mut d);
            let same = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits());
            prop_assert!(same(&c, &d));
            let weights_of = c.clone();
            let mut first = [0.0; BLOCK];
            let of_first = &weights_of[..weights_of.len().min(BLOCK)];
            first[..of_first.len()].copy_from_slice(of_first);
            prop_assert_eq!(block_mass(&first).to_bits(), masses_of[0].to_bits());
            prop_assert_eq!(over::block_mass::<Plain>(&first).to_bits(), masses_of[0].to_bits());
            let range = Range { low: floor, high: floor + 9.0 };
            let (mass, count) = mass_within(&logits, &c, range);
            prop_assert_eq!((mass, count), over::mass_within::<Plain>(&logits, &c, range));
            let held = || logits.iter().zip(&c).filter(|(logit, _)| range.holds(**logit));
            prop_assert_eq!(count, held().count());
            let sum: f64 = held().map(|(_, weight)| f64::from(*weight)).sum();
            prop_assert!((mass - sum).abs() <= sum * 1e-6);

            let (mut c, mut d) = (vec![0.0; blocks], vec![0.0; blocks]);
            let (mut w, mut v) = (vec![0.0; logits.len()], vec![0.0; logits.len()]);
            let (count, moment) = weighted(&logits, best, &mut c, &mut w);
            let plain = over::weighted::<Plain>(&logits, best, &mut d, &mut v);
            prop_assert!(same(&w, &v) && same(&w, &weights_of));
            let unnoted = weighted(&logits, best, &mut d, &mut []);
            prop_assert_eq!((count, moment.to_bits()), (unnoted.0, unnoted.1.to_bits()));
            prop_assert_eq!((count, moment.to_bits()), (plain.0, plain.1.to_bits()));
            prop_assert_eq!(&c, &d);
            prop_assert_eq!(&c, &masses_of);
        }
        prop_assert_eq!(spread(&logits, 1.5), over::spread::<Plain>(&logits, 1.5));

        prop_assert_eq!(count_at_least(&logits, floor), over::count_at_least::<Plain>(&logits, floor));
        let (range, but) = (Range::from(floor), Range { low: floor + 1.0, high: floor + 3.0 });
        let (mut a, mut b) = (Vec::new(), Vec::new());
        positions(&logits, range, but, &mut a);
        over::positions::<Plain>(&logits, range, but, &mut b);
        prop_assert_eq!(&a, &b);
        let wanted = |l: f32| l >= range.low && !(l >= but.low && l <= but.high);
        let naive = (0..).zip(&logits).filter(|(_, l)| wanted(**l)).map(|(at, _)| at);
        prop_assert_eq!(a, naive.collect::<Vec<u32>>());
        let (mut a, mut b) = (Vec::new(), Vec::new());
        positions_from(&logits, floor, &mut a);
        over::positions_from::<Plain>(&logits, floor, &mut b);
        prop_assert_eq!(&a, &b);
        let naive = (0..).zip(&logits).filter(|(_, l)| **l >= floor).map(|(at, _)| at);
        prop_assert_eq!(a, naive.collect::<Vec<u32>>());
        let at_least = logits.iter().filter(|l| **l >= floor).count();
        prop_assert_eq!(count_at_least(&logits, floor), at_least);

        let (mut a, mut b) = (logits.clone(), logits.clone());
        divide(&mut a, t);
        over::divide::<Plain>(&mut b, t);
        prop_assert_eq!(bits(&a), bits(&b));
        let quotients: Vec<f32> = logits.iter().map(|logit| logit / t).collect();
        prop_assert_eq!(bits(&a), bits(&quotients));
        let (mut max_a, mut max_b) = (vec![0.0; blocks], vec![0.0; blocks]);
        map(&mut a, |logit: f32| logit / 3.0 + 1.0, &mut max_a);
        over::map::<Plain, _>(&mut b, |logit: f32| logit / 3.0 + 1.0, &mut max_b);
        prop_assert_eq!(bits(&a), bits(&b));
        prop_assert_eq!(bits(&max_a), bits(&max_b));
        let (mut p, mut q) = (vec![0.5; a.len()], vec![0.5; b.len()]);
        map_weighted(&mut a, &mut p, 0.3, |logit: f32, p: f32| logit * p, &mut max_a);
        over::map_weighted::<Plain, _>(&mut b, &mut q, 0.3, |logit: f32, p: f32| logit * p, &mut max_b);
        prop_assert_eq!((bits(&a), bits(&p)), (bits(&b), bits(&q)));
        maxima(&a, &mut max_b);
        prop_assert_eq!(bits(&max_a), bits(&max_b));
        let tie = a.first().copied();
        mask(&mut a, range, tie);
        over::mask::<Plain>(&mut b, range, tie);
        prop_assert_eq!(bits(&a), bits(&b));
    }

    /// Two logits alone in their block have its sum.
    #[test]
    fn the_mass_of_few_has_the_blocks_bits(
        first in (0..BLOCK, -9.0..0.0_f32),
        second in prop::option::of((0..BLOCK, -9.0..0.0_f32)),
    ) {
        prop_assume!(second.is_none_or(|second| first.0 < second.0));
        let mut block = [f32::NEG_INFINITY; BLOCK];
        block[first.0] = first.1;
        if let Some((at, logit)) = second {
            block[at] = logit;
        }
        let mut mass = [0.0];
        masses(&block, 0.0, &mut mass);
        let weigh = |(at, logit)| (at, exp(logit));
        prop_assert_eq!(mass_of_few(weigh(first), second.map(weigh)).to_bits(), mass[0].to_bits());
    }
}

#[test]
fn numbers_that_are_no_logits_are_found_wherever_they_stand() {
    for at in [0, 31, 32, 255, 256, 300] {
        for bad in [f32::NAN, f32::INFINITY] {
            let mut logits = vec![1.0; 301];
            assert!(maxima(&logits, &mut [0.0; 2]));
            logits[at] = bad;
            assert!(!maxima(&logits, &mut [0.0; 2]), "{bad} at {at}");
            logits[7] = f32::NEG_INFINITY;
            assert!(!maxima(&logits, &mut [0.0; 2]), "{bad} at {at}, beside a masked one");
        }
    }
}
