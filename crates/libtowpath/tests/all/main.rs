//! C programs written for TCP and UDP, rebuilt for XTP, and programs of VMTP and SCTP.

mod cdylib;
mod sctp;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder that is removed on drop.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A process that is killed on drop.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Compiles `tests/SOURCE` with `flags`; None, with a SKIPPED line, if there is no compiler.
fn build(source: &str, out: &Path, flags: &[&str]) -> Option<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Wextra", "-Werror", "-O1", "-o"])
        .arg(out);
    cc.arg(folder.join("tests").join(source));
    cc.arg("-I").arg(folder.join("include")).args(flags);
    let Ok(output) = cc.output() else {
        eprintln!("SKIPPED: there is no C compiler (cc)");
        return None;
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    Some(())
}

/// Runs an echo server and three concurrent clients; each must get back what it sent.
fn run_echo_clients(program: &Path) {
    let mut server = Command::new(program);
    let server = server.args(["serve", "3"]).stdout(Stdio::piped()).spawn();
    let mut server = Program(server.expect("it runs"));
    let mut output = BufReader::new(server.0.stdout.take().expect("piped"));
    let mut port = String::new();
    output.read_line(&mut port).expect("a port");
    std::thread::scope(|scope| {
        for salt in 0..3u32 {
            let port = port.trim();
            scope.spawn(move || {
                let mut client = Command::new(program);
                let client = client.args(["client", port]).stdin(Stdio::piped());
                let client = client.stdout(Stdio::piped()).spawn();
                let mut client = client.expect("it runs");
                let mut input = client.stdin.take().expect("piped");
                let bytes: Vec<u8> = (0..400_000u32).map(|at| (at * 31 + salt) as u8).collect();
                let sent = bytes.clone();
                let sending = std::thread::spawn(move || input.write_all(&sent));
                let output = client.wait_with_output().expect("it ends");
                assert!(output.status.success(), "client {salt}");
                sending.join().expect("no panic").expect("it reads all");
                assert!(output.stdout == bytes, "client {salt}");
            });
        }
    });
    assert!(server.0.wait().expect("it ends").success());
}

/// Calls `act` with a program that runs `program` in a network of its own whose loopback has this MTU.
/// Prints SKIPPED where there can be none.
fn in_network(program: &Path, mtu: &str, act: fn(&Path)) {
    let name = format!("libtowpath-{}-{mtu}", std::process::id());
    let ip = |words: &[&str]| {
        let output = Command::new("ip").args(words).output();
        output.is_ok_and(|output| output.status.success())
    };
    if !ip(&["netns", "add", &name]) {
        eprintln!("SKIPPED: no network namespace can be made here");
        return;
    }
    let is_up = ip(&["-n", &name, "link", "set", "lo", "up", "mtu", mtu]);
    let script = program.with_extension("sh");
    let line = format!("exec ip netns exec {name} {} \"$@\"", program.display());
    // A shell writes it: a file that this process has open for writing while another thread starts a program
    // cannot be run (ETXTBSY, execve(2)).
    let write = "printf '#!/bin/sh\\n%s\\n' \"$1\" > \"$0\" && chmod 755 \"$0\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", write]).arg(&script).arg(line);
    assert!(shell.status().expect("sh is there").success());
    let done = std::panic::catch_unwind(|| act(&script));
    assert!(ip(&["netns", "delete", &name]) && is_up && done.is_ok());
}

/// Builds `source` for the kernel's protocols, and with each of `flags` for the library; runs `act`
/// on each.
fn build_and_run(source: &str, flags: &[&[&str]], act: fn(&Path)) {
    let folder = cdylib::build_libraries(&["towpath-c"])
        .display()
        .to_string();
    let name = format!("libtowpath-{source}-{}", std::process::id());
    let scratch = Scratch(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name));
    fs::create_dir_all(&scratch.0).expect("a folder to work in");
    let kernel = scratch.0.join("kernel");
    if build(source, &kernel, &[]).is_none() {
        return;
    }
    act(&kernel);
    let search = format!("-L{folder}");
    let run = format!("-Wl,-rpath,{folder}");
    for (number, flags) in flags.iter().enumerate() {
        let program = scratch.0.join(format!("xtp-{number}"));
        let all = [&["-DXTP", &search, "-ltowpath", &run], *flags].concat();
        build(source, &program, &all).expect("it built before");
        act(&program);
    }
}

/// Runs a program that checks itself.
fn assert_succeeds(program: &Path) {
    let output = Command::new(program).output().expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    let status = output.status;
    assert!(status.success(), "{}: {status} {errors}", program.display());
}

#[test]
fn tcp_echo_program_works_over_xtp() {
    build_and_run("echo.c", &[&[], &["-DV6"]], |program| {
        run_echo_clients(program);
        // Ethernet, and the least of IPv6.
        for mtu in ["1500", "1280"] {
            in_network(program, mtu, run_echo_clients);
        }
    });
}

#[test]
fn udp_program_works_with_dgram_and_rdm() {
    build_and_run("datagrams.c", &[&[], &["-DKIND=SOCK_RDM"]], assert_succeeds);
}

#[test]
fn nonblocking_program_sees_tcp_errors() {
    build_and_run("streams.c", &[&[]], assert_succeeds);
}

#[test]
fn transaction_request_gets_reply() {
    build_and_run("transactions.c", &[&[]], assert_succeeds);
}

/// Builds `source` against the library alone, and calls `act` with the program. Several tests may use one
/// source at a time.
fn build_own(source: &str, act: impl FnOnce(&Path)) {
    static FOLDERS: AtomicU32 = AtomicU32::new(0);
    let folder = cdylib::build_libraries(&["towpath-c"])
        .display()
        .to_string();
    let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
    let name = format!("libtowpath-{source}-{}-{number}", std::process::id());
    let scratch = Scratch(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name));
    fs::create_dir_all(&scratch.0).expect("a folder to work in");
    let program = scratch.0.join("program");
    let (search, run) = (format!("-L{folder}"), format!("-Wl,-rpath,{folder}"));
    if build(source, &program, &[&search, "-ltowpath", &run]).is_some() {
        act(&program);
    }
}

#[test]
fn channel_program_sends_forwards_and_sees_what_is_refused() {
    build_own("channels.c", assert_succeeds);
}

#[test]
fn server_decides_about_its_connections_and_options_change_at_run_time() {
    build_own("supervise.c", assert_succeeds);
}

#[test]
fn group_program_joins_sends_and_receives_and_tags_messages() {
    build_own("groups.c", assert_succeeds);
}

#[test]
fn vmtp_program_calls_forwards_and_probes() {
    build_own("vmtp.c", assert_succeeds);
}
