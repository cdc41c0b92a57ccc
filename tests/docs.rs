//! What the README shows is what the program prints. `BLESS=1` rewrites it.

use std::{fs, path::Path, process::Command, sync::Mutex};

/// Several tests rewrite the README.
static README: Mutex<()> = Mutex::new(());

#[test]
fn the_tables_in_the_readme_are_those_that_the_program_prints() {
    the_table("stages", &["list", "--markdown"]);
    the_table("files", &["list", "--engine", "--markdown"]);
}

fn the_table(name: &str, args: &[&str]) {
    shown(name, &args.join(" "), &printed(args));
}

fn printed(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_logitchain"))
        .args(args)
        .output()
        .expect("the program runs");
    assert!(output.status.success());
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Between its marks the README has what the program prints.
fn shown(name: &str, command: &str, printed: &str) {
    let _alone = README.lock();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let readme = fs::read_to_string(&path).expect("a README");
    let (begin, end) = (&*format!("<!-- {name} -->\n"), &*format!("<!-- /{name} -->"));
    let (before, rest) = readme.split_once(begin).expect("its place");
    let (_, after) = rest.split_once(end).expect("its end");
    let right = format!("{before}{begin}{printed}{end}{after}");
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, &right).expect("a writable README");
        return;
    }
    assert!(
        readme == right,
        "the README's part {name} is not what `{command}` prints; run with BLESS=1"
    );
}

/// Between these comments stands a command, as `$ logitchain ...`, and what it prints.
#[test]
fn the_commands_in_the_readme_print_what_it_shows() {
    let _alone = README.lock();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let readme = fs::read_to_string(&path).expect("a README");
    let (begin, end) = ("<!-- printed -->\n```text\n$ logitchain ", "```\n<!-- /printed -->");
    let mut parts = readme.split(begin);
    let mut right = parts.next().unwrap_or_default().to_owned();
    let mut shown = 0;
    for part in parts {
        let (command, rest) = part.split_once('\n').expect("a command");
        let (_, after) = rest.split_once(end).expect("the end of what is printed");
        let output = Command::new(env!("CARGO_BIN_EXE_logitchain"))
            .args(words(command))
            .output()
            .expect("the program runs");
        assert!(output.status.success(), "{command}");
        let printed = String::from_utf8(output.stdout).expect("UTF-8");
        right += &format!("{begin}{command}\n{printed}{end}{after}");
        shown += 1;
    }
    assert!(shown > 0);
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, &right).expect("a writable README");
        return;
    }
    assert!(readme == right, "a command in the README prints other things; run with BLESS=1");
}

/// The words of a command line, some of them in quotes of either kind.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut quote) = (vec![String::new()], None);
    for c in command.chars() {
        match (c, quote) {
            (' ', None) => words.push(String::new()),
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            (c, _) => words.last_mut().expect("a word").push(c),
        }
    }
    words
}

/// The README's requests give the results that stand below them.
#[test]
fn the_results_in_the_readme_are_those_of_its_requests() {
    let readme = include_str!("../README.md");
    let (_, rest) = readme.split_once("`requests.jsonl`\n\n```json\n").expect("requests");
    let (requests, _) = rest.split_once("```").expect("their end");
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("readme.jsonl");
    fs::write(&file, requests).expect("a writable folder");
    let results = printed(&["batch", file.to_str().expect("UTF-8")]);
    shown("batch", "batch requests.jsonl", &format!("```json\n{results}```\n"));
}

/// The README's chain file is a chain file.
#[test]
fn the_chain_file_in_the_readme_builds() {
    use logitchain_core::{ChainConfig, NoVocab, Registry};
    use logitchain_stages as _;

    let readme = include_str!("../README.md");
    let (_, rest) = readme.split_once("```toml\n").expect("a chain file");
    let (file, _) = rest.split_once("```").expect("its end");
    let config: ChainConfig = file.parse().expect("a chain file");
    let registry = Registry::linked().expect("distinct names");
    let chain = config.build(&registry, &NoVocab).expect("a chain");
    assert_eq!(chain.to_string(), "logits -> penalties -> min-p -> temp-ext -> dist");
}
