//! Holds the main chains to the instructions per token that are committed in
//! `benches/instructions.txt`. `BLESS=1` rewrites them.
//!
//! Needs Valgrind and gungraun's runner, so it only runs with `--ignored`.

use std::{collections::BTreeMap, env, fs, path::Path, process::Command};

use serde_json::Value;

/// How much more than before a chain may take, in percent.
const LIMIT: f64 = 5.0;
/// The same where another compiler made the code.
const LIMIT_OF_ANOTHER: f64 = 20.0;

/// The counts by name, and the compiler under whose code they were taken.
#[derive(PartialEq)]
struct Counts {
    compiler: String,
    counts: BTreeMap<String, f64>,
}

impl Counts {
    /// From a file of lines, each a name and a count but for the first.
    fn read(text: &str) -> Self {
        let mut lines = text.lines();
        let compiler = lines.next().expect("the compiler").to_owned();
        let pair = |line: &str| {
            let (name, count) = line.split_once(' ').expect("a name and a count");
            (name.to_owned(), count.trim().parse().expect("a count"))
        };
        Self { compiler, counts: lines.map(pair).collect() }
    }

    fn write(&self) -> String {
        let lines = self.counts.iter().map(|(name, count)| format!("{name} {count}\n"));
        lines.fold(format!("{}\n", self.compiler), |text, line| text + &line)
    }

    /// A line for each chain, and those that take too many.
    fn compare(&self, now: &Self) -> (String, Vec<String>) {
        let limit = if self.compiler == now.compiler { LIMIT } else { LIMIT_OF_ANOTHER };
        let mut lines = format!("{:<14} {:>10} {:>10}\n", "chain", "before", "now");
        let mut over = Vec::new();
        for (name, new) in &now.counts {
            let old = self.counts.get(name).copied().unwrap_or_default();
            let percent = 100.0 * (new / old - 1.0);
            lines += &format!("{name:<14} {old:>10} {new:>10} {percent:>+7.2} %\n");
            if *new > old * (1.0 + limit / 100.0) {
                over.push(format!("{name} takes {percent:.2} % more than before"));
            }
        }
        let missing = self.counts.keys().filter(|name| !now.counts.contains_key(*name));
        over.extend(missing.map(|name| format!("{name} was not counted")));
        (lines, over)
    }
}

fn count() -> Counts {
    let version = Command::new("rustc").arg("--version").output().expect("a compiler");
    let output = Command::new(env!("CARGO"))
        .args(["bench", "--quiet", "--package", "logitchain-stages", "--bench", "instructions"])
        .args(["--", "--output-format=json"])
        .output()
        .expect("cargo runs");
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    let text = String::from_utf8(output.stdout).expect("JSON");
    let counts = text.lines().map(|line| {
        let bench: Value = serde_json::from_str(line).expect("JSON");
        let name = bench["id"].as_str().expect("a name").to_owned();
        let total = &bench["profiles"][0]["data"]["total"]["metrics"]["Ir"]["values"]["new"];
        (name, total.as_f64().expect("a count"))
    });
    let compiler = String::from_utf8(version.stdout).expect("a version").trim().to_owned();
    Counts { compiler, counts: counts.collect() }
}

#[test]
#[ignore = "needs valgrind and gungraun-runner"]
#[allow(clippy::print_stdout, reason = "numbers to read")]
fn no_chain_takes_more_instructions_than_before() {
    // Valgrind has no AVX-512, so that all machines with AVX2 count the same.
    #[cfg(target_arch = "x86_64")]
    let comparable = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    #[cfg(not(target_arch = "x86_64"))]
    let comparable = false;
    if !comparable {
        println!("not compared: the counts are those of code for AVX2");
        return;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/instructions.txt");
    let now = count();
    if env::var_os("BLESS").is_some() {
        fs::write(&path, now.write()).expect("a writable file");
        return;
    }
    let before = Counts::read(&fs::read_to_string(&path).expect("counts"));
    let (lines, over) = before.compare(&now);
    println!("{lines}before: {}\nnow:    {}", before.compiler, now.compiler);
    let how = "if that is right, run this again with BLESS=1";
    assert!(over.is_empty(), "{}; {how}", over.join("; "));
}

#[test]
fn five_percent_more_is_too_much_but_with_another_compiler() {
    let counts = |compiler: &str, greedy: u32| {
        Counts::read(&format!("{compiler}\ngreedy {greedy}\ntop_p 50\n"))
    };
    let over = |compiler, greedy| counts("rustc 1", 100).compare(&counts(compiler, greedy)).1;
    assert!(over("rustc 1", 105).is_empty() && over("rustc 1", 80).is_empty());
    assert_eq!(over("rustc 1", 106), ["greedy takes 6.00 % more than before"]);
    assert!(over("rustc 2", 106).is_empty());
    assert_eq!(over("rustc 2", 121), ["greedy takes 21.00 % more than before"]);
    // A chain that is new has no count to be held to.
    let one = Counts::read("rustc 1\ngreedy 100\n");
    assert_eq!(one.compare(&counts("rustc 1", 100)).1, ["top_p takes inf % more than before"]);
    assert_eq!(counts("rustc 1", 100).compare(&one).1, ["top_p was not counted"]);
    assert!(Counts::read(&one.write()) == one);
}
