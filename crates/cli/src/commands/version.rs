use crate::outcome::Outcome;
use crate::output::{self, Format};
use crate::shown;
use rollcall_api::names;
use serde_json::json;

/// Print the version of this program and of the API that it supports
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Format,
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let (version, api) = (env!("CARGO_PKG_VERSION"), names::SEQUENCE_API_VERSION);
    match arguments.output {
        Format::Text => output::data(&shown!("rollcall {} ({} {})\n", version, names::SEQUENCE_KIND, api))?,
        Format::Json => output::json(&json!({"version": version, "podSequence": api}))?,
    }
    Ok(Outcome::Done)
}
