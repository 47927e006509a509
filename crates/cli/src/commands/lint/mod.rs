//! What is wrong with manifests, or will be one day, before a cluster finds out.
//!
//! - [`manifests`], [`field`]: what is looked at. [`view`]: what rules have in common to see in it.
//! - [`rule`]: what a rule is. [`rules`]: all of them, a file each.
//! - [`judge`]: from manifests to findings. [`allow`]: what somebody decided to live with. [`output`]: how it is said.
//! - [`live`]: the same for what is in a cluster.

mod allow;
mod clean;
mod explain;
mod field;
mod judge;
mod live;
mod manifests;
mod output;
mod rule;
mod rules;
#[cfg(test)]
mod tests;
mod view;

pub use explain::page;

use super::simulate::sources;
use crate::cli::{Access, InNamespace};
use crate::outcome::Outcome;
use crate::output as console;
use crate::shown::Shown;
use anyhow::{Result, ensure};
use clap::ValueEnum;
use judge::Judgement;
use manifests::Manifests;
use rule::Severity;
use std::collections::BTreeSet;

/// Find what is wrong with manifests, or will be one day
///
/// Reads files and says what the API server would refuse, what can never start, and what works otherwise than it looks.
/// Contacts nothing, unless --live asks for the objects of a cluster.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  rollcall lint shop.yaml
  helm template ./chart | rollcall lint -
  rollcall lint manifests/ --strict --output sarif > lint.sarif
  rollcall lint --live -n shop
  rollcall lint --explain RC210

A comment allows a rule on its line, for the line below it, or at the head of a document for all of it:
  # rollcall: allow RC210

Exit codes:
  0  no error (with --strict: no warning either)
  1  errors (with --strict: or warnings)
  2  a file, a code or an argument is wrong")]
pub struct Arguments {
    /// Files, directories (all .yaml, .yml and .json below them), or - for standard input
    #[arg(value_name = "FILE", required_unless_present_any = ["explain", "live"])]
    files: Vec<String>,
    /// Warnings count as errors do
    #[arg(long)]
    strict: bool,
    /// Leave out what this rule finds; repeatable
    #[arg(long, value_name = "CODE")]
    allow: Vec<String>,
    /// Say what a rule is about, and why
    #[arg(long, value_name = "CODE", conflicts_with_all = ["files", "live"])]
    explain: Option<String>,
    /// Look at the objects of a cluster, with your own rights, instead of files
    #[arg(long, conflicts_with = "files")]
    live: bool,
    /// How to print it
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    place: InNamespace,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    #[default]
    Text,
    Json,
    Sarif,
    Github,
}

pub async fn run(access: Access, arguments: Arguments) -> Result<Outcome> {
    let Arguments { files, strict, allow, explain, live, output, place } = arguments;
    if let Some(code) = explain {
        console::data(&Shown::drawing(&explain::text(allow::known(&code)?)))?;
        return Ok(Outcome::Done);
    }
    let allowed: BTreeSet<&'static str> =
        allow.iter().map(|code| allow::known(code).map(|rule| rule.code)).collect::<Result<_>>()?;
    let judgement = if live {
        let manifests = live::manifests(&access, place.namespace.as_deref()).await?;
        judge(&manifests, &allowed, output)?
    } else {
        ensure!(place.namespace.is_none(), "-n goes with --live only");
        let texts = sources::texts(&files, &mut std::io::stdin(), "lint")?;
        let manifests = Manifests::read(&texts)?;
        ensure!(!manifests.objects.is_empty(), "no objects in {}", files.join(", "));
        judge(&manifests, &allowed, output)?
    };
    Ok(outcome(&judgement, strict))
}

fn judge(manifests: &Manifests, allowed: &BTreeSet<&'static str>, format: Format) -> Result<Judgement> {
    let judgement = Judgement::of(manifests, allowed);
    judgement.notes.iter().for_each(|note| console::note(note.as_str()));
    match format {
        Format::Text => console::data(&Shown::drawing(&output::text::text(manifests, &judgement)))?,
        Format::Json => console::json(&output::json::report(&judgement))?,
        Format::Sarif => console::json(&output::sarif::log(&judgement))?,
        Format::Github => console::document(&output::github::text(&judgement))?,
    }
    Ok(judgement)
}

fn outcome(judgement: &Judgement, strict: bool) -> Outcome {
    let warnings = if strict { judgement.count(Severity::Warning) } else { 0 };
    match judgement.count(Severity::Error) + warnings {
        0 => Outcome::Done,
        _ => Outcome::Failed,
    }
}
