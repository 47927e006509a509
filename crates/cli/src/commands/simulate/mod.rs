//! Predicts the start order of manifests before they are deployed.

pub mod documents;
mod kind;
mod object;
mod options;
mod page;
pub mod source_spans;
pub mod sources;
#[cfg(test)]
mod testing;
mod text;

pub use documents::objects;
pub use page::html;

use crate::outcome::Outcome;
use crate::output;
use crate::shown::Shown;
use anyhow::{Result, ensure};
use clap::ValueEnum;
use rollcall_sim::plan::{Fail, NodePool, Plan, ReadyAfter};
use rollcall_sim::report::{self, Report};
use std::path::Path;
use std::time::Duration;

/// Default limit of virtual time. A run that takes longer rarely completes at all, and virtual time costs almost nothing.
const UNTIL: &str = "1h";

/// Predict the start order of manifests before they are deployed
///
/// Runs the controller on an embedded cluster in virtual time. It contacts and changes no real cluster, and the same seed gives
/// the same result.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  rollcall simulate shop.yaml
  helm template ./chart | rollcall simulate - --ready-after 'app=db:40s'
  rollcall simulate manifests/ --fail 'pod=postgres-0' --output html > shop.html
  rollcall simulate shop.yaml --at 30s 'scale deployment/web 5' --at 1m 'drain node-1'

Selectors: app=db,tier=back (labels), pod=web-* (name), deployment/web (all its pods); ,namespace=shop narrows them.

Exit codes:
  0  all pods arrive
  1  some pods can never start
  2  the manifests or arguments are invalid
  3  not complete within --until")]
pub struct Arguments {
    /// Files, directories (all .yaml, .yml and .json below them), or - for standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
    /// Number of nodes, and the resources of each: 3 or 3:cpu=4,memory=16Gi; repeatable for nodes of other sizes
    /// [default: the Nodes among the manifests, else 3]
    #[arg(long, value_name = "N[:RESOURCES]", value_parser = options::nodes)]
    nodes: Vec<NodePool>,
    /// Time from the start of a pod until it is ready, such as app=db:40s; repeatable, the last match counts
    #[arg(long, value_name = "SELECTOR:DURATION", value_parser = options::ready_after)]
    ready_after: Vec<ReadyAfter>,
    /// Pods that fail, at once or this long after their start, such as pod=web-0 or app=db:10s; repeatable
    #[arg(long, value_name = "SELECTOR[:DURATION]", value_parser = options::fail)]
    fail: Vec<Fail>,
    /// Action at a virtual time: 'scale KIND/NAME N', 'delete KIND/NAME', 'apply FILE', 'cordon NODE', 'drain NODE'
    /// or 'add-node NAME'; repeatable
    #[arg(long, num_args = 2, value_names = ["TIME", "ACTION"])]
    at: Vec<String>,
    /// Seed of the random choices; another number gives another valid run
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Limit of virtual time in the simulated cluster
    #[arg(long, value_name = "DURATION", default_value = UNTIL, value_parser = options::duration)]
    until: Duration,
    /// Show a line for every pod, no matter how many there are
    #[arg(long)]
    all_pods: bool,
    /// Output format; html is a single self-contained page
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: SimulateFormat,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum SimulateFormat {
    #[default]
    Text,
    Json,
    Html,
}

pub fn run(arguments: Arguments) -> Result<Outcome> {
    let Arguments { output: format, all_pods, .. } = arguments;
    let title = title(&arguments.files);
    let report = rollcall_sim::simulate(plan(arguments)?)?;
    show(&report, &title, format, all_pods)?;
    Ok(outcome(&report))
}

fn plan(arguments: Arguments) -> Result<Plan> {
    let Arguments { files, nodes, ready_after, fail, at, seed, until, all_pods: _, output: _ } = arguments;
    let objects = sources::read(&files, &mut std::io::stdin())?;
    ensure!(!objects.is_empty(), "no objects in {}", files.join(", "));
    let at = options::at(&at, &|file| sources::file(Path::new(file)))?;
    Ok(Plan { objects, nodes, ready_after, fail, at, seed, until })
}

fn show(report: &Report, title: &str, format: SimulateFormat, all_pods: bool) -> Result<()> {
    match format {
        SimulateFormat::Json => output::json(report),
        SimulateFormat::Html => output::document(&html(report, title)?),
        SimulateFormat::Text => output::data(&picture(report, all_pods)),
    }
}

/// Draws the run as text, as wide as the terminal.
pub fn picture(report: &Report, all_pods: bool) -> Shown {
    let room = text::PictureLimits { width: output::width().unwrap_or(text::USUAL_WIDTH), all_pods };
    text::text(report, room)
}

pub fn outcome(report: &Report) -> Outcome {
    match report.outcome {
        report::Outcome::Complete => Outcome::Done,
        report::Outcome::Stuck => Outcome::Failed,
        report::Outcome::Unfinished => Outcome::TimedOut,
    }
}

/// Short title of the report, from the names of the files.
fn title(files: &[String]) -> String {
    let name = |file: &String| match file.as_str() {
        "-" => "standard input".to_owned(),
        file => Path::new(file).file_name().map_or(file.into(), |name| name.to_string_lossy().into_owned()),
    };
    match files {
        [] => String::new(),
        [file] => name(file),
        [file, others @ ..] => format!("{} and {} more", name(file), others.len()),
    }
}

#[cfg(test)]
mod explained_tests;

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use rollcall_sim::plan::Action;

