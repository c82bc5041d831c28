//! agent: a race through an agent on the loopback against the same race without one, and the memory
//! of an idle agent.
//!
//! Both races run the same workers with the same options on the same CPUs, interleaved in slices of
//! a few milliseconds; each pair gives a ratio, and the result is the median ratio. A control, two
//! races without an agent, shows the precision. The congestion control is the system's default,
//! because the agent has dropped its privileges.

use super::bar::{Bar, BenchTarget};
use super::interleave::{self, InterleavedRace};
use super::trial_runner::{TrialRequest, TrialRunner};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

/// Pairs of each comparison.
const PAIRS: usize = 25;

/// Seconds of each trial, for half of which it is stopped.
const SPAN_S: f64 = 1.0;

/// Compared workloads and their metrics.
const WORKLOADS: [(&str, &str); 2] = [("throughput", "messages_per_s"), ("delay", "delay_p50_us")];

/// Idle time of an agent before its memory is read.
const IDLE_TIME: Duration = Duration::from_secs(2);

/// Runs the benchmark; `arguments` may select bars by name or prefix.
pub fn run(root: &Path, arguments: &[&str]) -> ExitCode {
    let mut ours = match TrialRunner::build(root) {
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
        bars.push(print_bar(idle(&agent)));
    }
    for transport in ["tcp", "udp", "xtp"] {
        for (workload, metric) in WORKLOADS {
            let what = AgentComparison {
                transport,
                workload,
                metric,
            };
            if wanted(&format!("agent-control-{transport}-{workload}")) {
                control(&what, &mut ours);
            }
            if wanted(&format!("agent-local-{transport}-{workload}")) {
                bars.push(print_bar(local(&what, &mut ours, &agent)));
            }
        }
    }
    if bars.iter().all(Bar::is_above_floor) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn print_bar(bar: Bar) -> Bar {
    println!("{}", bar.line());
    bar
}

/// A comparison of one transport and workload.
struct AgentComparison {
    transport: &'static str,
    workload: &'static str,
    metric: &'static str,
}

/// A transport's result through the agent, relative to the result without.
fn local(what: &AgentComparison, ours: &mut TrialRunner, agent: &Agent) -> Bar {
    let ratios = what.ratios(ours, Some(agent));
    Bar {
        name: format!("agent-local-{}-{}", what.transport, what.workload),
        value: ratios.as_deref().ok().map(stats::estimate::median),
        unit: "x",
        target: BenchTarget::at_least(0.97, 0.99),
        note: ratios.map_or_else(|error| error, |ratios| spread(&ratios)),
    }
}

/// The ratio of two races without an agent, expected to be 1.
fn control(what: &AgentComparison, ours: &mut TrialRunner) {
    let name = format!("agent-control-{}-{}", what.transport, what.workload);
    match what.ratios(ours, None) {
        Ok(ratios) => {
            let median = stats::estimate::median(&ratios);
            println!("ROW {name} {median:.3} x  # {}", spread(&ratios));
        }
        Err(error) => println!("ROW {name} none  # {error}"),
    }
}

fn spread(ratios: &[f64]) -> String {
    let [low, middle, high] = stats::estimate::quartiles(ratios);
    let least = ratios.iter().copied().fold(middle, f64::min);
    let most = ratios.iter().copied().fold(middle, f64::max);
    let pairs = ratios.len();
    format!("{pairs} pairs, {least:.3} to {most:.3}, half of them {low:.3} to {high:.3}")
}

impl AgentComparison {
    /// One ratio per pair; above 1 the race through the agent is faster.
    fn ratios(&self, ours: &mut TrialRunner, agent: Option<&Agent>) -> Result<Vec<f64>, String> {
        (0..PAIRS)
            .map(|round| self.ratio(ours, agent, round % 2 == 0))
            .collect()
    }

    fn ratio(
        &self,
        ours: &mut TrialRunner,
        agent: Option<&Agent>,
        first: bool,
    ) -> Result<f64, String> {
        let near = InterleavedRace {
            race: ours.begin_beside(&self.trial_request(None))?,
            agent_pid: None,
        };
        let far = InterleavedRace {
            race: ours.begin_beside(&self.trial_request(agent))?,
            agent_pid: agent.map(|agent| agent.child.id()),
        };
        let mut sides = if first { [near, far] } else { [far, near] };
        interleave::run(&mut sides)?;
        let [one, other] = sides.each_mut().map(|side| side.race.metric(self.metric));
        let (one, other) = (one?, other?);
        let ratio = if first { other / one } else { one / other };
        // For delay, lower is better.
        let less_is_better = self.workload == "delay";
        Ok(if less_is_better { 1.0 / ratio } else { ratio })
    }

    fn trial_request(&self, agent: Option<&Agent>) -> TrialRequest {
        let mut more = vec!["--congestion".to_owned(), system_congestion()];
        more.extend(agent.into_iter().flat_map(Agent::as_destination));
        TrialRequest {
            transport: self.transport,
            workload: self.workload,
            size: 1024,
            span_s: SPAN_S,
            more,
        }
    }
}

impl Agent {
    /// A trial through this agent.
    pub fn trial_request(
        &self,
        transport: &'static str,
        workload: &'static str,
        span_s: f64,
    ) -> TrialRequest {
        let what = AgentComparison {
            transport,
            workload,
            metric: "",
        };
        TrialRequest {
            span_s,
            ..what.trial_request(Some(self))
        }
    }

    fn as_destination(&self) -> [String; 2] {
        ["--to".to_owned(), self.address.clone()]
    }
}

/// The system's default congestion control, which needs no privilege.
fn system_congestion() -> String {
    let path = "/proc/sys/net/ipv4/tcp_congestion_control";
    std::fs::read_to_string(path)
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// Memory of an idle agent.
fn idle(agent: &Agent) -> Bar {
    std::thread::sleep(IDLE_TIME);
    let status = format!("/proc/{}/status", agent.child.id());
    let text = std::fs::read_to_string(status).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kb = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok());
    Bar {
        name: "agent-idle".into(),
        value: kb.map(|kb| kb * 1024.0 / 1e6),
        unit: "MB",
        target: BenchTarget::at_most(20.0, 10.0),
        note: "resident memory of an agent without a client".into(),
    }
}

/// An agent on the loopback, without keys.
pub struct Agent {
    child: Child,
    address: String,
}

impl Agent {
    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Starts the agent of `program`.
    ///
    /// # Errors
    ///
    /// When it does not start.
    pub fn start(program: &Path) -> Result<Agent, String> {
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
        // No client is connected any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
