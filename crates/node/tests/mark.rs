//! `rollcall-node mark`: the marker exists exactly while it should.

use crate::common::*;
use rustix::mount::{MountFlags, mount};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::tempdir;

fn appears(path: &Path) -> String {
    eventually("the marker", || fs::read_to_string(path).ok())
}

fn goes(path: &Path) {
    eventually("no marker", || (!path.exists()).then_some(()));
}

#[test]
fn the_marker_follows_the_condition_and_goes_with_the_program() {
    let dir = tempdir().expect("a folder");
    let (marker, condition) = (dir.path().join("x.ready"), dir.path().join("condition"));
    fs::write(&marker, "ready\n").expect("a marker of an earlier run");
    let arguments = ["mark", text(&marker), "--file", text(&condition)];
    let mut program = Program::start_with(&arguments, &[("POD_UID", "uid-1"), ("NODE_NAME", "node-1")]);
    program.says(&format!("not ready, no marker: file {}: not found", condition.display()));
    assert!(!marker.exists());
    fs::write(&condition, "").expect("the condition");
    let content = appears(&marker);
    let lines: Vec<&str> = content.lines().collect();
    assert_eq!(lines[..4], ["ready", &format!("boot: {}", boot()), "pod: uid-1", "node: node-1"]);
    assert!(lines.len() == 5 && lines[4].starts_with("time: 20") && lines[4].ends_with('Z'), "{content}");
    assert_eq!(run(&["wait", "--marker", text(&marker)]).0, 0);
    assert_eq!(fs::read_dir(dir.path()).expect("the folder").count(), 2, "other files remain");

    fs::remove_file(&condition).expect("no condition");
    goes(&marker);
    fs::write(&condition, "").expect("the condition");
    appears(&marker);
    // Another program removes or overwrites the marker.
    fs::remove_file(&marker).expect("no marker");
    appears(&marker);
    fs::write(&marker, "ready\nboot: another\n").expect("another marker");
    eventually("its own marker", || {
        fs::read_to_string(&marker).ok().filter(|content| content.contains("uid-1"))
    });

    let begun = Instant::now();
    program.terminate();
    let (code, said) = program.ends();
    assert_eq!(code, 143, "{said}");
    assert!(!marker.exists() && begun.elapsed() < Duration::from_secs(2), "{said}");
}

#[test]
fn what_a_successor_has_written_stays() {
    let dir = tempdir().expect("a folder");
    let marker = dir.path().join("x.ready");
    let old = Program::start_with(&["mark", text(&marker)], &[("POD_UID", "old")]);
    appears(&marker);
    let other = format!("ready\nboot: {}\npod: new\n", boot());
    fs::write(&marker, &other).expect("the successor's");
    old.terminate();
    assert_eq!(old.ends().0, 143);
    assert_eq!(appears(&marker), other);
}

#[test]
fn the_command_must_end_with_0_before() {
    let dir = tempdir().expect("a folder");
    let (marker, go) = (dir.path().join("x.ready"), dir.path().join("go"));
    let script = format!("test -f {} || exit 3", go.display());
    let arguments = ["mark", text(&marker), "--interval", "100ms", "--", "sh", "-c", &script];
    let mut program = Program::start(&arguments);
    program.says("not ready, no marker: sh exited with code 3; retrying");
    assert!(!marker.exists());
    fs::write(&go, "").expect("a file");
    appears(&marker);
    program.terminate();
    assert_eq!(program.ends().0, 143);
}

#[test]
fn a_command_that_does_not_end_ends_with_us() {
    let dir = tempdir().expect("a folder");
    let (marker, pid) = (dir.path().join("x.ready"), dir.path().join("pid"));
    // It ignores SIGTERM, and has a child process.
    let script = format!("trap '' TERM; sleep 1000 & echo $! > {}; wait; wait", pid.display());
    let program = Program::start(&["mark", text(&marker), "--", "sh", "-c", &script]);
    let sleeper: i32 =
        eventually("the command", || fs::read_to_string(&pid).ok().and_then(|text| text.trim().parse().ok()));
    let begun = Instant::now();
    program.terminate();
    assert_eq!(program.ends().0, 143);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    eventually("the end of its child", || {
        let state = fs::read_to_string(format!("/proc/{sleeper}/stat")).unwrap_or_default();
        (state.is_empty() || state.contains(") Z ")).then_some(())
    });
}

#[test]
fn a_command_that_cannot_be_run_is_said() {
    let dir = tempdir().expect("a folder");
    let marker = dir.path().join("x.ready");
    let mut program = Program::start(&["mark", text(&marker), "--", "/no/such/program"]);
    program.says("/no/such/program: not found; retrying");
}

#[test]
fn a_missing_folder_is_said_and_tried_again() {
    let dir = tempdir().expect("a folder");
    let marker = dir.path().join("run/x.ready");
    let mut program = Program::start(&["mark", text(&marker), "--interval", "100ms"]);
    program.says(&format!("marker {}: not written: its folder does not exist", marker.display()));
    fs::create_dir(dir.path().join("run")).expect("the folder");
    appears(&marker);
    // A non-empty folder in place of the marker cannot be replaced.
    fs::remove_file(&marker).expect("no marker");
    drop(program);
    fs::create_dir_all(marker.join("x")).expect("a folder");
    let mut program = Program::start(&["mark", text(&marker)]);
    program.says(&format!("marker {}: not removed: is a directory", marker.display()));
}

#[test]
fn a_full_disk_and_a_read_only_one_are_said_and_tried_again() {
    in_own_mounts(module_path!(), "a_full_disk_and_a_read_only_one_are_said_and_tried_again", || {
        let dir = tempdir().expect("a folder");
        let disk = dir.path().join("disk");
        fs::create_dir(&disk).expect("a folder");
        mount("tmpfs", &disk, "tmpfs", MountFlags::empty(), c"size=64k").expect("a small disk");
        let (marker, ballast) = (disk.join("x.ready"), disk.join("ballast"));
        // Fills the disk.
        let _ = fs::write(&ballast, vec![0; 1 << 20]);
        let mut program = Program::start(&["mark", text(&marker), "--interval", "100ms"]);
        program.says(&format!("marker {}: not written: no space left on device", marker.display()));
        assert_eq!(fs::read_dir(&disk).expect("the disk").count(), 1, "a partial marker remains");
        fs::remove_file(&ballast).expect("space");
        appears(&marker);
        program.terminate();
        assert_eq!(program.ends().0, 143);

        mount("tmpfs", &disk, "tmpfs", MountFlags::RDONLY, None).expect("a disk that is read only");
        let mut program = Program::start(&["mark", text(&marker)]);
        program.says(&format!("marker {}: not written: read-only file", marker.display()));
    });
}

#[test]
fn flapping_is_not_chatter() {
    let dir = tempdir().expect("a folder");
    let (marker, condition) = (dir.path().join("x.ready"), dir.path().join("condition"));
    let program = Program::start(&["mark", text(&marker), "--file", text(&condition)]);
    for _ in 0..20 {
        fs::write(&condition, "").expect("the condition");
        appears(&marker);
        fs::remove_file(&condition).expect("no condition");
        goes(&marker);
    }
    program.terminate();
    let (_, said) = program.ends();
    // At most one line at the start, one every 10 s, and one at the end.
    assert!(said.lines().count() <= 5, "{said}");
}
