//! `rollcall-node volume`: mounts, writes the marker, and touches no foreign objects. Each test has mounts of its own.

use crate::common::*;
use rustix::mount::{UnmountFlags, mount_bind, unmount};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::{TempDir, tempdir};

struct Scene {
    _dir: TempDir,
    source: PathBuf,
    target: PathBuf,
    marker: PathBuf,
}

impl Scene {
    fn new() -> Scene {
        let dir = tempdir().expect("a folder");
        let (source, target) = (dir.path().join("pv"), dir.path().join("mnt/dump"));
        fs::create_dir(&source).expect("the source");
        Scene { marker: target.join(".ready"), _dir: dir, source, target }
    }

    fn start(&self) -> Program {
        let (source, target) = (text(&self.source), text(&self.target));
        Program::start(&["volume", "--source", source, "--target", target, "--interval", "100ms"])
    }

    fn check(&self) -> (i32, String) {
        run(&["volume", "check", "--source", text(&self.source), "--target", text(&self.target)])
    }

    /// The number of mounts that are stacked at the target.
    fn mounts(&self) -> usize {
        let table = fs::read_to_string("/proc/self/mountinfo").expect("the table");
        table.lines().filter(|line| line.split(' ').nth(4) == Some(text(&self.target))).count()
    }

    fn is_mounted(&self) -> bool {
        let numbers = |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino())).ok();
        self.mounts() == 1 && numbers(&self.source) == numbers(&self.target)
    }

    fn ready(&self) -> String {
        eventually("the mount and its marker", || {
            fs::read_to_string(&self.marker).ok().filter(|_| self.is_mounted() && self.check().0 == 0)
        })
    }
}

#[test]
fn mounted_marked_and_taken_back() {
    in_own_mounts(module_path!(), "mounted_marked_and_taken_back", || {
        let scene = Scene::new();
        assert_eq!(scene.check().0, 1);
        fs::write(scene.source.join("data"), "kept").expect("data");
        let mut program = scene.start();
        let content = scene.ready();
        let found = fs::metadata(&scene.target).expect("the target");
        assert!(content.starts_with("ready\n"), "{content}");
        assert!(content.ends_with(&format!("mount: {}:{}\n", found.dev(), found.ino())), "{content}");
        assert_eq!(fs::read_to_string(scene.target.join("data")).expect("data"), "kept");
        assert_eq!(run(&["wait", "--marker", text(&scene.marker)]).0, 0);
        program.says("is mounted at");
        program.says("expected mountPropagation: Bidirectional");

        // Another program unmounts it; the marker remains in the source.
        unmount(&scene.target, UnmountFlags::empty()).expect("unmount");
        scene.ready();
        // Another program removes the marker.
        fs::remove_file(&scene.marker).expect("no marker");
        scene.ready();

        let begun = Instant::now();
        program.terminate();
        let (code, said) = program.ends();
        assert_eq!(code, 143, "{said}");
        assert!(begun.elapsed() < Duration::from_secs(5));
        assert_eq!((scene.mounts(), scene.marker.exists()), (0, false));
        let left: Vec<_> = fs::read_dir(&scene.source).expect("the source").flatten().collect();
        assert_eq!(left.len(), 1, "other files than the data remain: {left:?}");
        assert!(said.contains("the marker has been removed"), "{said}");
    });
}

#[test]
fn a_mount_of_an_earlier_life_is_taken_over() {
    in_own_mounts(module_path!(), "a_mount_of_an_earlier_life_is_taken_over", || {
        let scene = Scene::new();
        let first = scene.start();
        let old = scene.ready();
        first.kill();
        assert!(scene.is_mounted() && scene.marker.exists(), "a killed program cleans up nothing");
        // Marks the old marker, so that the test can tell that the second program has written its own.
        fs::write(&scene.marker, old.replace("time: ", "time: 1")).expect("the old marker");
        let second = scene.start();
        eventually("a marker of the second", || {
            fs::read_to_string(&scene.marker).ok().filter(|text| text.contains("time: 2"))
        });
        assert!(scene.is_mounted());
        second.terminate();
        assert_eq!(second.ends().0, 143);
        assert_eq!((scene.mounts(), scene.marker.exists()), (0, false));
    });
}

#[test]
fn a_stale_marker_in_the_bare_target_does_not_count() {
    in_own_mounts(module_path!(), "a_stale_marker_in_the_bare_target_does_not_count", || {
        let scene = Scene::new();
        let program = scene.start();
        let fresh = scene.ready();
        program.kill();
        unmount(&scene.target, UnmountFlags::empty()).expect("a reboot unmounts");
        fs::write(&scene.marker, fresh).expect("a copy of the marker");
        let (code, said) = run(&["wait", "--marker", text(&scene.marker), "--timeout", "1s"]);
        assert_eq!(code, 1);
        assert!(said.contains("stale: written for mount "), "{said}");
        // The next run removes the marker before it mounts, so the marker does not reappear in the source after the
        // run.
        let program = scene.start();
        scene.ready();
        program.terminate();
        program.ends();
        assert_eq!((scene.mounts(), scene.marker.exists()), (0, false));
    });
}

