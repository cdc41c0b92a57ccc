//! Scripts of draws, resets, accepted tokens and clones.

use std::collections::HashMap;

use logitchain_core::{Chain, TokenId};

use super::{
    Case, Verdict,
    data::{ids, list, text},
    translate,
    vocab::Signs,
};

pub(crate) fn check(case: &Case) -> Verdict {
    let stages: Vec<_> = case.chain().iter().map(translate::stage).collect();
    let seed = stages.iter().find_map(|stage| stage.seed).unwrap_or(0);
    assert!(stages.iter().all(|stage| stage.seed.is_none_or(|s| s == seed)));
    let file = translate::chain_file(seed, stages.iter().map(|stage| (stage.name, &stage.params)));
    let mut main = translate::build(&file, &Signs::new(case.logits.len()))?;
    case.history().into_iter().for_each(|token| main.accept(token));
    let mut chains = HashMap::from([("main".to_owned(), main)]);

    let outs = list(&case.expected()["outs"]);
    for ((nth, op), out) in (1..).zip(list(&case.json["ops"])).zip(outs) {
        let chain = chains.get_mut(text(&op["on"])).expect("a chain");
        let draws = |chain: &mut Chain, accept: bool| {
            let count = op["n"].as_u64().expect("a number of draws");
            let draw = |_| {
                let token = chain.sample(&mut case.logits.clone()).expect("a token");
                if accept {
                    chain.accept(token);
                }
                token.0
            };
            (0..count).map(draw).collect()
        };
        let got: Vec<u32> = match text(&op["op"]) {
            "draw" => draws(chain, true),
            "draw_noaccept" => draws(chain, false),
            "reset" => {
                chain.reset();
                Vec::new()
            }
            "accept" => {
                chain.accept(TokenId(op["token"].as_u64().expect("an id") as u32));
                Vec::new()
            }
            "clone" => {
                let clone = chain.clone();
                chains.insert(format!("clone{}", op["id"]), clone);
                Vec::new()
            }
            other => panic!("no operation is called `{other}`"),
        };
        if got != ids(out) {
            return Err(format!("operation {nth} gives {got:?}"));
        }
    }
    Ok(())
}
