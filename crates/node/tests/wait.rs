//! `rollcall-node wait`, with real files, sockets, ports and certificates.

use crate::common::*;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::tempdir;

/// Waits briefly for one condition, and returns the reason that is printed at the timeout. On a busy machine, longer
/// timeouts follow.
fn refused(arguments: &[&str]) -> String {
    for moment in ["300ms", "3s", "20s"] {
        let (code, said) = run(&[&["wait", "--timeout", moment, "--interval", "100ms"], arguments].concat());
        assert_eq!(code, 1, "{said}");
        let line = said.lines().find(|line| line.contains("gave up")).unwrap_or_else(|| panic!("{said}"));
        if !line.contains("not checked yet") && !line.contains("no answer for") {
            return line.split_once("gave up: ").expect("a cause").1.to_owned();
        }
    }
    panic!("{arguments:?} was never looked at");
}

#[test]
fn what_is_there_is_done_at_once() {
    let dir = tempdir().expect("a folder");
    let marker = dir.path().join(".ready");
    fs::write(&marker, "ready\n").expect("a marker");
    let (code, said) = run(&["wait", "--marker", text(&marker)]);
    assert_eq!(code, 0, "{said}");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], format!("rollcall-node: waiting for marker {}; at most 5m", marker.display()));
    assert!(lines.len() == 2 && lines[1].ends_with(": all conditions hold"), "{said}");
}

#[test]
fn an_appearing_file_counts_at_once_whatever_the_interval() {
    let dir = tempdir().expect("a folder");
    let file = dir.path().join("x");
    let mut program = Program::start(&["wait", "--file", text(&file), "--interval", "1h"]);
    program.says("waiting for");
    fs::write(&file, "").expect("a file");
    assert_eq!(program.ends().0, 0);
}

#[test]
fn folders_that_come_later_are_noticed() {
    let dir = tempdir().expect("a folder");
    let marker = dir.path().join("a/b/.ready");
    let mut program = Program::start(&["wait", "--marker", text(&marker), "--interval", "1h"]);
    program.says("waiting for");
    fs::create_dir_all(dir.path().join("a/b")).expect("folders");
    fs::write(&marker, "").expect("a marker");
    assert_eq!(program.ends().0, 0);
}

#[test]
fn a_mount_over_the_watched_folder_is_noticed() {
    in_own_mounts(module_path!(), "a_mount_over_the_watched_folder_is_noticed", || {
        let (dir, other) = (tempdir().expect("a folder"), tempdir().expect("a folder"));
        let marker = dir.path().join(".ready");
        fs::write(other.path().join(".ready"), "ready\n").expect("a marker");
        let mut program = Program::start(&["wait", "--marker", text(&marker), "--interval", "1h"]);
        program.says("waiting for");
        rustix::mount::mount_bind(other.path(), dir.path()).expect("a mount");
        assert_eq!(program.ends().0, 0);
    });
}

#[test]
fn it_says_what_is_missing_every_ten_seconds_and_nothing_else_when_it_gives_up() {
    let dir = tempdir().expect("a folder");
    let (there, missing) = (dir.path().join("there"), dir.path().join("missing"));
    fs::write(&there, "").expect("a file");
    let begun = Instant::now();
    let (code, said) = run(&[
        "wait",
        "--file",
        text(&there),
        "--file",
        text(&missing),
        "--timeout",
        "11s",
        "--interval",
        "100ms",
    ]);
    assert_eq!(code, 1, "{said}");
    assert!(begun.elapsed() >= Duration::from_secs(11));
    let lines: Vec<&str> = said.lines().collect();
    let missing = missing.display();
    assert_eq!(lines[1], format!("rollcall-node: 10s: still waiting: file {missing}: not found"), "{said}");
    assert_eq!(lines[2], format!("rollcall-node: 11s: gave up: file {missing}: not found"));
    assert!(lines[3].starts_with("hint: ") && lines.len() == 4, "{said}");
}

