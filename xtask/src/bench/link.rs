//! link: the emulated link against a minimal relay, and against a kernel link.
//!
//! The relay is `taprelay.c` of the folder named by TOWPATH_YARDSTICKS: two threads that copy
//! frames between two TAP devices. One TCP connection of iperf3 runs over ours and the relay in
//! turn; the ratio within each pair is compared with the target. The added round-trip time is that
//! of a race over an emulated link without delay, less that over a kernel link. Needs root.

use super::bar::{Bar, BenchTarget};
use super::peers::require_program;
use super::suite::Suite;
use super::trial_runner::{TrialRequest, TrialRunner};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

/// Pairs of each comparison.
const PAIRS: usize = 5;

/// Seconds of each run.
const SPAN_S: u32 = 3;

/// Time for a server to open its port, and for a relay to open its devices.
const STARTUP_TIME: Duration = Duration::from_millis(400);

/// The address of the receiving host: in the testbed, and behind the relay.
const TESTBED_ADDRESS: &str = "10.77.0.2";
const RELAY_ADDRESS: &str = "10.8.0.2";

/// Namespaces that the relay expects.
const NAMESPACES: [&str; 2] = ["px_a", "px_b"];

/// Runs the benchmark; `arguments` may select bars by prefix.
pub fn run(root: &Path, arguments: &[&str]) -> ExitCode {
    Suite::run(root, arguments, |suite| {
        for (name, link, relay, (floor, goal)) in [
            ("link-frames", "true", &["-2"][..], (0.6, 0.8)),
            ("link-super", "super", &["-2", "-o"], (0.7, 0.9)),
        ] {
            let target = BenchTarget::at_least(floor, goal);
            suite.bar(name, |ours| {
                against_relay(ours, name, (link, relay), target)
            });
        }
        suite.bar("link-rtt", added_round_trip);
    })
}

/// Throughput over our link relative to the relay.
fn against_relay(
    ours: &TrialRunner,
    name: &str,
    (link, relay): (&str, &[&str]),
    target: BenchTarget,
) -> Bar {
    let mut pairs = Vec::new();
    let mut failure = String::new();
    for round in 0..PAIRS {
        match pair(ours, link, relay, round % 2 == 0) {
            Ok(pair) => pairs.push(pair),
            Err(error) => failure = error,
        }
    }
    let ratios: Vec<f64> = pairs.iter().map(|(ours, theirs)| ours / theirs).collect();
    let median = |of: fn(&(f64, f64)) -> f64| {
        let values: Vec<f64> = pairs.iter().map(of).collect();
        stats::estimate::median(&values) / 1e9
    };
    Bar {
        name: name.into(),
        value: (!ratios.is_empty()).then(|| stats::estimate::median(&ratios)),
        unit: "x",
        target,
        note: if pairs.is_empty() {
            failure
        } else {
            format!(
                "{} pairs, one TCP connection; medians: ours {:.2} Gbit/s, the relay {:.2}",
                pairs.len(),
                median(|pair| pair.0),
                median(|pair| pair.1)
            )
        },
    }
}

fn pair(
    ours: &TrialRunner,
    link: &str,
    relay: &[&str],
    ours_first: bool,
) -> Result<(f64, f64), String> {
    if ours_first {
        let first = over_ours(ours, link)?;
        return Ok((first, over_relay(relay)?));
    }
    let second = over_relay(relay)?;
    Ok((over_ours(ours, link)?, second))
}

/// Bits per second of iperf3 over our testbed.
fn over_ours(ours: &TrialRunner, link: &str) -> Result<f64, String> {
    let name = format!("bench-{}", std::process::id());
    let testbed = |arguments: &[&str]| {
        let mut command = Command::new(ours.program());
        command
            .arg("testbed")
            .args(arguments)
            .args(["--name", &name]);
        command
    };
    run_checked(testbed(&["up", "--link", link]).stdout(Stdio::null()))?;
    let result = iperf3(TESTBED_ADDRESS, |host| {
        let mut command = Command::new(ours.program());
        let host = if host == 0 { "a" } else { "b" };
        command.args(["testbed", "exec", "--name", &name, host, "--", "iperf3"]);
        command
    });
    run_checked(&mut testbed(&["down"]))?;
    result
}

/// Bits per second of iperf3 over the relay, in its own namespaces.
fn over_relay(arguments: &[&str]) -> Result<f64, String> {
    require_program("ip", "iproute2")?;
    let program = build_relay()?;
    let spaces = RelayNamespaces::make()?;
    let relay = Command::new(&program)
        .args(arguments)
        .args(["-t", &(SPAN_S + 3).to_string()])
        .stdout(Stdio::null())
        .spawn();
    let relay = KillOnDrop(relay.map_err(|error| format!("taprelay: {error}"))?);
    std::thread::sleep(STARTUP_TIME);
    let result = iperf3(RELAY_ADDRESS, |host| {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", NAMESPACES[host], "iperf3"]);
        command
    });
    drop(relay);
    drop(spaces);
    // A program left in the temporary folder does no harm.
    let _ = std::fs::remove_file(program);
    result
}

