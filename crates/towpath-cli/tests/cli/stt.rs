//! The public tester of SCTP's packets, stt (github.com/nplab/stt), against `towpath sctp echo` over UDP, with
//! the scripts of github.com/nplab/sctp-tests: test purposes of ETSI TS 102 369.
//!
//! TOWPATH_STT names the folder in which stt was built, TOWPATH_STT_TESTS that of the scripts.

use crate::support::Scratch;
use crate::xtp_tools::Tool;
use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Purposes that a server without a user's hand can meet, and that their script judges. Of the others some
/// want a client, a user who ends an association, or a look at the packets.
const PURPOSES: &[&str] = &[
    "sctp-a-o-9-3",
    "sctp-a-v-9-1",
    "sctp-a-v-9-2",
    "sctp-as-i-1-14-1",
    "sctp-as-i-1-4",
    "sctp-as-i-1-7-2",
    "sctp-as-i-1-8-1",
    "sctp-as-i-1-8-2",
    "sctp-as-i-1-8-3",
    "sctp-as-i-1-8-4",
    "sctp-as-o-1-9-1",
    "sctp-as-o-1-9-2",
    "sctp-as-v-1-1-2",
    "sctp-as-v-1-12-1",
    "sctp-as-v-1-5-2",
    "sctp-as-v-1-6-1",
    "sctp-as-v-1-7-5",
    "sctp-at-i-2-11",
    "sctp-at-i-2-13",
    "sctp-at-i-2-9",
    "sctp-at-v-2-14",
    "sctp-at-v-2-2",
    "sctp-bdc-i-7-1",
    "sctp-bdc-i-7-3",
    "sctp-bdc-v-7-4",
    "sctp-bdc-v-7-6",
    "sctp-bdc-v-7-7",
    "sctp-d-i-8-11",
    "sctp-d-i-8-5",
    "sctp-d-o-8-7",
    "sctp-d-v-8-1",
    "sctp-d-v-8-2",
    "sctp-d-v-8-3",
    "sctp-d-v-8-4",
    "sctp-dm-o-4-2-1",
    "sctp-dm-o-4-2-2",
    "sctp-dm-o-4-6-2",
    "sctp-dm-o-4-7-3",
    "sctp-dm-o-4-8",
    "sctp-e-i-6-3",
    "sctp-e-i-6-6",
    "sctp-e-o-6-2",
    "sctp-fh-i-5-1-2",
    "sctp-fh-o-5-3-1",
    "sctp-fh-o-5-3-2",
    "sctp-fh-o-5-3-3",
    "sctp-fh-o-5-3-4",
    "sctp-fh-v-5-2",
    "sctp-imh-i-3-1",
    "sctp-imh-i-3-10",
    "sctp-imh-i-3-3",
    "sctp-imh-i-3-5",
    "sctp-imh-i-3-7",
    "sctp-imh-i-3-8",
    "sctp-m-i-10-2",
    "sctp-m-i-10-3",
    "sctp-m-i-10-4",
    "sctp-rt-i-11-1",
];

/// Files of scripts, in the order in which they build on each other.
const SCRIPTS: [&str; 15] = [
    "common",
    "diameter",
    "sctp",
    "sctp-param-testtool",
    "sctp-a-tests",
    "sctp-as-tests",
    "sctp-at-tests",
    "sctp-bdc-tests",
    "sctp-d-tests",
    "sctp-dm-tests",
    "sctp-e-tests",
    "sctp-fh-tests",
    "sctp-imh-tests",
    "sctp-m-tests",
    "sctp-rt-tests",
];

/// Probes are packets that the scripts do not expect; with short timeouts they need not wait long.
const OPTIONS: &str = "path_mtu=fixed,heartbeat=0s,rto=200ms,rto_min=100ms,rto_max=1s";

/// How long one purpose takes at most, in seconds: eleven timeouts, and more.
const LIMIT_S: &str = "60";

/// The folders of stt and of its scripts, if they are given.
fn folders() -> Option<(PathBuf, PathBuf)> {
    let stt = std::env::var_os("TOWPATH_STT")?;
    let scripts = std::env::var_os("TOWPATH_STT_TESTS")?;
    Some((stt.into(), scripts.into()))
}

/// What stt runs first: the scripts, and who is tested.
fn prelude((stt, scripts): (&Path, &Path), sut_port: u16, own_port: u16) -> String {
    // The scripts were written for a tester that does not tell the UDP port of what it received.
    let mut text = format!(
        "(load {:?})\n\
         (define (sctp-receive . limit)\n\
         \x20 (reverse (cdr (reverse (apply sctp-receive-with-crc32c limit)))))\n",
        stt.join("init.scm")
    );
    for script in SCRIPTS {
        let path = scripts.join(format!("{script}.scm"));
        text.push_str(&format!("(load {path:?})\n"));
        if script == "sctp-param-testtool" {
            text.push_str(&format!(
                "(define sctp-remote-udp-encaps-port {sut_port})\n\
                 (define sctp-local-udp-encaps-port {own_port})\n\
                 (define sut-addr (make-ipv4-address \"127.0.0.1\"))\n\
                 (define sut-port 5000)\n\
                 (define tester-addr-1 sut-addr)\n\
                 (define tester-addr-2 sut-addr)\n\
                 (define test-ppid echo-ppid)\n\
                 (define test-message (make-ascii-bytes \"towpath\"))\n\
                 (define make-test-message make-echo-test-message)\n"
            ));
        }
    }
    text
}

/// Runs one purpose: whether its script says that it is met.
fn is_met(stt: &Path, home: &Path, purpose: &str) -> Result<(), String> {
    let run = format!("(exit ({purpose} #t sut-addr tester-port sut-port))");
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", LIMIT_S]).arg(stt.join("stt"));
    let command = command.args(["-c", &run]).env("HOME", home);
    let output = command.env("GUILE_AUTO_COMPILE", "0").stdin(Stdio::null());
    let output = output.output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!(
            "{purpose}: {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}

#[test]
fn public_tester_finds_its_purposes_met() {
    let Some((stt, scripts)) = folders() else {
        eprintln!("SKIPPED: TOWPATH_STT and TOWPATH_STT_TESTS are not set: stt was not run");
        return;
    };
    let scratch = Scratch::new();
    let tool = Tool::start(&["sctp", "echo", "127.0.0.1:0", "--options", OPTIONS]);
    let (_, port) = tool.at.rsplit_once(':').expect("an address with its port");
    let sut_port = port.parse().expect("a number");
    let free = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let own_port = free.local_addr().expect("bound").port();
    drop(free);
    let text = prelude((&stt, &scripts), sut_port, own_port);
    let home = PathBuf::from(scratch.text("home"));
    fs::create_dir_all(&home).expect("a folder");
    fs::write(home.join(".stt.scm"), text).expect("a script");
    let runs = PURPOSES.iter().map(|purpose| is_met(&stt, &home, purpose));
    let failed: Vec<String> = runs.filter_map(Result::err).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    tool.stop();
}
