//! netperf over STREAMS by the preloaded library, compiled from its unchanged sources (HewlettPackard/netperf), which
//! `TOWPATH_NETPERF` names.

use crate::free_port;
use crate::programs::{output_of, preloaded, scratch};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// netserver, ended on drop.
struct NetServer(Child);

impl Drop for NetServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Builds a copy of the sources.
fn build(sources: &Path, folder: &Path) -> PathBuf {
    let copy = folder.join("netperf");
    output_of(Command::new("cp").arg("-a").arg(sources).arg(&copy));
    if !copy.join("configure").exists() {
        output_of(Command::new("sh").arg("./autogen.sh").current_dir(&copy));
    }
    let mut configure = Command::new("./configure");
    configure
        .env("CFLAGS", "-O2 -fcommon -w")
        .current_dir(&copy);
    output_of(&mut configure);
    let mut make = Command::new("make");
    make.args(["-C", "src", "netperf", "netserver"]);
    output_of(make.current_dir(&copy));
    copy.join("src")
}

/// Waits until a port of TCP is taken: netserver says nothing when it listens.
fn await_listener(port: u16) {
    let until = Instant::now() + Duration::from_secs(20);
    while TcpListener::bind(("127.0.0.1", port)).is_ok() {
        assert!(Instant::now() < until, "netserver does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn netperf_moves_its_octets_over_streams() {
    let Some(sources) = std::env::var_os("TOWPATH_NETPERF") else {
        eprintln!("SKIPPED: TOWPATH_NETPERF names no sources of netperf");
        return;
    };
    let scratch = scratch("netperf");
    let programs = build(Path::new(&sources), &scratch.0);
    let program = |name: &str| programs.join(name).display().to_string();
    for device in ["/dev/tcp", "/dev/xtp", "/dev/sctp_t"] {
        // A port for each test: one that was just listened at may not be free again.
        let (control, data) = (free_port(), [free_port(), free_port()]);
        scratch.write(
            "rules",
            &data
                .map(|port| format!("inet 127.0.0.1 {port} {device}\n"))
                .concat(),
        );
        // Without -f each test is a forked child's, whose new connections are the kernel's.
        let mut server = preloaded(&program("netserver"), &scratch);
        server.args([
            "-4",
            "-D",
            "-f",
            "-L",
            "127.0.0.1",
            "-p",
            &control.to_string(),
        ]);
        let server = NetServer(server.stdout(Stdio::null()).spawn().expect("it starts"));
        await_listener(control);
        for (test, data) in ["TCP_STREAM", "TCP_RR"].into_iter().zip(data) {
            let mut netperf = preloaded(&program("netperf"), &scratch);
            netperf.args(["-4", "-H", "127.0.0.1", "-p", &control.to_string()]);
            netperf.args(["-l", "1", "-P", "0", "-t", test, "--"]);
            netperf.args(["-H", "127.0.0.1", "-P", &format!("0,{data}")]);
            let said = output_of(&mut netperf);
            let numbers = said
                .split_whitespace()
                .filter_map(|word| word.parse::<f64>().ok());
            let rate = numbers.skip(3).fold(0.0, f64::max);
            assert!(rate > 0.0, "{device}: {test} says no rate: {said}");
        }
        drop(server);
    }
}
