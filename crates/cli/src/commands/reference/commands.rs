use crate::cli::Cli;
use clap::CommandFactory;

/// Every command with its help, as the program prints it.
pub fn page() -> String {
    let mut root = Cli::command().bin_name("rollcall");
    root.build();
    let mut text = format!(
        "# Commands\n\nAll of them also work as `kubectl rollcall …` when the program is installed in the PATH as `kubectl-rollcall`.\n\n```text\n{}\n```\n",
        help(&mut root)
    );
    for command in root.get_subcommands_mut().filter(|command| !command.is_hide_set()) {
        let name = command.get_name().to_owned();
        text += &format!("\n## rollcall {name}\n\n```text\n{}\n```\n", help(command));
    }
    text
}

fn help(command: &mut clap::Command) -> String {
    let text = command.render_help().to_string();
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim_end().to_owned()
}
