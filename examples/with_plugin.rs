//! A stage from another crate: `examples/plugin` brings `top_a`.
//!
//! `cargo run --example with_plugin`

use logitchain::{ChainConfig, NoVocab, Registry};
// Nothing else names the plugin, and a crate that is not named is not linked.
use logitchain_top_a as _;

#[allow(clippy::print_stdout, reason = "an example shows what it does")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let config = ChainConfig::from_samplers("top_k;top_a{a=0.2};temperature")?;
    let mut chain = config.build(&Registry::linked()?, &NoVocab)?;
    println!("{chain}");
    println!("token {}", chain.sample(&mut [1.0, 3.0, 2.5, -2.0, 0.0])?);
    Ok(())
}
