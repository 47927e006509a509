//! Finds the files that containers wait for or write, from their command lines.

/// The parts of a container spec that are needed here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Container {
    pub name: String,
    pub image: String,
    pub command: Vec<String>,
    pub args: Vec<String>,
    pub mounts: Vec<VolumeMount>,
}

/// A volume mount of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeMount {
    /// The path in the container.
    pub path: String,
    /// The path on the node, if the volume is a folder of the node.
    pub host: Option<String>,
    /// Whether mounts that are created later on the node appear in the container.
    pub propagated: bool,
}

/// A file that a container waits for or writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The path in the container.
    pub path: String,
    /// The path on the node, if the file is in a folder of the node.
    pub host: Option<String>,
    pub propagated: bool,
}

const PROGRAM: &str = "rollcall-node";
const SHELLS: [&str; 3] = ["sh", "bash", "ash"];

impl Container {
    /// The files that the container waits for, with `rollcall-node wait` or a shell loop that tests for a file.
    pub fn waits_for(&self) -> Vec<Found> {
        let paths = match self.arguments("wait") {
            Some(arguments) => {
                ["--marker", "--file", "--socket"].iter().flat_map(|flag| values(arguments, flag)).collect()
            }
            None => self.script().map(tested_in_loop).unwrap_or_default(),
        };
        paths.into_iter().map(|path| self.map_to_node(path)).collect()
    }

    /// The markers that the container writes, with `rollcall-node mark` or `rollcall-node volume`.
    pub fn keeps(&self) -> Vec<Found> {
        let marked = self.arguments("mark").and_then(|rest| rest.first().cloned());
        let mounted = self.arguments("volume").and_then(|rest| {
            let target = || values(rest, "--target").pop().map(|target| format!("{target}/.ready"));
            values(rest, "--marker").pop().or_else(target)
        });
        [marked, mounted].into_iter().flatten().map(|path| self.map_to_node(path)).collect()
    }

    /// Returns the arguments after `rollcall-node VERB`. Without a `command`, the entrypoint of the image runs. The image can
    /// have any name in a private registry, so the verb and a path are enough to recognise it.
    fn arguments(&self, verb: &str) -> Option<&[String]> {
        let rest = match self.command.split_first() {
            Some((program, [])) if base_name(program) == PROGRAM => &self.args,
            Some((program, rest)) if base_name(program) == PROGRAM => rest,
            Some(_) => return None,
            None => &self.args,
        };
        let (first, rest) = rest.split_first()?;
        (first == verb && rest.iter().any(|word| word.contains('/'))).then_some(rest)
    }

    /// The script that a shell runs with `-c`.
    fn script(&self) -> Option<&str> {
        let words: Vec<&str> = self.command.iter().chain(&self.args).map(String::as_str).collect();
        let [shell, flag, script, ..] = words.as_slice() else { return None };
        (SHELLS.contains(&base_name(shell)) && flag.starts_with('-') && flag.ends_with('c')).then_some(script)
    }

    /// Maps a path in the container to the node, through the innermost volume mount that contains it.
    fn map_to_node(&self, path: String) -> Found {
        let below = |mount: &&VolumeMount| rest_of(&path, &mount.path).is_some();
        let mount = self.mounts.iter().filter(below).max_by_key(|mount| mount.path.len());
        let host = mount.and_then(|mount| {
            let rest = rest_of(&path, &mount.path)?;
            Some(format!("{}{rest}", mount.host.as_deref()?.trim_end_matches('/')))
        });
        Found { propagated: mount.is_some_and(|mount| mount.propagated), host, path }
    }
}

/// Returns the rest of a path below a folder, with its leading `/`.
fn rest_of<'a>(path: &'a str, folder: &str) -> Option<&'a str> {
    path.strip_prefix(folder.trim_end_matches('/')).filter(|rest| rest.starts_with('/'))
}

fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Returns the values of a flag, written `--marker X` or `--marker=X`, before `--`.
fn values(arguments: &[String], flag: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut words = arguments.iter().take_while(|word| *word != "--");
    while let Some(word) = words.next() {
        let rest = word.strip_prefix(flag);
        match rest {
            Some("") => found.extend(words.next().cloned()),
            Some(rest) => found.extend(rest.strip_prefix('=').map(str::to_owned)),
            None => {}
        }
    }
    found
}