#[test]
fn sigterm_ends_it_and_not_with_0() {
    let mut program = Program::start(&["wait", "--file", "/no/such/file", "--timeout", "0"]);
    program.says("without a limit");
    let begun = Instant::now();
    program.terminate();
    let (code, said) = program.ends();
    assert_eq!(code, 143, "{said}");
    // The signal may arrive before the first check.
    let last = said.lines().last().unwrap_or_default();
    let (_, why) =
        last.split_once(": terminated by signal 15, still waiting: file /no/such/file: ").expect(&said);
    let looked = "not found; the folder /no/such does not exist either";
    assert!([looked, "not checked yet"].contains(&why), "{said}");
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[test]
fn wrong_usage_is_2() {
    let (code, said) = run(&["wait", "--timeout", "soon"]);
    assert_eq!(code, 2);
    assert!(said.starts_with("rollcall-node: --timeout: \"soon\" is invalid"), "{said}");
}

#[test]
fn all_must_hold_for_as_long_as_settle_says() {
    let dir = tempdir().expect("a folder");
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    fs::write(&a, "").expect("a file");
    let arguments = ["wait", "--file", text(&a), "--file", text(&b), "--settle", "2s", "--interval", "1h"];
    let mut program = Program::start(&arguments);
    program.says("all for 2s without interruption");
    fs::write(&b, "").expect("a file");
    let begun = Instant::now();
    // Removed and re-created in between: too fast to be noticed by polling alone.
    let middle = begun + Duration::from_secs(1);
    eventually("the middle of the settle time", || (Instant::now() >= middle).then_some(()));
    assert!(program.is_running());
    fs::remove_file(&a).expect("no file");
    fs::write(&a, "").expect("a file");
    assert_eq!(program.ends().0, 0);
    assert!(begun.elapsed() >= Duration::from_secs(3), "{:?}", begun.elapsed());
}

#[test]
fn files_that_are_none() {
    let dir = tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    let said = |path: &Path| refused(&["--file", text(path)]).split_once(": ").expect("a cause").1.to_owned();
    assert_eq!(said(dir.path()), "is a directory, not a file");
    rustix::fs::mkfifoat(rustix::fs::CWD, at("fifo"), rustix::fs::Mode::RUSR).expect("a FIFO");
    assert_eq!(said(&at("fifo")), "is a FIFO, not a file");
    symlink("nowhere", at("link")).expect("a link");
    assert_eq!(said(&at("link")), "is a dangling symbolic link");
    let none = at("none/x");
    assert_eq!(said(&none), format!("not found; the folder {} does not exist either", at("none").display()));
    // A device counts as a file.
    assert_eq!(run(&["wait", "--file", "/dev/null"]).0, 0);
}

#[test]
fn unreadable_paths_are_said() {
    in_own_mounts(module_path!(), "unreadable_paths_are_said", || {
        let dir = tempdir().expect("a folder");
        let (closed, marker) = (dir.path().join("closed"), dir.path().join("marker"));
        fs::create_dir(&closed).expect("a folder");
        fs::write(&marker, "ready\n").expect("a marker");
        for path in [&closed, &marker] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o000)).expect("no rights");
        }
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("rights");
        // Root may read everything, so the program runs as another user.
        let tried = |flag: &str, path: &Path| {
            let output = std::process::Command::new("setpriv")
                .args(["--reuid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"])
                .arg(program_for_all(dir.path()))
                .args(["wait", "--timeout", "2s", flag, text(path)])
                .output()
                .expect("setpriv");
            String::from_utf8_lossy(&output.stderr).into_owned()
        };
        for (flag, path) in
            [("--marker", &marker), ("--file", &closed.join("x")), ("--socket", &closed.join("x"))]
        {
            let said = tried(flag, path);
            assert!(said.contains(&format!("{}: permission denied\n", path.display())), "{said}");
        }
    });
}

/// A copy of the program that every user can run.
fn program_for_all(dir: &Path) -> std::path::PathBuf {
    let copy = dir.join("rollcall-node");
    if !copy.exists() {
        fs::copy(env!("CARGO_BIN_EXE_rollcall-node"), &copy).expect("a copy");
    }
    copy
}

#[test]
fn sockets_must_be_listened_on() {
    let dir = tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    let said =
        |path: &Path| refused(&["--socket", text(path)]).split_once(": ").expect("a cause").1.to_owned();
    fs::write(at("file"), "").expect("a file");
    assert_eq!(said(&at("file")), "is a file, not a socket");
    drop(UnixListener::bind(at("left")).expect("a socket"));
    assert_eq!(said(&at("left")), "connection refused");
    let _datagrams = UnixDatagram::bind(at("datagrams")).expect("a socket");
    assert_eq!(said(&at("datagrams")), "is not a stream socket");
    assert_eq!(said(&at("none")), "not found");

    let socket = at("csi.sock");
    let mut program = Program::start(&["wait", "--socket", text(&socket), "--interval", "1h"]);
    program.says("waiting for");
    let _listener = UnixListener::bind(&socket).expect("a socket");
    assert_eq!(program.ends().0, 0);
}

