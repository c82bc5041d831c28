//! Runs other programs and parses their output.

use serde_json::Value;
use std::net::{TcpListener, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::time::Duration;

/// Time for a server to open its port.
const SERVER_START: Duration = Duration::from_millis(250);

/// Checks that a program is installed; the error says how to install it.
pub fn require_program(program: &str, package: &str) -> Result<(), String> {
    let found = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()));
    if found {
        Ok(())
    } else {
        Err(format!("{program} is absent: apt-get install {package}"))
    }
}

/// iperf3, of the system or built from its source.
pub struct Iperf3 {
    program: PathBuf,
    /// What its client is told besides.
    words: &'static [&'static str],
}

/// The first version of iperf3 that segments and coalesces UDP (`--gsro`).
const GSRO_VERSION: (u32, u32) = (3, 21);

/// Kernel buffers as ours: with the system's own, nine datagrams of ten that it segments are dropped.
const GSRO_WORDS: &[&str] = &["--gsro", "-w", "4M"];

impl Iperf3 {
    /// The installed one.
    ///
    /// # Errors
    ///
    /// Without one, with how to install it.
    pub fn installed() -> Result<Iperf3, String> {
        require_program("iperf3", "iperf3")?;
        Ok(Iperf3 {
            program: "iperf3".into(),
            words: &[],
        })
    }

    /// The one that TOWPATH_IPERF3 names, or the installed one, with segmented UDP.
    ///
    /// # Errors
    ///
    /// When it is older, with where to get one.
    pub fn with_gsro() -> Result<Iperf3, String> {
        let program = std::env::var_os("TOWPATH_IPERF3").unwrap_or_else(|| "iperf3".into());
        let said = Command::new(&program).arg("--version").output();
        let said = said.map_err(|error| format!("{}: {error}", program.display()))?;
        let version = String::from_utf8_lossy(&said.stdout);
        let number = version.split_whitespace().nth(1).unwrap_or_default();
        if version_of(number).is_none_or(|version| version < GSRO_VERSION) {
            return Err(format!(
                "skipped: iperf3 {number} has no --gsro; build 3.21 or later from https://github.com/esnet/iperf and \
                 name its program by TOWPATH_IPERF3"
            ));
        }
        Ok(Iperf3 {
            program: program.into(),
            words: GSRO_WORDS,
        })
    }

    /// Received messages per second.
    ///
    /// # Errors
    ///
    /// When it does not run, or reports no rate.
    pub fn rate(&self, udp: bool, size: u64, span_s: f64) -> Result<f64, String> {
        let port = free_port()?;
        let server = ServerProcess::new(
            Command::new(&self.program)
                .args(["-s", "-1", "-p", &port])
                .stdout(Stdio::null()),
        )?;
        std::thread::sleep(SERVER_START);
        let mut client = Command::new(&self.program);
        client.args(["-c", "127.0.0.1", "-p", &port, "-J", "-A", "0,1"]);
        client.args(["-l", &size.to_string(), "-t", &format!("{}", span_s.ceil())]);
        client.args(match udp {
            true => ["-u", "-b", "0"].as_slice(),
            false => &["-C", "cubic"],
        });
        let output = client.args(self.words).output();
        let output = output.map_err(|error| format!("iperf3: {error}"))?;
        drop(server);
        let report: Value =
            serde_json::from_slice(&output.stdout).map_err(|error| format!("iperf3: {error}"))?;
        received(&report["end"], udp, size)
    }
}

/// Major and minor number of a version such as `3.12` or `3.21+`.
fn version_of(number: &str) -> Option<(u32, u32)> {
    let (major, minor) = number.split_once('.')?;
    let digits = minor.find(|sign: char| !sign.is_ascii_digit());
    let minor = minor.get(..digits.unwrap_or(minor.len()))?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn received(end: &Value, udp: bool, size: u64) -> Result<f64, String> {
    if udp {
        let sum = &end["sum"];
        let (packets, lost, seconds) = (
            sum["packets"].as_f64(),
            sum["lost_packets"].as_f64(),
            sum["seconds"].as_f64(),
        );
        if let (Some(packets), Some(lost), Some(seconds)) = (packets, lost, seconds) {
            return Ok((packets - lost) / seconds);
        }
    }
    let bits = end["sum_received"]["bits_per_second"].as_f64();
    bits.map(|bits| bits / 8.0 / size as f64)
        .ok_or_else(|| format!("iperf3 reported no rate: {end}"))
}

/// Median round-trip time of sockperf's ping-pong, us; sockperf prints half of it.
pub fn sockperf(tcp: bool, size: u64, span_s: f64, cpus: (u32, u32)) -> Result<f64, String> {
    require_program("sockperf", "sockperf")?;
    require_program("taskset", "util-linux")?;
    let port = free_port()?;
    let common = |role: &str| {
        let mut words = vec!["sockperf".to_owned(), role.to_owned()];
        words.extend(["-i", "127.0.0.1", "-p", &port].map(str::to_owned));
        words.extend(tcp.then(|| "--tcp".to_owned()));
        words
    };
    let server = ServerProcess::new(
        Command::new("taskset")
            .args(["-c", &cpus.1.to_string()])
            .args(common("server"))
            .stdout(Stdio::null())
            .stderr(Stdio::null()),
    )?;
    std::thread::sleep(SERVER_START);
    let output = Command::new("taskset")
        .args(["-c", &cpus.0.to_string()])
        .args(common("ping-pong"))
        .args(["-m", &size.to_string(), "-t", &format!("{}", span_s.ceil())])
        .output()
        .map_err(|error| format!("sockperf: {error}"))?;
    drop(server);
    let text = String::from_utf8_lossy(&output.stdout);
    let half = text.lines().find_map(|line| {
        line.split_once("percentile 50.000 =")?
            .1
            .trim()
            .parse::<f64>()
            .ok()
    });
    half.map(|us| us * 2.0)
        .ok_or_else(|| "sockperf reported no median".into())
}

/// A server process that is killed on drop.
pub(super) struct ServerProcess(Child);

impl ServerProcess {
    pub(super) fn new(command: &mut Command) -> Result<ServerProcess, String> {
        let child = command.stdin(Stdio::null()).spawn();
        child.map(ServerProcess).map_err(|error| error.to_string())
    }

    /// Its output, once, if it is piped.
    pub(super) fn stdout(&mut self) -> Option<ChildStdout> {
        self.0.stdout.take()
    }

    /// What it says, once, if it is piped.
    pub(super) fn stderr(&mut self) -> Option<ChildStderr> {
        self.0.stderr.take()
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // A process that has exited is only reaped.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A port that is currently unused in TCP and UDP.
fn free_port() -> Result<String, String> {
    for _ in 0..20 {
        let tcp = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
        let port = tcp.local_addr().map_err(|error| error.to_string())?.port();
        if UdpSocket::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port.to_string());
        }
    }
    Err("no free port".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(version_of("3.12"), Some((3, 12)));
        assert_eq!(version_of("3.21+"), Some((3, 21)));
        assert!(version_of("3.9") < version_of("3.21") && version_of("4.0.1") > version_of("3.21"));
        assert_eq!(version_of("iperf3"), None);
    }
}
