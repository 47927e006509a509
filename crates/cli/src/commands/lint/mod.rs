//! `rollcall lint`: finds problems in manifests before they reach a cluster.
//!
//! - [`manifests`], [`field`]: the objects and their fields. [`view`]: facts about them that several rules use.
//! - [`rule`]: the definitions of a rule and a finding. [`rules`]: all rules, one file each.
//! - [`judge`]: applies the rules to the manifests. [`allow`]: allowed findings. [`output`]: the output formats.
//! - [`live`]: reads the objects from a cluster instead of files.

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

/// Find problems in manifests, including latent ones
///
/// Reports objects that the API server would reject, pods that can never start, and settings without the effect that they seem to
/// have. Contacts a cluster only with --live.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  rollcall lint shop.yaml
  helm template ./chart | rollcall lint -
  rollcall lint manifests/ --strict --output sarif > lint.sarif
  rollcall lint --live -n shop
  rollcall lint --explain RC210

A comment allows a rule for its own line and the line below it. At the head of a document, it applies to the whole document:
  # rollcall: allow RC210

Exit codes:
  0  no errors (with --strict: no errors or warnings)
  1  errors (with --strict: errors or warnings)
  2  invalid file, code or argument")]
pub struct Arguments {
    /// Files, directories (all .yaml, .yml and .json files below them), or - for standard input
    #[arg(value_name = "FILE", required_unless_present_any = ["explain", "live"])]
    files: Vec<String>,
    /// Treat warnings as errors
    #[arg(long)]
    strict: bool,
    /// Ignore the findings of this rule; repeatable
    #[arg(long, value_name = "CODE")]
    allow: Vec<String>,
    /// Explain a rule: the problem, the reason and the fix
    #[arg(long, value_name = "CODE", conflicts_with_all = ["files", "live"])]
    explain: Option<String>,
    /// Check the objects of a cluster instead of files, with your own permissions
    #[arg(long, conflicts_with = "files")]
    live: bool,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: LintFormat,
    #[command(flatten)]
    place: InNamespace,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum LintFormat {
    #[default]
    Text,
    Json,
    Sarif,
    Github,
}

pub async fn run(access: Access, arguments: Arguments) -> Result<Outcome> {
    let Arguments { files, strict, allow, explain, live, output, place } = arguments;
    if let Some(code) = explain {
        console::data(&Shown::drawing(&explain::text(allow::find_rule(&code)?)))?;
        return Ok(Outcome::Done);
    }
    let allowed: BTreeSet<&'static str> =
        allow.iter().map(|code| allow::find_rule(code).map(|rule| rule.code)).collect::<Result<_>>()?;
    let judgement = if live {
        let manifests = live::manifests(&access, place.namespace.as_deref()).await?;
        judge(&manifests, &allowed, output)?
    } else {
        ensure!(place.namespace.is_none(), "-n requires --live");
        let texts = sources::texts(&files, &mut std::io::stdin(), "lint")?;
        let manifests = Manifests::read(&texts)?;
        ensure!(!manifests.objects.is_empty(), "no objects found in {}", files.join(", "));
        judge(&manifests, &allowed, output)?
    };
    Ok(outcome(&judgement, strict))
}

fn judge(manifests: &Manifests, allowed: &BTreeSet<&'static str>, format: LintFormat) -> Result<Judgement> {
    let judgement = Judgement::from_manifests(manifests, allowed);
    judgement.notes.iter().for_each(|note| console::note(note.as_str()));
    match format {
        LintFormat::Text => console::data(&Shown::drawing(&output::text::text(manifests, &judgement)))?,
        LintFormat::Json => console::json(&output::json::report(&judgement))?,
        LintFormat::Sarif => console::json(&output::sarif::log(&judgement))?,
        LintFormat::Github => console::document(&output::github::text(&judgement))?,
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
