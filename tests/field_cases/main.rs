//! Faults that people met in other engines, each as a test with numbers worked
//! out by hand. Where engines differ, the tests hold what the stages' own
//! documentation promises.

#[path = "../support/mod.rs"]
mod support;

mod bias;
mod dry;
mod exactness;
mod input;
mod parameters;
mod penalties;
mod randomness;
mod temperature;
mod truncation;