fn build_relay() -> Result<PathBuf, String> {
    let folder = std::env::var_os("TOWPATH_YARDSTICKS")
        .ok_or("taprelay is absent: set TOWPATH_YARDSTICKS to the folder that holds taprelay.c")?;
    let program = std::env::temp_dir().join(format!("towpath-taprelay-{}", std::process::id()));
    let mut compiler = Command::new("cc");
    compiler
        .args(["-O2", "-march=native", "-w", "-o"])
        .arg(&program);
    compiler.arg(Path::new(&folder).join("taprelay.c"));
    run_checked(compiler.arg("-lpthread"))?;
    Ok(program)
}

/// The relay's namespaces, deleted on drop. Existing namespaces of these names are an error, and
/// are left alone.
struct RelayNamespaces;

impl RelayNamespaces {
    fn make() -> Result<RelayNamespaces, String> {
        run_checked(Command::new("ip").args(["netns", "add", NAMESPACES[0]]))?;
        let spaces = RelayNamespaces;
        run_checked(Command::new("ip").args(["netns", "add", NAMESPACES[1]]))?;
        Ok(spaces)
    }
}

impl Drop for RelayNamespaces {
    fn drop(&mut self) {
        for space in NAMESPACES {
            // A namespace that was not created cannot be removed.
            let _ = Command::new("ip")
                .args(["netns", "del", space])
                .stderr(Stdio::null())
                .status();
        }
    }
}

/// Received bits per second of one connection from host 0 to host 1.
fn iperf3(address: &str, on: impl Fn(usize) -> Command) -> Result<f64, String> {
    require_program("iperf3", "iperf3")?;
    let mut server = on(1);
    server.args(["-s", "-1"]).stdout(Stdio::null());
    let server = KillOnDrop(server.spawn().map_err(|error| format!("iperf3: {error}"))?);
    std::thread::sleep(STARTUP_TIME);
    let mut client = on(0);
    client.args([
        "-c",
        address,
        "-J",
        "-C",
        "cubic",
        "-t",
        &SPAN_S.to_string(),
    ]);
    let output = client
        .output()
        .map_err(|error| format!("iperf3: {error}"))?;
    drop(server);
    let report: Value =
        serde_json::from_slice(&output.stdout).map_err(|error| format!("iperf3: {error}"))?;
    let bits = report["end"]["sum_received"]["bits_per_second"].as_f64();
    bits.ok_or_else(|| format!("iperf3 reported no rate: {}", report["error"]))
}

/// A process that is killed on drop.
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        // A process that has exited is only reaped.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn run_checked(command: &mut Command) -> Result<(), String> {
    let what = format!("{:?}", command.get_program());
    let status = command.status();
    match status.map_err(|error| format!("{what}: {error}"))? {
        status if status.success() => Ok(()),
        status => Err(format!("{what}: {status}")),
    }
}

/// Round-trip time added by an emulated link without delay, us.
fn added_round_trip(ours: &mut TrialRunner) -> Bar {
    let mut added = Vec::new();
    let mut all = [Vec::new(), Vec::new()];
    let mut failure = String::new();
    for round in 0..PAIRS {
        let mut order = [("true", 0), ("kernel", 1)];
        if round % 2 == 1 {
            order.reverse();
        }
        let mut values = [0.0; 2];
        let measured = order.iter().try_for_each(|&(link, at)| {
            values[at] = ours.metric(&round_trip(link), "delay_p50_us")?;
            Ok(())
        });
        match measured {
            Ok(()) => {
                added.push(values[0] - values[1]);
                all[0].push(values[0]);
                all[1].push(values[1]);
            }
            Err(error) => failure = error,
        }
    }
    let known = !added.is_empty();
    Bar {
        name: "link-rtt".into(),
        value: known.then(|| stats::estimate::median(&added)),
        unit: "us",
        target: BenchTarget::at_most(40.0, 25.0),
        note: if known {
            format!(
                "{} pairs, UDP 64 B, median round trips: emulated {:.1} us, kernel {:.1} us",
                added.len(),
                stats::estimate::median(&all[0]),
                stats::estimate::median(&all[1])
            )
        } else {
            failure
        },
    }
}

fn round_trip(link: &str) -> TrialRequest {
    let more = ["--link", link, "--no-calibration", "--pin", "0,1"];
    TrialRequest {
        transport: "udp",
        workload: "delay",
        size: 64,
        span_s: 1.0,
        more: more.map(str::to_owned).to_vec(),
    }
}