#[test]
fn markers_of_another_boot_or_mount_do_not_count() {
    let dir = tempdir().expect("a folder");
    let marker = dir.path().join(".ready");
    let said = |content: &str| {
        fs::write(&marker, content).expect("a marker");
        refused(&["--marker", text(&marker)]).split_once(": ").expect("a cause").1.to_owned()
    };
    assert_eq!(
        said("ready\nboot: 00000000-0000-0000-0000-000000000000\ntime: 2026-11-16T10:00:00Z\n"),
        "stale: written in an earlier boot (at 2026-11-16T10:00:00Z)"
    );
    let stale = said(&format!("ready\nboot: {}\nmount: 1:2\n", boot()));
    assert!(stale.starts_with("stale: written for mount 1:2, but the folder here is mount "), "{stale}");
    assert_eq!(said("ready\nboot:\n"), "stale: invalid line \"boot:\"");
    // With `--plain-marker`, any file counts.
    assert_eq!(run(&["wait", "--marker", text(&marker), "--plain-marker"]).0, 0);
    fs::write(&marker, format!("ready\nboot: {}\n", boot())).expect("a marker");
    assert_eq!(run(&["wait", "--marker", text(&marker)]).0, 0);
}

#[test]
fn odd_markers() {
    let dir = tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    let said =
        |path: &Path| refused(&["--marker", text(path)]).split_once(": ").expect("a cause").1.to_owned();
    // Opening the FIFO must not block until there is a writer.
    rustix::fs::mkfifoat(rustix::fs::CWD, at("fifo"), rustix::fs::Mode::RUSR).expect("a FIFO");
    assert_eq!(said(&at("fifo")), "is a FIFO, not a file");
    assert_eq!(said(dir.path()), "is a directory, not a file");
    let _socket = UnixListener::bind(at("socket")).expect("a socket");
    assert_eq!(said(&at("socket")), "is a socket, not a file");
    symlink("/etc/hostname", at("out")).expect("a link");
    assert_eq!(said(&at("out")), "is a symbolic link out of its folder");
    symlink("../x/y", at("up")).expect("a link");
    assert_eq!(said(&at("up")), "is a symbolic link out of its folder");
    symlink("round", at("round")).expect("a link");
    assert_eq!(said(&at("round")), "is a symbolic link out of its folder");
    // A link within its folder, as in a mounted ConfigMap.
    fs::create_dir(at("..data")).expect("a folder");
    fs::write(at("..data/ready"), "ready\n").expect("a marker");
    symlink("..data/ready", at("ready")).expect("a link");
    assert_eq!(run(&["wait", "--marker", text(&at("ready"))]).0, 0);
    // Only the beginning of a 10 MB file is read.
    let mut large = format!("ready\nboot: {}\n", boot()).into_bytes();
    large.resize(10 << 20, b'x');
    fs::write(at("large"), &large).expect("a large file");
    assert_eq!(run(&["wait", "--marker", text(&at("large"))]).0, 0);
    fs::write(at("large"), vec![b'x'; 10 << 20]).expect("a large file");
    assert_eq!(run(&["wait", "--marker", text(&at("large"))]).0, 0);
}

#[test]
fn ports_of_names_and_numbers() {
    let four = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = four.local_addr().expect("its number").port();
    for host in ["127.0.0.1", "localhost"] {
        assert_eq!(run(&["wait", "--tcp", &format!("{host}:{port}")]).0, 0, "{host}");
    }
    drop(four);
    let address = format!("127.0.0.1:{port}");
    assert_eq!(refused(&["--tcp", &address]), format!("tcp {address}: connection refused"));
    let six = TcpListener::bind("[::1]:0").expect("a port");
    let port = six.local_addr().expect("its number").port();
    assert_eq!(run(&["wait", "--tcp", &format!("[::1]:{port}")]).0, 0);

    let unknown = refused(&["--tcp", "no-such-host.invalid:80"]);
    let expected = "tcp no-such-host.invalid:80: the name no-such-host.invalid does not resolve: ";
    assert!(unknown.starts_with(expected), "{unknown}");
}

/// Answers every request with `answer`, for as long as the test runs.
fn http(answer: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its number").port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    port
}

const OK: &str = "HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n";