    #[derive(Debug, Parser)]
    #[command(name = "rollcall simulate")]
    struct Only {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn parsed(words: &[&str]) -> Result<Arguments, clap::Error> {
        Only::try_parse_from(std::iter::once(&"simulate").chain(words)).map(|only| only.arguments)
    }

    #[test]
    fn arguments_become_a_plan() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pod.yaml");
        std::fs::write(&file, "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n").unwrap();
        let file = file.display().to_string();
        let apply = format!("apply {file}");
        let arguments = parsed(&[
            &file,
            "--nodes",
            "2:cpu=4",
            "--nodes",
            "1",
            "--ready-after",
            "app=db:40s",
            "--fail",
            "pod=x",
            "--at",
            "1m",
            &apply,
            "--at",
            "30s",
            "scale deployment/web 5",
            "--seed",
            "7",
            "--until",
            "2h",
            "-o",
            "json",
        ]);
        let plan = plan(arguments.unwrap()).unwrap();
        assert_eq!(plan.objects.len(), 1);
        assert_eq!(plan.nodes.iter().map(|nodes| nodes.count).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(plan.ready_after[0].pods.to_string(), "app=db");
        assert_eq!(plan.fail[0].pods.to_string(), "pod=x");
        assert!(matches!(&plan.at[0].action, Action::Scale { replicas: 5, .. }));
        assert!(matches!(&plan.at[1].action, Action::Apply { objects } if objects.len() == 1));
        assert_eq!((plan.seed, plan.until), (7, Duration::from_secs(7200)));
    }

    #[test]
    fn refusals_name_the_argument() {
        let lines: [&[&str]; 9] = [
            &[],
            &["a.yaml", "--nodes", "0"],
            &["a.yaml", "--ready-after", "app=db"],
            &["a.yaml", "--fail", "db"],
            &["a.yaml", "--at", "30s"],
            &["a.yaml", "--seed", "-1"],
            &["a.yaml", "--until", "soon"],
            &["a.yaml", "-o", "svg"],
            &["a.yaml", "--ready-afetr", "app=db:1s"],
        ];
        let mut answers = String::new();
        for line in lines {
            let error = parsed(line).map(|_| ()).expect_err("refused");
            answers += &format!("$ rollcall simulate {}\n{error}\n", line.join(" "));
        }
        insta::assert_snapshot!(answers);
    }

    #[test]
    fn help() {
        use clap::CommandFactory;
        insta::assert_snapshot!(Only::command().render_long_help());
    }

    #[test]
    fn files_without_objects_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("empty.yaml").display().to_string();
        std::fs::write(&file, "# nothing\n").unwrap();
        let error = plan(parsed(&[&file]).unwrap()).unwrap_err();
        assert_eq!(error.to_string(), format!("no objects in {file}"));
    }

    #[test]
    fn the_exit_code_says_how_it_ended() {
        assert_eq!(outcome(&testing::shop()), Outcome::Done);
        assert_eq!(outcome(&testing::deadlock()), Outcome::Failed);
        assert_eq!(outcome(&testing::unfinished()), Outcome::TimedOut);
    }

    #[test]
    fn titles() {
        let title = |files: &[&str]| title(&files.iter().map(|file| file.to_string()).collect::<Vec<_>>());
        assert_eq!(title(&["some/where/shop.yaml"]), "shop.yaml");
        assert_eq!(title(&["-"]), "standard input");
        assert_eq!(title(&["a.yaml", "b.yaml", "c"]), "a.yaml and 2 more");
    }
}
