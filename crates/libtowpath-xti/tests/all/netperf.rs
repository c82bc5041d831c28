//! netperf's XTI tests, compiled from its unchanged sources (HewlettPackard/netperf), which `TOWPATH_NETPERF` names.

use super::cdylib;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Tests that netperf's command line knows, with the words that they need.
const TESTS: [(&str, &[&str]); 4] = [
    (
        "XTI_TCP_STREAM",
        &["-m", "64", "-s", "131071", "-S", "131071"],
    ),
    ("XTI_TCP_RR", &[]),
    ("XTI_UDP_STREAM", &["-X", "/dev/udp,/dev/udp", "-m", "1024"]),
    ("XTI_UDP_RR", &["-X", "/dev/udp,/dev/udp"]),
];

/// netserver, ended on drop.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn run(command: &mut Command) -> String {
    let output = command.output().expect("it starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}: {said}\n{errors}");
    said
}

/// Builds a copy of the sources with the library's header.
fn build(sources: &Path, folder: &Path, scratch: &Path) -> PathBuf {
    let copy = scratch.join("netperf");
    run(Command::new("cp").arg("-a").arg(sources).arg(&copy));
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let folder = folder.display();
    if !copy.join("configure").exists() {
        run(Command::new("sh").arg("./autogen.sh").current_dir(&copy));
    }
    let mut configure = Command::new("./configure");
    configure.arg("--enable-xti").current_dir(&copy);
    configure.env("CFLAGS", format!("-O2 -fcommon -w -I{}", include.display()));
    configure.env("LDFLAGS", format!("-L{folder} -Wl,-rpath,{folder}"));
    configure.env("LIBS", "-ltowpath_xti");
    run(&mut configure);
    run(Command::new("make")
        .args(["-C", "src", "netperf", "netserver"])
        .current_dir(&copy));
    copy.join("src")
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listener.local_addr().expect("it is bound").port()
}

#[test]
fn unchanged_netperf_runs_its_xti_tests() {
    let Some(sources) = std::env::var_os("TOWPATH_NETPERF") else {
        eprintln!("SKIPPED: TOWPATH_NETPERF names no sources of netperf");
        return;
    };
    let folder = cdylib::build_libraries(&["towpath-c", "towpath-xti-c"]);
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("np-{}", std::process::id()));
    fs::create_dir_all(&scratch).expect("a folder to work in");
    let programs = build(Path::new(&sources), &folder, &scratch);
    let port = free_port().to_string();
    let mut server = Command::new(programs.join("netserver"));
    server.args(["-4", "-D", "-L", "127.0.0.1", "-p", &port]);
    let server = Server(server.stdout(Stdio::null()).spawn().expect("it starts"));
    // It says nothing when it listens.
    std::thread::sleep(Duration::from_millis(500));
    for (test, words) in TESTS {
        let mut netperf = Command::new(programs.join("netperf"));
        netperf.args([
            "-4",
            "-H",
            "127.0.0.1",
            "-p",
            &port,
            "-l",
            "1",
            "-P",
            "0",
            "-t",
            test,
        ]);
        let said = run(netperf.arg("--").args(words));
        let numbers = said
            .split_whitespace()
            .filter_map(|word| word.parse::<f64>().ok());
        let rate = numbers.skip(3).fold(0.0, f64::max);
        assert!(rate > 0.0, "{test} says no rate: {said}");
    }
    drop(server);
    let _ = fs::remove_dir_all(&scratch);
}