/// Returns the paths in tests such as `while [ ! -f PATH ]` and `until test -e PATH`.
fn tested_in_loop(script: &str) -> Vec<String> {
    let separators = |c: char| c.is_whitespace() || "[]();\"'".contains(c);
    let words: Vec<&str> = script.split(separators).filter(|word| !word.is_empty()).collect();
    if !words.iter().any(|word| ["while", "until"].contains(word)) {
        return Vec::new();
    }
    let mut found: Vec<String> = Vec::new();
    for pair in words.windows(2) {
        let tested = ["-f", "-e", "-s", "-r", "-S"].contains(&pair[0]) && pair[1].starts_with('/');
        if tested && !found.iter().any(|path| path == pair[1]) {
            found.push(pair[1].to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &[&str]) -> Vec<String> {
        line.iter().map(|word| (*word).to_owned()).collect()
    }

    fn container(command: &[&str], args: &[&str]) -> Container {
        let mount = |path: &str, host: Option<&str>| VolumeMount {
            path: path.into(),
            host: host.map(Into::into),
            propagated: host.is_some(),
        };
        Container {
            name: "c".into(),
            image: "rollcall-node:latest".into(),
            command: words(command),
            args: words(args),
            mounts: vec![
                mount("/mnt", Some("/mnt/")),
                mount("/mnt/inner", None),
                mount("/host/mnt", Some("/mnt")),
            ],
        }
    }

    fn hosts(found: Vec<Found>) -> Vec<Option<String>> {
        found.into_iter().map(|found| found.host).collect()
    }

    #[test]
    fn our_waiter() {
        let ready = vec![Some("/mnt/dump/.ready".to_owned())];
        for (command, args) in [
            (&[][..], &["wait", "--marker", "/mnt/dump/.ready", "--timeout", "5m"][..]),
            (&["/bin/rollcall-node", "wait", "--marker=/mnt/dump/.ready"], &[]),
            (&["rollcall-node"], &["wait", "--tcp", "csi:80", "--file", "/mnt/dump/.ready"]),
        ] {
            assert_eq!(hosts(container(command, args).waits_for()), ready, "{command:?} {args:?}");
        }
        let outside =
            container(&[], &["wait", "--marker", "/run/x", "--marker", "/mnt/inner/x", "--marker", "/mntx"]);
        assert_eq!(hosts(outside.waits_for()), [None, None, None]);
        for (command, args) in
            [(&[][..], &["serve", "/a"][..]), (&["/app"], &["wait", "--marker", "/mnt/x"]), (&[], &["wait"])]
        {
            assert_eq!(container(command, args).waits_for(), [], "{command:?} {args:?}");
        }
    }

    #[test]
    fn the_shell_loop() {
        let script = "echo \"Waiting...\"\nwhile [ ! -f /mnt/dump/.ready ]; do\n  sleep 2\ndone\n";
        assert_eq!(
            hosts(container(&["sh", "-c", script], &[]).waits_for()),
            [Some("/mnt/dump/.ready".to_owned())]
        );
        let until = container(
            &["/bin/bash"],
            &["-ec", "until test -e \"/mnt/a\" && [ -S '/mnt/b' ]; do sleep 1; done"],
        );
        assert_eq!(hosts(until.waits_for()), [Some("/mnt/a".to_owned()), Some("/mnt/b".to_owned())]);
        for script in ["test -f /mnt/a && echo there", "while true; do date > /mnt/a; done"] {
            assert_eq!(container(&["sh", "-c", script], &[]).waits_for(), [], "{script}");
        }
    }

    #[test]
    fn who_keeps_a_marker() {
        let volume = ["volume", "--source", "/pv-storage", "--target", "/host/mnt/dump"];
        assert_eq!(hosts(container(&[], &volume).keeps()), [Some("/mnt/dump/.ready".to_owned())]);
        let elsewhere = [&volume[..], &["--marker", "/host/mnt/x.ready"]].concat();
        assert_eq!(hosts(container(&[], &elsewhere).keeps()), [Some("/mnt/x.ready".to_owned())]);
        let mark = container(&["/rollcall-node"], &["mark", "/mnt/csi.ready", "--socket", "/csi/csi.sock"]);
        assert_eq!(hosts(mark.keeps()), [Some("/mnt/csi.ready".to_owned())]);
        assert_eq!(container(&[], &["wait", "--marker", "/mnt/x"]).keeps(), []);
    }
}
