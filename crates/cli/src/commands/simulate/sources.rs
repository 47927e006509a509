//! The files, directories and standard input that are to be simulated, into objects.

use super::documents;
use crate::cli::program;
use anyhow::{Context, Result, anyhow, bail, ensure};
use rollcall_sim::plan::Given;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Of one file. The bundles of the largest operators have 5 MiB.
const LARGEST: u64 = 64 << 20;
/// In directories: somebody who gives more has named the wrong one.
const MOST_FILES: usize = 10_000;
/// Directories within each other.
const DEEPEST: usize = 32;

const STDIN: &str = "standard input";
const COMMAND: &str = "simulate";

/// All objects of all sources, in the order in which they were given; a directory's files by name. `-` is read from
/// `stdin`.
pub fn read(sources: &[String], stdin: &mut dyn Read) -> Result<Vec<Given>> {
    let mut objects = Vec::new();
    for_each(sources, stdin, COMMAND, &mut |Text { name, text }| {
        objects.extend(documents::objects(&name, &text)?);
        Ok(())
    })?;
    Ok(objects)
}

/// The objects of one file, as it was named.
pub fn file(path: &Path) -> Result<Vec<Given>> {
    let Text { name, text } = read_file(path, COMMAND)?;
    documents::objects(&name, &text)
}

/// A source, as it was named, and what is in it.
pub struct Text {
    pub name: String,
    pub text: String,
}

/// All sources, in the order in which they were given; a directory's files by name. `command` is the one of ours that a
/// refusal names.
pub fn texts(sources: &[String], stdin: &mut dyn Read, command: &str) -> Result<Vec<Text>> {
    let mut texts = Vec::new();
    for_each(sources, stdin, command, &mut |text| {
        texts.push(text);
        Ok(())
    })?;
    Ok(texts)
}

/// One source after the other, so that the first that is wrong is the one that is named.
fn for_each(
    sources: &[String],
    stdin: &mut dyn Read,
    command: &str,
    take: &mut dyn FnMut(Text) -> Result<()>,
) -> Result<()> {
    let mut stdin = Some(stdin);
    for source in sources {
        if source == "-" {
            let stdin = stdin.take().context("standard input (-) can be read once")?;
            take(Text { name: STDIN.into(), text: text(STDIN, stdin)? })?;
            continue;
        }
        for path in files(Path::new(source))? {
            take(read_file(&path, command)?)?;
        }
    }
    Ok(())
}

fn read_file(path: &Path, command: &str) -> Result<Text> {
    let name = path.display().to_string();
    let mut open = fs::File::open(path).map_err(|error| unreadable(&name, &error))?;
    let text = text(&name, &mut open)?;
    refuse_sources_of_others(path, command)?;
    Ok(Text { name, text })
}

fn text(name: &str, from: &mut dyn Read) -> Result<String> {
    let mut bytes = Vec::new();
    from.take(LARGEST + 1).read_to_end(&mut bytes).map_err(|error| unreadable(name, &error))?;
    ensure!(bytes.len() as u64 <= LARGEST, "{name} has more than {} MiB", LARGEST >> 20);
    ensure!(name != STDIN || !bytes.trim_ascii().is_empty(), "standard input is empty");
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..valid].iter().filter(|byte| **byte == b'\n').count() + 1;
        anyhow!("{name}:{line}: expected UTF-8 text, found a byte that is none")
    })
}

/// A file itself; of a directory, what kubectl would take from it.
fn files(path: &Path) -> Result<Vec<PathBuf>> {
    let metadata = fs::metadata(path).map_err(|error| unreadable(&path.display().to_string(), &error))?;
    if !metadata.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    walk(path, DEEPEST, &mut found)?;
    ensure!(!found.is_empty(), "{} has no .yaml, .yml or .json file", path.display());
    Ok(found)
}

fn walk(directory: &Path, deeper: usize, found: &mut Vec<PathBuf>) -> Result<()> {
    let name = directory.display().to_string();
    ensure!(deeper > 0, "{name}: more than {DEEPEST} directories within each other");
    let entries = fs::read_dir(directory).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
    let mut entries = entries.map_err(|error| unreadable(&name, &error))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        // `.git`, `.github`, and the `..data` of mounted ConfigMaps, whose files are linked beside it.
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let path = entry.path();
        // Of the entry itself: a linked directory could lead in a circle.
        let kind = entry.file_type().map_err(|error| unreadable(&path.display().to_string(), &error))?;
        if kind.is_dir() {
            walk(&path, deeper - 1, found)?;
        } else if is_manifest(&path) && path.is_file() {
            ensure!(found.len() < MOST_FILES, "{name}: more than {MOST_FILES} files");
            found.push(path);
        }
    }
    Ok(())
}

fn is_manifest(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| ["yaml", "yml", "json"].contains(&extension))
}

/// What other tools make manifests of.
fn refuse_sources_of_others(path: &Path, ours: &str) -> Result<()> {
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent.display().to_string(),
        Some(_) | None => ".".into(),
    };
    let (what, command) = match path.file_name().and_then(|name| name.to_str()) {
        Some("kustomization.yaml" | "kustomization.yml") => ("a kustomization", "kubectl kustomize"),
        Some("Chart.yaml") => ("a Helm chart", "helm template"),
        Some(_) | None => return Ok(()),
    };
    bail!("{} is {what}, no manifest: {command} {directory} | {} {ours} -", path.display(), program())
}

fn unreadable(name: &str, error: &std::io::Error) -> anyhow::Error {
    match error.kind() {
        std::io::ErrorKind::NotFound => anyhow!("{name}: no such file or directory"),
        std::io::ErrorKind::PermissionDenied => anyhow!("{name}: not allowed to read it"),
        _ => anyhow!("{name}: {error}"),
    }
}

#[cfg(test)]
#[path = "sources_tests.rs"]
mod tests;