#[test]
fn urls_must_answer_with_2xx() {
    let good = http(OK);
    assert_eq!(run(&["wait", "--http", &format!("http://localhost:{good}/healthz")]).0, 0);
    for (answer, expected) in [
        ("HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n", "HTTP 503"),
        ("HTTP/1.1 302 Found\r\nlocation: http://localhost:1/\r\ncontent-length: 0\r\n\r\n", "HTTP 302"),
    ] {
        let url = format!("http://127.0.0.1:{}/", http(answer));
        assert_eq!(refused(&["--http", &url]), format!("{url}: {expected}"));
    }
    assert!(
        refused(&["--http", &format!("http://127.0.0.1:{}/", http("what?\r\n\r\n"))]).contains("protocol")
    );
    let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its number");
    assert_eq!(
        refused(&["--http", &format!("http://{free}/")]),
        format!("http://{free}/: connection refused")
    );
}

#[test]
fn a_peer_that_accepts_and_never_answers_does_not_hold_up_the_end() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", silent.local_addr().expect("its number"));
    let begun = Instant::now();
    let (code, said) = run(&["wait", "--http", &url, "--timeout", "2s"]);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("gave up") && said.contains("no answer for "), "{said}");
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
}

/// A server with a certificate for `localhost`; its port, and the authority that signed it.
fn https() -> (u16, String) {
    let signer = rcgen::KeyPair::generate().expect("a key");
    let mut authority = rcgen::CertificateParams::new(Vec::new()).expect("an authority");
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let pem = authority.self_signed(&signer).expect("a certificate").pem();
    let key = rcgen::KeyPair::generate().expect("a key");
    let issuer = rcgen::Issuer::new(authority, signer);
    let leaf = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).expect("a leaf");
    let leaf = leaf.signed_by(&key, &issuer).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let server = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(
            vec![leaf.der().clone()],
            rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).expect("a key"),
        )
        .expect("a server");
    let server = Arc::new(server);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its number").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let connection = rustls::ServerConnection::new(server.clone()).expect("a connection");
            let mut stream = rustls::StreamOwned::new(connection, stream);
            // A client that does not trust the certificate closes the connection.
            if stream.read(&mut [0; 4096]).is_ok() {
                let _ = stream.write_all(OK.as_bytes());
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        }
    });
    (port, pem)
}

#[test]
fn certificates_are_checked() {
    let dir = tempdir().expect("a folder");
    let ((port, right), (_, wrong)) = (https(), https());
    let at = |name: &str| dir.path().join(name);
    fs::write(at("right.crt"), right).expect("a file");
    fs::write(at("wrong.crt"), wrong).expect("a file");
    fs::write(at("none.crt"), "nothing\n").expect("a file");
    let url = format!("https://localhost:{port}/healthz");
    assert_eq!(run(&["wait", "--http", &url, "--ca", text(&at("right.crt"))]).0, 0);
    assert_eq!(run(&["wait", "--http", &url, "--insecure"]).0, 0);
    for arguments in [&["--http", &url, "--ca", text(&at("wrong.crt"))][..], &["--http", &url]] {
        let said = refused(arguments);
        let expected = [": its certificate is rejected: ", ": this image has no CA certificates"];
        assert!(expected.iter().any(|words| said.contains(words)), "{said}");
    }
    let said = refused(&["--http", &url, "--ca", text(&at("none.crt"))]);
    assert!(said.ends_with("none.crt: none found; expected PEM"), "{said}");
    let said = refused(&["--http", &url, "--ca", text(&at("missing.crt"))]);
    assert!(said.ends_with("missing.crt: not found"), "{said}");
    // The right authority, but the wrong name.
    let said = refused(&["--http", &format!("https://127.0.0.1:{port}/"), "--ca", text(&at("right.crt"))]);
    assert!(said.contains("its certificate is rejected: "), "{said}");
}

#[test]
fn several_at_once() {
    let dir = tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    let (tcp, http) = (TcpListener::bind("127.0.0.1:0").expect("a port"), http(OK));
    let tcp = tcp.local_addr().map(|address| (tcp, address)).expect("its number");
    let _socket = UnixListener::bind(at("socket")).expect("a socket");
    fs::write(at("marker"), "").expect("a marker");
    let (marker, file, socket) = (at("marker"), at("file"), at("socket"));
    let (address, url) = (tcp.1.to_string(), format!("http://127.0.0.1:{http}/"));
    let all = [
        "wait",
        "--marker",
        text(&marker),
        "--file",
        text(&file),
        "--socket",
        text(&socket),
        "--tcp",
        &address,
        "--http",
        &url,
        "--timeout",
        "1m",
    ];
    let mut program = Program::start(&all);
    program.says("waiting for marker");
    assert!(program.is_running());
    fs::write(&file, "").expect("a file");
    assert_eq!(program.ends().0, 0);
}