#[test]
fn what_others_have_mounted_stays() {
    in_own_mounts(module_path!(), "what_others_have_mounted_stays", || {
        let scene = Scene::new();
        let foreign = tempdir().expect("a folder");
        fs::create_dir_all(&scene.target).expect("the target");
        fs::write(foreign.path().join("data"), "theirs").expect("data");
        fs::write(foreign.path().join(".ready"), "theirs").expect("a marker of somebody else");
        mount_bind(foreign.path(), &scene.target).expect("a mount of somebody else");
        let mut program = scene.start();
        program.says("something else is mounted there");
        let (code, said) = scene.check();
        assert!(code == 1 && said.contains("something else is mounted there"), "{said}");
        assert_eq!(scene.mounts(), 1);
        program.terminate();
        assert_eq!(program.ends().0, 143);
        for file in ["data", ".ready"] {
            assert_eq!(fs::read_to_string(scene.target.join(file)).expect(file), "theirs");
        }
        // After the foreign mount is removed, ours is made.
        let mut program = scene.start();
        program.says("something else is mounted there");
        unmount(&scene.target, UnmountFlags::empty()).expect("unmount");
        scene.ready();
    });
}

#[test]
fn a_busy_target_is_unmounted_all_the_same() {
    in_own_mounts(module_path!(), "a_busy_target_is_unmounted_all_the_same", || {
        let scene = Scene::new();
        let program = scene.start();
        scene.ready();
        let mut busy = File::create(scene.target.join("dump")).expect("a file");
        let begun = Instant::now();
        program.terminate();
        let (code, said) = program.ends();
        assert_eq!(code, 143, "{said}");
        assert!(begun.elapsed() < Duration::from_secs(5));
        assert_eq!(scene.mounts(), 0, "{said}");
        // Open files stay usable.
        std::io::Write::write_all(&mut busy, b"the end").expect("writing on");
        assert_eq!(fs::read_to_string(scene.source.join("dump")).expect("the dump"), "the end");
    });
}

#[test]
fn the_source_comes_late_goes_and_comes_back() {
    in_own_mounts(module_path!(), "the_source_comes_late_goes_and_comes_back", || {
        let scene = Scene::new();
        fs::remove_dir(&scene.source).expect("no source");
        let mut program = scene.start();
        program.says(&format!("source {}: not found", scene.source.display()));
        assert_eq!((scene.mounts(), scene.marker.exists(), scene.check().0), (0, false, 1));
        fs::create_dir(&scene.source).expect("the source");
        scene.ready();
        let away = scene.source.with_extension("away");
        fs::rename(&scene.source, &away).expect("the source goes");
        eventually("no mount", || (scene.mounts() == 0 && !scene.marker.exists()).then_some(()));
        assert!(program.is_running());
        fs::create_dir(&scene.source).expect("another source");
        scene.ready();
        program.terminate();
        assert_eq!(program.ends().0, 143);
        fs::remove_dir(&scene.source).expect("nothing is left in it");
        fs::write(&scene.source, "").expect("a file");
        let mut program = scene.start();
        program.says("is a file, not a folder");
        program.terminate();
        assert_eq!(program.ends().0, 143, "never 0");
    });
}

#[test]
fn a_link_at_the_target_is_not_followed() {
    in_own_mounts(module_path!(), "a_link_at_the_target_is_not_followed", || {
        let scene = Scene::new();
        fs::create_dir(scene.target.parent().expect("a folder")).expect("a folder");
        std::os::unix::fs::symlink("/tmp", &scene.target).expect("a link");
        let mut program = scene.start();
        program.says(&format!("target {}: is a symbolic link, not a folder", scene.target.display()));
    });
}

#[test]
fn a_marker_elsewhere_names_no_mount() {
    in_own_mounts(module_path!(), "a_marker_elsewhere_names_no_mount", || {
        let scene = Scene::new();
        let elsewhere = scene.source.with_file_name("x.ready");
        let arguments = [
            "volume",
            "--source",
            text(&scene.source),
            "--target",
            text(&scene.target),
            "--marker",
            text(&elsewhere),
        ];
        let program = Program::start(&arguments);
        let content = eventually("the marker", || fs::read_to_string(&elsewhere).ok());
        // A marker outside of the mount names no mount, because readers there could not compare it.
        assert!(!content.contains("mount:"), "{content}");
        assert_eq!(run(&["wait", "--marker", text(&elsewhere)]).0, 0);
        let check = [&["volume", "check"], &arguments[1..]].concat();
        assert_eq!(run(&check).0, 0);
        program.terminate();
        program.ends();
        assert_eq!(
            (scene.mounts(), elsewhere.exists(), scene.source.join(".ready").exists()),
            (0, false, false)
        );
    });
}
