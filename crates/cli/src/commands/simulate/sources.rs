//! Reads the files, directories and standard input to simulate, and parses them into objects.

use super::documents;
use crate::cli::program;
use anyhow::{Context, Result, anyhow, bail, ensure};
use rollcall_sim::plan::Given;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Maximum size of one file in bytes. The bundles of the largest operators have 5 MiB.
const LARGEST: u64 = 64 << 20;
/// Maximum number of files in a directory; a larger directory was probably named by mistake.
const MOST_FILES: usize = 10_000;
/// Maximum nesting of directories.
const DEEPEST: usize = 32;

const STDIN: &str = "standard input";
const COMMAND: &str = "simulate";

/// Reads the objects of all sources in the given order, and the files of a directory sorted by name. The source `-` is `stdin`.
pub fn read(sources: &[String], stdin: &mut dyn Read) -> Result<Vec<Given>> {
    let mut objects = Vec::new();
    for_each(sources, stdin, COMMAND, &mut |Text { name, text }| {
        objects.extend(documents::objects(&name, &text)?);
        Ok(())
    })?;
    Ok(objects)
}

/// Reads the objects of one file; their origin is the path as given.
pub fn file(path: &Path) -> Result<Vec<Given>> {
    let Text { name, text } = read_file(path, COMMAND)?;
    documents::objects(&name, &text)
}

/// A source: its name as given, and its text.
pub struct Text {
    pub name: String,
    pub text: String,
}

/// Reads all sources in the given order, and the files of a directory sorted by name. `command` is the subcommand that error
/// messages suggest.
pub fn texts(sources: &[String], stdin: &mut dyn Read, command: &str) -> Result<Vec<Text>> {
    let mut texts = Vec::new();
    for_each(sources, stdin, command, &mut |text| {
        texts.push(text);
        Ok(())
    })?;
    Ok(texts)
}

/// Reads one source after the other, so that an error names the first invalid source.
fn for_each(
    sources: &[String],
    stdin: &mut dyn Read,
    command: &str,
    take: &mut dyn FnMut(Text) -> Result<()>,
) -> Result<()> {
    let mut stdin = Some(stdin);
    for source in sources {
        if source == "-" {
            let stdin = stdin.take().context("standard input (-) can be read only once")?;
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
        anyhow!("{name}:{line}: expected UTF-8 text, found an invalid byte")
    })
}

/// Returns the path of a file itself; for a directory, the files that kubectl would read from it.
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
    ensure!(deeper > 0, "{name}: directories are nested more than {DEEPEST} levels deep");
    let entries = fs::read_dir(directory).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
    let mut entries = entries.map_err(|error| unreadable(&name, &error))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        // Skips `.git`, `.github`, and the `..data` directory of mounted ConfigMaps, because symlinks beside it lead to the
        // same files.
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let path = entry.path();
        // The type of the entry itself, not of the target of a symlink: a linked directory could form a cycle.
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

/// Rejects sources that other tools render into manifests.
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
    bail!("{} is {what}, not a manifest; run: {command} {directory} | {} {ours} -", path.display(), program())
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
