//! A chain from a list of stages, over five made-up scores, then over a model.
//!
//! `cargo run --release --example quickstart`

use logitchain::{
    ChainConfig, NoVocab, Registry,
    engine::{GenerateOptions, Generation, GgufModel, Special, prompt_tokens},
};

#[allow(clippy::print_stdout, reason = "an example shows what it does")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A chain is data: names in order, with parameters where the defaults will not do.
    let config = ChainConfig::from_samplers("top_k{k=3};min_p{p=0.1};temperature{t=0.7}")?;
    let registry = Registry::linked()?;

    // It needs no model: one score per token goes in, one token comes out.
    let mut chain = config.build(&registry, &NoVocab)?;
    println!("{chain}");
    println!("token {}", chain.sample(&mut [0.5, 2.0, 1.5, -1.0, 0.0])?);

    // With the model that is built in, tokens become text.
    let model = GgufModel::embedded();
    let mut chain = config.build(&registry, model.tokenizer())?;
    let prompt = prompt_tokens(model.tokenizer(), "In the beginning", Special::Plain)?;
    let options = GenerateOptions { max_tokens: Some(24), ..Default::default() };
    let mut session = model.session();
    for step in Generation::new(&mut session, &mut chain, &prompt, options)? {
        print!("{}", step?.text);
    }
    println!();
    Ok(())
}
