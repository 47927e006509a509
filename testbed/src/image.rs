//! Container images that are built at test time, as docker-archive tars.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::json;

/// An image with one layer.
#[derive(Debug, Clone)]
pub struct Image {
    name: String,
    entrypoint: Vec<String>,
    /// Paths in the image, and the programs or files on this machine.
    files: Vec<(String, PathBuf)>,
    /// Paths in the image, and the targets of the links.
    links: Vec<(String, String)>,
}

impl Image {
    /// An empty image. `name` is the image name in pods, such as `localhost/thing:test`.
    pub fn new(name: &str) -> Image {
        Image { name: name.to_owned(), entrypoint: Vec::new(), files: Vec::new(), links: Vec::new() }
    }

    pub fn entrypoint(mut self, words: &[&str]) -> Image {
        self.entrypoint = words.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// Adds a static program (or any file) of this machine, executable by all users.
    pub fn file(mut self, path: &str, source: &Path) -> Image {
        self.files.push((path.to_owned(), source.to_owned()));
        self
    }

    pub fn link(mut self, path: &str, target: &str) -> Image {
        self.links.push((path.to_owned(), target.to_owned()));
        self
    }

    /// Writes the archive for [`RealNode::import_image`](crate::RealNode::import_image).
    pub fn write(&self, archive: &Path) -> Result<()> {
        let layer = self.layer()?;
        let digest = ring::digest::digest(&ring::digest::SHA256, &layer);
        let digest: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        let config = json!({
            "architecture": architecture,
            "os": "linux",
            "config": {"Entrypoint": self.entrypoint, "Env": ["PATH=/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{digest}")]},
        });
        let manifest = json!([{"Config": "config.json", "RepoTags": [self.name], "Layers": ["layer.tar"]}]);
        let file = File::create(archive).with_context(|| format!("create {}", archive.display()))?;
        let mut tar = tar::Builder::new(file);
        append(&mut tar, "manifest.json", manifest.to_string().as_bytes(), 0o644)?;
        append(&mut tar, "config.json", config.to_string().as_bytes(), 0o644)?;
        append(&mut tar, "layer.tar", &layer, 0o644)?;
        tar.into_inner()?;
        Ok(())
    }

    fn layer(&self) -> Result<Vec<u8>> {
        let mut tar = tar::Builder::new(Vec::new());
        for (path, mode) in [("bin/", 0o755), ("etc/", 0o755), ("tmp/", 0o1777)] {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(tar::EntryType::Directory);
            header.set_mode(mode);
            header.set_size(0);
            tar.append_data(&mut header, path, std::io::empty())?;
        }
        for (path, source) in &self.files {
            let content = fs::read(source).with_context(|| format!("read {}", source.display()))?;
            append(&mut tar, path.trim_start_matches('/'), &content, 0o755)?;
        }
        for (path, target) in &self.links {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(tar::EntryType::Symlink);
            header.set_mode(0o777);
            header.set_size(0);
            tar.append_link(&mut header, path.trim_start_matches('/'), target)?;
        }
        Ok(tar.into_inner()?)
    }
}

fn append(tar: &mut tar::Builder<impl Write>, path: &str, content: &[u8], mode: u32) -> Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_mode(mode);
    header.set_size(content.len() as u64);
    tar.append_data(&mut header, path, content)?;
    Ok(())
}
