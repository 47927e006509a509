//! The command line.

use crate::condition::{Address, Condition, Trust, Url};
use crate::talk::exactly;
use jiff::SignedDuration;
use lexopt::{Arg, Parser, ValueExt};
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

/// Each condition is checked in a thread of its own.
const CONDITIONS: usize = 64;
/// A lower bound, because each check has a cost.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);
/// A longer time is most likely a mistyped unit.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);
/// Maximum length of `sun_path` in a socket address, without the terminating zero.
const SOCKET_PATH: usize = 107;

pub const HELP: &str = "\
rollcall-node: wait for the agents of a node; keep a marker; keep a volume mounted

rollcall-node wait CONDITION… [--timeout 5m] [--settle 0s]
    Waits until all conditions hold at the same time.
      --timeout TIME     give up after this time, with exit code 1; 0 waits forever (default 5m)
      --settle TIME      all conditions must hold for this long without interruption (default 0s)

rollcall-node mark PATH [CONDITION…] [-- COMMAND…]
    Keeps a marker at PATH while all conditions hold. With a COMMAND, the marker is written only after it has
    exited with code 0; it is run again until it does.

rollcall-node volume --source FOLDER --target FOLDER [--marker PATH]
    Keeps FOLDER mounted at the target (a bind mount), and a marker in it (default TARGET/.ready).
rollcall-node volume check --source FOLDER --target FOLDER [--marker PATH]
    Exits with code 0 if the volume is mounted and marked: for a readiness probe.

Conditions; each flag can be repeated:
      --marker PATH      a marker written since the node booted and, if it names a mount, for this mount
      --file PATH        a file or a device
      --socket PATH      a unix socket on which a program listens
      --tcp HOST:PORT    a port that accepts connections; HOST is a name, an IPv4 address or [IPv6]
      --http URL         a URL, http or https, that answers with 2xx
Options of conditions:
      --plain-marker     accept any file as a marker
      --ca FILE          trust the CA certificates in FILE instead of those of the image
      --insecure         do not check certificates

      --interval TIME    time between checks (default 1s); new files are noticed at once
  -h, --help
  -V, --version

Times: 500ms, 30s, 5m, 1h30m.
Environment: POD_UID and NODE_NAME are written into markers.
Exit codes: 0 success; 1 timeout or failure; 2 invalid usage; 143 terminated by SIGTERM.
";

/// A parsed command.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    Help,
    Version,
    Wait(Wait),
    Mark(Mark),
    Volume(Volume),
    VolumeCheck(Volume),
}

