use proptest::prelude::*;

use super::*;

/// Expected values: `libm::exp` in `f64`, an independent implementation.
#[test]
fn exp_is_accurate_to_one_in_ten_million() {
    for i in 0..870_000_u32 {
        let x = -(i as f32) * 1e-4;
        let right = libm::exp(f64::from(x));
        let error = (f64::from(exp(x)) - right).abs();
        assert!(error <= right * 1e-7, "exp({x}) is {}, not {right}", exp(x));
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
    assert_eq!(bits, [0x3f67_a36d, 0x3ebc_5ab2, 0x3a3a_2aff, 0x1b69_2beb, 0x0113_bc74]);
}

fn logits() -> impl Strategy<Value = Vec<f32>> {
    let logit = prop_oneof![
        8 => -30.0..30.0_f32,
        1 => Just(f32::NEG_INFINITY),
        1 => prop_oneof![Just(0.0_f32), Just(-0.0), Just(1e30), Just(-1e30), Just(1e-40)],
    ];
    prop::collection::vec(logit, 1..1500)
}

proptest! {
    /// What the machine's vectors compute is what any machine computes.
    #[test]
    fn every_kernel_gives_the_portable_bits(logits in logits(), floor in -30.0..30.0_f32) {
        let blocks = logits.len().div_ceil(BLOCK);
        let best = maximum(&logits);
        prop_assert_eq!(best.to_bits(), portable::maximum(&logits).to_bits());

        let (mut a, mut b) = (vec![0.0; blocks], vec![0.0; blocks]);
        prop_assert_eq!(maxima(&logits, &mut a), portable::maxima(&logits, &mut b));
        let bits = |list: &[f32]| list.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        prop_assert_eq!(bits(&a), bits(&b));

        if best > f32::NEG_INFINITY {
            let (mut a, mut b) = (vec![0.0; blocks], vec![0.0; blocks]);
            masses(&logits, best, &mut a);
            portable::masses(&logits, best, &mut b);
            let bits = |list: &[f64]| list.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            prop_assert_eq!(bits(&a), bits(&b));

            let pair = |(a, b): (f64, f64)| (a.to_bits(), b.to_bits());
            let portable = portable::weighted(&logits, best);
            prop_assert_eq!(pair(weighted(&logits, best)), pair(portable));
        }
        let triple = |(n, a, b): (usize, f64, f64)| (n, a.to_bits(), b.to_bits());
        let portable = portable::moments(&logits, 1.5);
        prop_assert_eq!(triple(moments(&logits, 1.5)), triple(portable));

        let (mut a, mut b) = (Vec::new(), Vec::new());
        at_least(&logits, floor, &mut a);
        portable::at_least(&logits, floor, &mut b);
        prop_assert_eq!(&a, &b);
        let naive = (0..).zip(&logits).filter(|(_, l)| **l >= floor).map(|(at, _)| at);
        prop_assert_eq!(a, naive.collect::<Vec<u32>>());

        let (mut a, mut b) = (logits.clone(), logits.clone());
        divide(&mut a, 0.7);
        portable::divide(&mut b, 0.7);
        prop_assert_eq!(bits(&a), bits(&b));
    }

    /// Listing the unmasked candidates gives the sum that the block has.
    #[test]
    fn a_listed_blocks_mass_has_the_dense_blocks_bits(logits in logits()) {
        let block = &logits[..logits.len().min(BLOCK)];
        let best = maximum(block);
        prop_assume!(best > f32::NEG_INFINITY);
        let mut mass = [0.0];
        masses(block, best, &mut mass);
        let listed = block.iter().enumerate().filter(|(_, l)| **l > f32::NEG_INFINITY);
        let sum = mass_of(listed.map(|(at, l)| (at, exp(l - best))));
        prop_assert_eq!(sum.to_bits(), mass[0].to_bits());
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
        }
    }
}
