use crate::outcome::Outcome;
use crate::{cli, output};
use clap_complete::Shell;

/// Print a completion script for a shell
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  source <(rollcall completion bash)")]
pub struct Arguments {
    shell: Shell,
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut cli::command(), "rollcall", &mut script);
    output::document(&String::from_utf8(script)?)?;
    Ok(Outcome::Done)
}
