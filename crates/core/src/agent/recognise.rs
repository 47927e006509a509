//! What containers wait for and what they keep, read from their command lines.

/// Of a container what matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Container {
    pub name: String,
    pub image: String,
    pub command: Vec<String>,
    pub args: Vec<String>,
    pub mounts: Vec<VolumeMount>,
}

/// A volume in a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeMount {
    /// In the container.
    pub path: String,
    /// On the node, if it is a folder of the node.
    pub host: Option<String>,
    /// Mounts that are made later on the node appear in the container, too.
    pub propagated: bool,
}

/// A file that is waited for or kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// In the container.
    pub path: String,
    /// On the node, if it lies there.
    pub host: Option<String>,
    pub propagated: bool,
}

const PROGRAM: &str = "rollcall-node";
const SHELLS: [&str; 3] = ["sh", "bash", "ash"];

impl Container {
    /// The files that it waits for: those of `rollcall-node wait`, or of a shell that tests for a file in a loop.
    pub fn waits_for(&self) -> Vec<Found> {
        let paths = match self.arguments("wait") {
            Some(arguments) => {
                ["--marker", "--file", "--socket"].iter().flat_map(|flag| values(arguments, flag)).collect()
            }
            None => self.script().map(tested_in_loop).unwrap_or_default(),
        };
        paths.into_iter().map(|path| self.found(path)).collect()
    }

    /// The markers that it keeps: those of `rollcall-node mark` and `rollcall-node volume`.
    pub fn keeps(&self) -> Vec<Found> {
        let marked = self.arguments("mark").and_then(|rest| rest.first().cloned());
        let mounted = self.arguments("volume").and_then(|rest| {
            let target = || values(rest, "--target").pop().map(|target| format!("{target}/.ready"));
            values(rest, "--marker").pop().or_else(target)
        });
        [marked, mounted].into_iter().flatten().map(|path| self.found(path)).collect()
    }

    /// What follows `rollcall-node VERB`. Without a command, the image's own program runs; it may have another name in a
    /// registry of one's own, so the verb and a path are enough.
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

    /// The text that a shell runs.
    fn script(&self) -> Option<&str> {
        let words: Vec<&str> = self.command.iter().chain(&self.args).map(String::as_str).collect();
        let [shell, flag, script, ..] = words.as_slice() else { return None };
        (SHELLS.contains(&base_name(shell)) && flag.starts_with('-') && flag.ends_with('c')).then_some(script)
    }

    /// Where a path of the container lies on the node: the innermost volume decides.
    fn found(&self, path: String) -> Found {
        let below = |mount: &&VolumeMount| rest_of(&path, &mount.path).is_some();
        let mount = self.mounts.iter().filter(below).max_by_key(|mount| mount.path.len());
        let host = mount.and_then(|mount| {
            let rest = rest_of(&path, &mount.path)?;
            Some(format!("{}{rest}", mount.host.as_deref()?.trim_end_matches('/')))
        });
        Found { propagated: mount.is_some_and(|mount| mount.propagated), host, path }
    }
}

/// What is left of a path below a folder, with its `/`.
fn rest_of<'a>(path: &'a str, folder: &str) -> Option<&'a str> {
    path.strip_prefix(folder.trim_end_matches('/')).filter(|rest| rest.starts_with('/'))
}

fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// The values of a flag: `--marker X` and `--marker=X`, up to `--`.
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

/// `while [ ! -f PATH ]`, `until test -e PATH`: the paths.
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