#[derive(Debug, PartialEq, Eq)]
pub struct Wait {
    pub conditions: Vec<Condition>,
    /// `None` waits forever.
    pub timeout: Option<Duration>,
    pub interval: Duration,
    pub settle: Duration,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Mark {
    pub path: PathBuf,
    pub conditions: Vec<Condition>,
    pub interval: Duration,
    /// Empty if there is no command.
    pub command: Vec<OsString>,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Volume {
    pub source: PathBuf,
    pub target: PathBuf,
    pub marker: PathBuf,
    pub interval: Duration,
}

/// The flags as given, before they are checked against the command.
#[derive(Default)]
struct Given {
    words: Vec<OsString>,
    command: Vec<OsString>,
    markers: Vec<PathBuf>,
    others: Vec<Condition>,
    plain: bool,
    ca: Option<PathBuf>,
    insecure: bool,
    timeout: Option<Duration>,
    interval: Option<Duration>,
    settle: Option<Duration>,
    source: Option<PathBuf>,
    target: Option<PathBuf>,
    /// The names of all flags, for the error message about a flag that the command does not have.
    flags: Vec<String>,
}

pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, String> {
    let mut arguments = arguments.into_iter();
    let ours: Vec<OsString> = arguments.by_ref().take_while(|word| word != "--").collect();
    let mut given = Given { command: arguments.collect(), ..Given::default() };
    let mut parser = Parser::from_args(ours);
    while let Some(argument) = parser.next().map_err(|error| error.to_string())? {
        match argument {
            Arg::Short('h') | Arg::Long("help") => return Ok(Command::Help),
            Arg::Short('V') | Arg::Long("version") => return Ok(Command::Version),
            Arg::Long(flag) => {
                let flag = flag.to_owned();
                given.take(&flag, &mut parser)?;
                given.flags.push(flag);
            }
            Arg::Short(flag) => return Err(format!("-{flag}: unknown flag")),
            Arg::Value(word) => given.words.push(word),
        }
    }
    given.command()
}

impl Given {
    fn take(&mut self, flag: &str, parser: &mut Parser) -> Result<(), String> {
        match flag {
            "plain-marker" => self.plain = true,
            "insecure" => self.insecure = true,
            "marker" => self.markers.push(path(flag, parser)?),
            "file" => self.others.push(Condition::File(path(flag, parser)?)),
            "socket" => self.others.push(Condition::Socket(socket(path(flag, parser)?)?)),
            "tcp" => {
                let expected = "HOST:PORT; HOST is a name, an IPv4 address or [IPv6], PORT is 1 to 65535";
                self.others.push(Condition::Tcp(read(flag, parser, expected, Address::parse)?));
            }
            "http" => {
                let expected = "an http or https URL such as http://localhost:9808/healthz";
                let url = read(flag, parser, expected, Url::parse)?;
                self.others.push(Condition::Http(url, Trust::Image));
            }
            "ca" => self.ca = Some(path(flag, parser)?),
            "source" => self.source = Some(path(flag, parser)?),
            "target" => self.target = Some(path(flag, parser)?),
            "timeout" => self.timeout = Some(time(flag, parser)?),
            "settle" => self.settle = Some(time(flag, parser)?),
            "interval" => {
                let interval = time(flag, parser)?;
                if interval < SHORTEST_INTERVAL {
                    let least = exactly(SHORTEST_INTERVAL);
                    return Err(format!(
                        "--interval: {} is too short; expected at least {least}",
                        exactly(interval)
                    ));
                }
                self.interval = Some(interval);
            }
            other => return Err(format!("--{other}: unknown flag")),
        }
        Ok(())
    }

    fn command(mut self) -> Result<Command, String> {
        let words: Vec<String> = self.words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (name, conditions, further): (&str, bool, &[&str]) = match words.as_slice() {
            [] => return Err("no command; expected wait, mark or volume".into()),
            ["wait"] => ("wait", true, &["interval", "timeout", "settle"]),
            ["wait", word, ..] => {
                return Err(format!(
                    "wait: {word:?} is not a flag; expected --marker {word} or another condition"
                ));
            }
            ["mark", _] => ("mark", true, &["interval"]),
            ["mark"] => return Err("mark: no path; expected mark PATH".into()),
            ["mark", _, word, ..] => {
                return Err(format!("mark: {word:?} is a second path; expected one, and a command after --"));
            }
            ["volume"] => ("volume", false, &["interval", "source", "target", "marker"]),
            ["volume", "check"] => ("volume check", false, &["source", "target", "marker"]),
            ["volume", word, ..] => {
                return Err(format!("volume: {word:?} is not a subcommand; expected flags, or check"));
            }
            [word, ..] => return Err(format!("{word:?} is not a command; expected wait, mark or volume")),
        };
        const CONDITION: [&str; 8] =
            ["marker", "file", "socket", "tcp", "http", "plain-marker", "ca", "insecure"];
        let fits = |flag: &&String| {
            further.contains(&flag.as_str()) || conditions && CONDITION.contains(&flag.as_str())
        };
        if let Some(flag) = self.flags.iter().find(|flag| !fits(flag)) {
            return Err(format!("--{flag} is not a flag of {name}"));
        }
        if let Some(word) = self.command.first().filter(|_| name != "mark") {
            return Err(format!("{word:?} after --: only mark runs a command"));
        }
        let interval = self.interval.unwrap_or(Duration::from_secs(1));
        if !conditions {
            let volume = self.volume(interval)?;
            return Ok(if name == "volume" { Command::Volume(volume) } else { Command::VolumeCheck(volume) });
        }
        let conditions = self.conditions()?;
        if name == "mark" {
            let (path, command) = (PathBuf::from(self.words.remove(1)), self.command);
            is_file_name("mark", &path)?;
            if conditions.iter().any(|condition| condition.path() == Some(&path)) {
                return Err(format!(
                    "mark: {} is also a condition; it would wait for itself",
                    path.display()
                ));
            }
            return Ok(Command::Mark(Mark { path, conditions, interval, command }));
        }
        if conditions.is_empty() {
            return Err("wait: no condition; expected --marker, --file, --socket, --tcp or --http".into());
        }
        let settle = self.settle.unwrap_or_default();
        let timeout =
            Some(self.timeout.unwrap_or(Duration::from_secs(300))).filter(|timeout| !timeout.is_zero());
        if timeout.is_some_and(|timeout| timeout <= settle) {
            let (settle, timeout) = (exactly(settle), exactly(timeout.unwrap_or_default()));
            return Err(format!("--settle: {settle} must be shorter than the --timeout of {timeout}"));
        }
        Ok(Command::Wait(Wait { conditions, timeout, interval, settle }))
    }

    fn conditions(&mut self) -> Result<Vec<Condition>, String> {
        let (plain, insecure) = (self.plain, self.insecure);
        let trust = match (self.ca.take(), insecure) {
            (Some(_), true) => return Err("--ca and --insecure: expected one of them".into()),
            (Some(ca), false) => Trust::File(ca),
            (None, true) => Trust::Anybody,
            (None, false) => Trust::Image,
        };
        let https = |condition: &Condition| matches!(condition, Condition::Http(url, _) if url.is_https());
        if trust != Trust::Image && !self.others.iter().any(https) {
            let flag = if insecure { "--insecure" } else { "--ca" };
            return Err(format!(
                "{flag}: no certificate is checked without https; expected an --http with an https URL"
            ));
        }
        if plain && self.markers.is_empty() {
            return Err("--plain-marker: no marker is given; expected a --marker".into());
        }
        let mut conditions = Vec::new();
        for path in self.markers.drain(..) {
            is_file_name("--marker", &path)?;
            conditions.push(Condition::Marker { path, plain });
        }
        for condition in self.others.drain(..) {
            conditions.push(match condition {
                Condition::Http(url, _) => Condition::Http(url, trust.clone()),
                other => other,
            });
        }
        match conditions.len() {
            0..=CONDITIONS => Ok(conditions),
            number => Err(format!("{number} conditions are too many; expected at most {CONDITIONS}")),
        }
    }

    fn volume(&mut self, interval: Duration) -> Result<Volume, String> {
        let source = self.source.take().ok_or("volume: no source; expected --source FOLDER")?;
        let target = self.target.take().ok_or("volume: no target; expected --target FOLDER")?;
        for (flag, path) in [("--source", &source), ("--target", &target)] {
            if !is_plain(path) {
                return Err(format!(
                    "{flag}: {} is invalid; expected an absolute path without ..",
                    path.display()
                ));
            }
        }
        if target == Path::new("/") {
            return Err("--target: / cannot be mounted over; expected a folder below it".into());
        }
        // A folder cannot be mounted into itself.
        if source.starts_with(&target) || target.starts_with(&source) {
            let (source, target) = (source.display(), target.display());
            return Err(format!(
                "--source and --target: {source} and {target} overlap; expected two separate folders"
            ));
        }
        if self.markers.len() > 1 {
            return Err(format!("--marker: given {} times; expected once", self.markers.len()));
        }
        let marker = self.markers.pop().unwrap_or_else(|| target.join(".ready"));
        is_file_name("--marker", &marker)?;
        if !is_plain(&marker) {
            return Err(format!(
                "--marker: {} is invalid; expected an absolute path without ..",
                marker.display()
            ));
        }
        Ok(Volume { source, target, marker, interval })
    }
}

fn is_plain(path: &Path) -> bool {
    path.is_absolute() && path.components().all(|part| part != Component::ParentDir)
}

fn is_file_name(flag: &str, path: &Path) -> Result<(), String> {
    let folder = path.as_os_str().as_encoded_bytes().ends_with(b"/");
    match path.file_name().filter(|_| !folder) {
        Some(_) => Ok(()),
        None => Err(format!(
            "{flag}: {} does not name a file; expected a path such as /mnt/dump/.ready",
            path.display()
        )),
    }
}

fn socket(path: PathBuf) -> Result<PathBuf, String> {
    match path.as_os_str().len() {
        0..=SOCKET_PATH => Ok(path),
        bytes => {
            Err(format!("--socket: {} has {bytes} bytes; expected at most {SOCKET_PATH}", path.display()))
        }
    }
}

fn path(flag: &str, parser: &mut Parser) -> Result<PathBuf, String> {
    let value = parser.value().map_err(|_| format!("--{flag}: no value; expected a path"))?;
    if value.is_empty() {
        return Err(format!("--{flag}: \"\" is not a path"));
    }
    Ok(PathBuf::from(value))
}

fn read<T>(
    flag: &str,
    parser: &mut Parser,
    expected: &str,
    by: impl Fn(&str) -> Option<T>,
) -> Result<T, String> {
    let value = parser.value().map_err(|_| format!("--{flag}: no value; expected {expected}"))?;
    let value = value.string().map_err(|error| format!("--{flag}: {error}; expected {expected}"))?;
    by(&value).ok_or_else(|| format!("--{flag}: {value:?} is invalid; expected {expected}"))
}

fn time(flag: &str, parser: &mut Parser) -> Result<Duration, String> {
    let expected = "a time such as 500ms, 30s, 5m or 1h30m, at most a year";
    read(flag, parser, expected, |text| {
        // Zero needs no unit.
        if text == "0" {
            return Some(Duration::ZERO);
        }
        let time = text.parse::<SignedDuration>().ok()?;
        Duration::try_from(time).ok().filter(|time| *time <= LONGEST)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Command, String> {
        parse(line.split_whitespace().map(OsString::from))
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_wait_with_everything() {
        let line = "wait --marker /mnt/dump/.ready --file=/a --socket /s --tcp csi:80 --http https://csi/healthz \
                    --timeout 1h30m --interval 500ms --settle 2s --plain-marker --ca /ca.crt";
        let trust = Trust::File("/ca.crt".into());
        let expected = Wait {
            conditions: vec![
                Condition::Marker { path: "/mnt/dump/.ready".into(), plain: true },
                Condition::File("/a".into()),
                Condition::Socket("/s".into()),
                Condition::Tcp(Address::parse("csi:80").expect("an address")),
                Condition::Http(Url::parse("https://csi/healthz").expect("a URL"), trust),
            ],
            timeout: Some(seconds(5400)),
            interval: Duration::from_millis(500),
            settle: seconds(2),
        };
        assert_eq!(parsed(line), Ok(Command::Wait(expected)));
    }

    #[test]
    fn defaults() {
        let Ok(Command::Wait(wait)) = parsed("wait --file /a") else { panic!("no wait") };
        assert_eq!((wait.timeout, wait.interval, wait.settle), (Some(seconds(300)), seconds(1), seconds(0)));
        let Ok(Command::Wait(wait)) = parsed("wait --file /a --timeout 0 --settle 1h") else {
            panic!("no wait")
        };
        assert_eq!(wait.timeout, None);
        let expected = Volume {
            source: "/pv-storage".into(),
            target: "/host/mnt/dump".into(),
            marker: "/host/mnt/dump/.ready".into(),
            interval: seconds(1),
        };
        assert_eq!(
            parsed("volume --source /pv-storage --target /host/mnt/dump"),
            Ok(Command::Volume(expected))
        );
        let Ok(Command::VolumeCheck(_)) = parsed("volume check --source /a --target /b") else {
            panic!("no check")
        };
    }

    #[test]
    fn a_mark_with_a_command_that_has_flags_of_its_own() {
        let Ok(Command::Mark(mark)) = parsed("mark /run/x.ready --file /a -- sh -c true --help") else {
            panic!("no mark")
        };
        assert_eq!(mark.path, Path::new("/run/x.ready"));
        assert_eq!(mark.conditions, [Condition::File("/a".into())]);
        assert_eq!(mark.command, ["sh", "-c", "true", "--help"]);
    }

    #[test]
    fn wrong_usage_names_the_flag_and_the_value() {
        let long = format!("wait --socket /{}", "x".repeat(107));
        let many = format!("wait {}", "--file /a ".repeat(65));
        for (line, expected) in [
            ("", "no command; expected wait, mark or volume"),
            ("await", "\"await\" is not a command; expected wait, mark or volume"),
            ("wait", "wait: no condition; expected --marker, --file, --socket, --tcp or --http"),
            ("wait /a", "wait: \"/a\" is not a flag; expected --marker /a or another condition"),
            ("wait --marker", "--marker: no value; expected a path"),
            (
                "wait --marker /run/",
                "--marker: /run/ does not name a file; expected a path such as /mnt/dump/.ready",
            ),
            (
                "wait --file /a --timeout 5",
                "--timeout: \"5\" is invalid; expected a time such as 500ms, 30s, 5m or 1h30m, at most a year",
            ),
            (
                "wait --file /a --timeout -1s",
                "--timeout: \"-1s\" is invalid; expected a time such as 500ms, 30s, 5m or 1h30m, at most a year",
            ),
            ("wait --file /a --interval 1ms", "--interval: 1ms is too short; expected at least 100ms"),
            (
                "wait --file /a --timeout 10s --settle 10s",
                "--settle: 10s must be shorter than the --timeout of 10s",
            ),
            (
                "wait --tcp csi",
                "--tcp: \"csi\" is invalid; expected HOST:PORT; HOST is a name, an IPv4 address or [IPv6], PORT is 1 to 65535",
            ),
            (
                "wait --http csi:80",
                "--http: \"csi:80\" is invalid; expected an http or https URL such as http://localhost:9808/healthz",
            ),
            (
                "wait --http http://a/ --ca /x",
                "--ca: no certificate is checked without https; expected an --http with an https URL",
            ),
            ("wait --http https://a/ --ca /x --insecure", "--ca and --insecure: expected one of them"),
            ("wait --file /a --plain-marker", "--plain-marker: no marker is given; expected a --marker"),
            ("wait --file /a --source /b", "--source is not a flag of wait"),
            ("wait --file /a --what", "--what: unknown flag"),
            ("wait -x", "-x: unknown flag"),
            ("wait --file /a -- true", "\"true\" after --: only mark runs a command"),
            (&long, &format!("--socket: /{} has 108 bytes; expected at most 107", "x".repeat(107))),
            (&many, "65 conditions are too many; expected at most 64"),
            ("mark", "mark: no path; expected mark PATH"),
            ("mark /a --timeout 5s", "--timeout is not a flag of mark"),
            ("mark /a /b", "mark: \"/b\" is a second path; expected one, and a command after --"),
            ("mark /a --marker /a", "mark: /a is also a condition; it would wait for itself"),
            ("volume --target /b", "volume: no source; expected --source FOLDER"),
            ("volume --source /a", "volume: no target; expected --target FOLDER"),
            ("volume --source a --target /b", "--source: a is invalid; expected an absolute path without .."),
            (
                "volume --source /a --target /",
                "--target: / cannot be mounted over; expected a folder below it",
            ),
            (
                "volume --source /a --target /a/b",
                "--source and --target: /a and /a/b overlap; expected two separate folders",
            ),
            ("volume --source /a --target /b --file /c", "--file is not a flag of volume"),
            (
                "volume check --source /a --target /b --interval 1s",
                "--interval is not a flag of volume check",
            ),
            ("volume chekc", "volume: \"chekc\" is not a subcommand; expected flags, or check"),
        ] {
            assert_eq!(parsed(line).unwrap_err(), expected, "{line}");
        }
    }
}
