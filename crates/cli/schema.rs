use clap::Command;
use clap_complete::Shell;
use logitchain_core::Registry;

use crate::{output, report::Failure};

/// Prints the JSON Schema of chain files.
pub(crate) fn schema(registry: &Registry) -> Result<(), Failure> {
    output::write(&format!("{:#}\n", registry.chain_file_schema()))
}

/// Prints the completions of the command line, the stages' flags included.
pub(crate) fn completions(shell: Shell, mut command: Command) -> Result<(), Failure> {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    output::write(&String::from_utf8_lossy(&script))
}
