//! The formats of small integers, one file each.

pub(super) mod iq4_nl;
pub(super) mod iq4_xs;
pub(super) mod q2_k;
pub(super) mod q3_k;
pub(super) mod q4_0;
pub(super) mod q4_1;
pub(super) mod q4_k;
pub(super) mod q5_0;
pub(super) mod q5_1;
pub(super) mod q5_k;
pub(super) mod q6_k;
pub(super) mod q8_0;

mod words;
