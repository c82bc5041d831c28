//! agent: a race through an agent on the loopback against the same race without one, and what an
//! agent costs that nobody uses.
//!
//! Both races run the same workers with the same options on the same processors, in turn; each pair
//! gives a ratio, and the median of the ratios counts. The congestion control is what any user may
//! set, since the agent has given up other rights.

use super::bar::{Bar, Target};
use super::ours::{Ask, Ours};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

/// Pairs of each comparison: many short ones, since a machine has phases.
const PAIRS: usize = 13;

/// Seconds of each trial.
const SPAN_S: f64 = 0.35;

/// How long an agent is left alone before it is looked at.
const IDLE: Duration = Duration::from_secs(2);

/// Runs the benchmark; `arguments` may name the bars wanted, or what their names begin with.
pub fn run(root: &Path, arguments: &[&str]) -> ExitCode {
    let mut ours = match Ours::build(root) {
        Ok(ours) => ours,
        Err(error) => return crate::fail(&error),
    };
    let agent = match Agent::start(ours.program()) {
        Ok(agent) => agent,
        Err(error) => return crate::fail(&error),
    };
    let wanted =
        |name: &str| arguments.is_empty() || arguments.iter().any(|start| name.starts_with(start));
    let mut bars = Vec::new();
    if wanted("agent-idle") {
        bars.push(idle(&agent));
    }
    for transport in ["tcp", "udp", "xtp"] {
        for (workload, metric) in [("throughput", "messages_per_s"), ("delay", "delay_p50_us")] {
            if wanted(&format!("agent-local-{transport}-{workload}")) {
                bars.push(local(&mut ours, &agent, transport, workload, metric));
            }
        }
    }
    for bar in &bars {
        println!("{}", bar.line());
    }
    if bars.iter().all(Bar::is_above_floor) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// How a transport does through the agent, as a part of how it does without.
fn local(
    ours: &mut Ours,
    agent: &Agent,
    transport: &'static str,
    workload: &'static str,
    metric: &str,
) -> Bar {
    let mut ratios = Vec::new();
    let mut failed = None;
    for round in 0..PAIRS {
        match pair(ours, agent, transport, workload, metric, round % 2 == 0) {
            // Less delay is better, more messages are.
            Ok((near, far)) if workload == "delay" => ratios.push(near / far),
            Ok((near, far)) => ratios.push(far / near),
            Err(error) => failed = Some(error),
        }
    }
    let bound = |of: fn(f64, f64) -> f64| ratios.iter().copied().reduce(of).unwrap_or(0.0);
    let (least, most) = (bound(f64::min), bound(f64::max));
    let note = failed.unwrap_or_else(|| format!("{} pairs, {least:.3} to {most:.3}", ratios.len()));
    Bar {
        name: format!("agent-local-{transport}-{workload}"),
        value: (!ratios.is_empty()).then(|| stats::estimate::median(&ratios)),
        unit: "x",
        target: Target::Goal {
            floor: 0.97,
            goal: 0.99,
        },
        note,
    }
}

/// Without the agent, and through it.
fn pair(
    ours: &mut Ours,
    agent: &Agent,
    transport: &'static str,
    workload: &'static str,
    metric: &str,
    near_first: bool,
) -> Result<(f64, f64), String> {
    let ask = |more: &[&str]| Ask {
        transport,
        workload,
        size: 1024,
        span_s: SPAN_S,
        more: more.iter().map(|word| (*word).to_owned()).collect(),
    };
    let congestion = usual_congestion();
    let near = ask(&["--congestion", &congestion]);
    let far = ask(&["--congestion", &congestion, "--to", &agent.address]);
    if near_first {
        let first = ours.metric(&near, metric)?;
        return Ok((first, ours.metric(&far, metric)?));
    }
    let first = ours.metric(&far, metric)?;
    Ok((ours.metric(&near, metric)?, first))
}

/// What this system uses itself, which anybody may set.
fn usual_congestion() -> String {
    let path = "/proc/sys/net/ipv4/tcp_congestion_control";
    std::fs::read_to_string(path)
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// Memory of an agent that waits.
fn idle(agent: &Agent) -> Bar {
    std::thread::sleep(IDLE);
    let status = format!("/proc/{}/status", agent.child.id());
    let text = std::fs::read_to_string(status).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kb = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok());
    Bar {
        name: "agent-idle".into(),
        value: kb.map(|kb| kb * 1024.0 / 1e6),
        unit: "MB",
        target: Target::Most {
            floor: 20.0,
            goal: 10.0,
        },
        note: "resident memory of an agent without a client".into(),
    }
}

/// An agent on the loopback, without keys.
struct Agent {
    child: Child,
    address: String,
}

impl Agent {
    fn start(program: &Path) -> Result<Agent, String> {
        let none = std::env::temp_dir().join(format!("towpath-bench-keys-{}", std::process::id()));
        let mut child = Command::new(program)
            .env("TOWPATH_KEYS", none)
            .args(["agent", "--listen", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let mut line = String::new();
        if let Some(out) = child.stdout.take() {
            BufReader::new(out)
                .read_line(&mut line)
                .map_err(|error| error.to_string())?;
        }
        let address = line
            .trim()
            .strip_prefix("listening on ")
            .unwrap_or_default()
            .to_owned();
        let agent = Agent { child, address };
        if agent.address.is_empty() {
            return Err("the agent does not start".into());
        }
        Ok(agent)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It has no client now, so nothing is cut off.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
