//! compare OLD NEW: two builds of the program, line by line: what worked yesterday is not slower
//! today.
//!
//! OLD and NEW are folders of release builds (`target/release`), each with the program `towpath` and,
//! if its lines are wanted, the example `xtp_endpoint_bench`. A line is a trial of both builds. On the
//! loopback both run at once in slices of 20 ms ([`super::interleave`]); where stopping a process
//! would change what is measured, one runs after the other in alternating order. Each pair gives a
//! ratio, above 1 if the new build is better. Pairs are added until the 95 % interval of the median
//! ratio lies wholly above or wholly below the bound, or there are 60.

use super::agent::Agent;
use super::bar::{Bar, BenchTarget};
use super::interleave::{self, InterleavedRace};
use super::trial_runner::{TrialRequest, TrialRunner};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// Pairs of a line at least: with fewer than 6 the extremes are no 95 % interval.
const PAIRS_MIN: usize = 9;

/// Pairs of a line at most.
const PAIRS_MAX: usize = 60;

/// A line fails only if its interval lies wholly below this ratio.
const BOUND: f64 = 0.97;

/// Seconds of each trial; an interleaved one is stopped for half of them.
const SPAN_S: f64 = 0.8;

/// How the two builds take turns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turns {
    /// In slices of 20 ms, both alive at once.
    Slices,
    /// One after the other.
    Whole,
}

/// What a line measures.
enum Subject {
    /// A trial of a race: transport, workload, message size, more arguments.
    Race(
        &'static str,
        &'static str,
        u64,
        &'static [&'static str],
        Turns,
    ),
    /// A trial through an agent of the same build: transport and workload.
    Agent(&'static str, &'static str),
    /// The time that the simulator takes for a scenario.
    Scenario(&'static str),
    /// A number that the example `xtp_endpoint_bench` prints, with its arguments.
    Example(&'static [&'static str]),
}

struct Line {
    name: &'static str,
    subject: Subject,
    /// Metric of a trial's record; unused otherwise.
    metric: &'static str,
    lower_is_better: bool,
}

const fn throughput(name: &'static str, transport: &'static str, size: u64) -> Line {
    Line {
        name,
        subject: Subject::Race(
            transport,
            "throughput",
            size,
            &["--pin", "0,1"],
            Turns::Slices,
        ),
        metric: "messages_per_s",
        lower_is_better: false,
    }
}

const fn delay(name: &'static str, transport: &'static str, more: &'static [&'static str]) -> Line {
    Line {
        name,
        subject: Subject::Race(transport, "delay", 64, more, Turns::Slices),
        metric: "delay_p50_us",
        lower_is_better: true,
    }
}

const fn link(name: &'static str, transport: &'static str, link: &'static [&'static str]) -> Line {
    Line {
        name,
        subject: Subject::Race(transport, "throughput", 16 << 10, link, Turns::Whole),
        metric: "messages_per_s",
        lower_is_better: false,
    }
}

const fn agent_throughput(name: &'static str, transport: &'static str) -> Line {
    Line {
        name,
        subject: Subject::Agent(transport, "throughput"),
        metric: "messages_per_s",
        lower_is_better: false,
    }
}

const fn agent_delay(name: &'static str, transport: &'static str) -> Line {
    Line {
        name,
        subject: Subject::Agent(transport, "delay"),
        metric: "delay_p50_us",
        lower_is_better: true,
    }
}

const fn scenario(name: &'static str, file: &'static str) -> Line {
    Line {
        name,
        subject: Subject::Scenario(file),
        metric: "",
        lower_is_better: true,
    }
}

const fn example(name: &'static str, words: &'static [&'static str], lower: bool) -> Line {
    Line {
        name,
        subject: Subject::Example(words),
        metric: "",
        lower_is_better: lower,
    }
}

const LINES: &[Line] = &[
    throughput("harness-tcp-64", "tcp", 64),
    throughput("harness-tcp-16k", "tcp", 16 << 10),
    throughput("harness-udp-1400", "udp-connected", 1400),
    throughput("harness-udp-segmented-1400", "udp-segmented", 1400),
    delay("harness-delay-tcp", "tcp", &["--pin", "0,0"]),
    delay("harness-delay-udp", "udp", &["--pin", "0,0"]),
    throughput("bare-64", "bare", 64),
    throughput("bare-16k", "bare", 16 << 10),
    delay("bare-delay", "bare", &["--pin", "0,0"]),
    throughput("xtp-1", "xtp", 1),
    throughput("xtp-64", "xtp", 64),
    throughput("xtp-1k", "xtp", 1024),
    throughput("xtp-16k", "xtp", 16 << 10),
    throughput("xtp-128k", "xtp", 128 << 10),
    throughput("xtp-message-64", "xtp-message", 64),
    throughput("xtp-message-16k", "xtp-message", 16 << 10),
    throughput("xtp-lent-16k", "xtp-lent", 16 << 10),
    throughput("xtp-checksum-1k", "xtp,checksum=on", 1024),
    throughput("xtp-v36-16k", "xtp,dialect=3.6", 16 << 10),
    throughput("quic-16k", "quic", 16 << 10),
    delay("xtp-delay-1core", "xtp", &["--pin", "0,0"]),
    delay("xtp-delay-busy", "xtp", &["--pin", "0,1", "--busy-poll"]),
    Line {
        name: "xtp-connect",
        subject: Subject::Race("xtp", "connect", 64, &["--pin", "0,1"], Turns::Slices),
        metric: "connection_p50_us",
        lower_is_better: true,
    },
    example("xtp-many", &["many", "1000", "1.0", "0", "1"], false),
    example(
        "xtp-transaction-1core",
        &["transactions", "xtp", "0.7", "0", "0", "sleepy"],
        true,
    ),
    example(
        "xtp-transaction-busy",
        &["transactions", "xtp", "0.7", "0", "1", "busy"],
        true,
    ),
    link("link-xtp", "xtp", &["--link", "rate=200mbit,delay=1ms"]),
    link("link-tcp", "tcp", &["--link", "rate=200mbit,delay=1ms"]),
    link(
        "link-xtp-lossy",
        "xtp,congestion=rate",
        &["--link", "rate=100mbit,delay=2ms,loss=1%"],
    ),
    agent_throughput("agent-tcp", "tcp"),
    agent_throughput("agent-xtp", "xtp"),
    agent_delay("agent-delay-tcp", "tcp"),
    agent_delay("agent-delay-xtp", "xtp"),
    scenario("sim-multicast", "studies/scenarios/multicast.toml"),
    scenario("sim-slotted-group", "studies/scenarios/slotted-group.toml"),
    scenario("sim-two-hosts", "studies/scenarios/two-hosts.toml"),
];

/// A build of the program.
struct Build {
    folder: PathBuf,
    runner: TrialRunner,
    /// Started by the first line that needs it.
    agent: Option<Agent>,
}

impl Build {
    fn new(folder: &Path) -> Result<Build, String> {
        let program = folder.join("towpath");
        if !program.is_file() {
            let folder = folder.display();
            return Err(format!(
                "{folder} holds no program towpath; name a folder such as target/release"
            ));
        }
        Ok(Build {
            folder: folder.to_owned(),
            runner: TrialRunner::of(program),
            agent: None,
        })
    }

    /// A trial through the build's agent, begun.
    fn begin_through_agent(
        &mut self,
        transport: &'static str,
        workload: &'static str,
    ) -> Result<InterleavedRace, String> {
        if self.agent.is_none() {
            self.agent = Some(Agent::start(self.runner.program())?);
        }
        let agent = self.agent.as_ref().ok_or("no agent")?;
        let request = agent.trial_request(transport, workload, SPAN_S);
        Ok(InterleavedRace {
            race: self.runner.begin_beside(&request)?,
            agent_pid: Some(agent.id()),
        })
    }
}

/// Runs the benchmark: `OLD NEW [NAME-PREFIX...]`.
pub fn run(root: &Path, arguments: &[&str]) -> ExitCode {
    let [old, new, wanted @ ..] = arguments else {
        eprintln!(
            "usage: cargo xtask bench compare OLD NEW [NAME...]  (folders of release builds)"
        );
        return ExitCode::from(2);
    };
    let builds = [old, new].map(|folder| Build::new(Path::new(folder)));
    let [old, new] = builds;
    let (mut old, mut new) = match (old, new) {
        (Ok(old), Ok(new)) => (old, new),
        (Err(error), _) | (_, Err(error)) => return crate::fail(&error),
    };
    let mut slower = false;
    for line in LINES {
        let named = wanted.iter().any(|start| line.name.starts_with(start));
        if wanted.is_empty() || named {
            let (bar, is_slower) = compare(root, line, &mut old, &mut new);
            println!("{}", bar.line());
            slower |= is_slower;
        }
    }
    match slower {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}

/// The bar of a line, and whether the new build is slower for certain.
fn compare(root: &Path, line: &Line, old: &mut Build, new: &mut Build) -> (Bar, bool) {
    let mut ratios = Vec::new();
    let mut failure = None;
    while ratios.len() < PAIRS_MAX && failure.is_none() {
        match line.ratio(root, old, new, ratios.len() % 2 == 0) {
            Ok(ratio) => ratios.push(ratio),
            Err(error) => failure = Some(error),
        }
        if ratios.len() >= PAIRS_MIN {
            let (low, high) = interval(&ratios);
            if low > BOUND || high < BOUND {
                break;
            }
        }
    }
    let (low, high) = match ratios.is_empty() {
        true => (f64::NAN, f64::NAN),
        false => interval(&ratios),
    };
    let pairs = ratios.len();
    let note = failure.unwrap_or_else(|| {
        let verdict = match (low > BOUND, high < BOUND) {
            (true, _) => "not slower",
            (_, true) => "slower",
            _ => "undecided",
        };
        format!("{verdict}, {pairs} pairs, 95 % interval {low:.3} to {high:.3}")
    });
    let bar = Bar {
        name: format!("house-{}", line.name),
        value: (pairs > 0).then(|| stats::estimate::median(&ratios)),
        unit: "x",
        target: BenchTarget::AtLeast(BOUND),
        note,
    };
    (bar, high < BOUND)
}

/// A 95 % interval of the median by order statistics: it needs no assumption but independent pairs.
fn interval(ratios: &[f64]) -> (f64, f64) {
    let mut sorted = ratios.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    // The largest k with P(Binomial(n, 1/2) < k) <= 2.5 %; the interval is from the k-th to the
    // k-th from above.
    let (mut below, mut mass, mut k) = (0.0, 0.5_f64.powi(count as i32), 0);
    while below + mass <= 0.025 {
        below += mass;
        mass *= (count - k) as f64 / (k + 1) as f64;
        k += 1;
    }
    let k = k.max(1);
    (sorted[k - 1], sorted[count - k])
}

impl Line {
    /// One pair; above 1 the new build is better.
    fn ratio(
        &self,
        root: &Path,
        old: &mut Build,
        new: &mut Build,
        old_first: bool,
    ) -> Result<f64, String> {
        let (one, other) = match &self.subject {
            Subject::Race(transport, workload, size, more, turns) => {
                let request = TrialRequest {
                    transport,
                    workload,
                    size: *size,
                    span_s: SPAN_S,
                    more: more.iter().map(|&word| word.to_owned()).collect(),
                };
                self.race(&request, *turns, old, new, old_first)?
            }
            Subject::Agent(transport, workload) => {
                let mut sides = [
                    old.begin_through_agent(transport, workload)?,
                    new.begin_through_agent(transport, workload)?,
                ];
                self.in_slices(&mut sides, old_first)?
            }
            Subject::Scenario(file) => {
                let file = root.join(file);
                in_order(old_first, old, new, |build| simulate(build, &file))?
            }
            Subject::Example(words) => {
                in_order(old_first, old, new, |build| run_example(build, words))?
            }
        };
        let ratio = other / one;
        Ok(if self.lower_is_better {
            1.0 / ratio
        } else {
            ratio
        })
    }

    fn race(
        &self,
        request: &TrialRequest,
        turns: Turns,
        old: &mut Build,
        new: &mut Build,
        old_first: bool,
    ) -> Result<(f64, f64), String> {
        if turns == Turns::Whole {
            let measure = |build: &mut Build| build.runner.metric(request, self.metric);
            return in_order(old_first, old, new, measure);
        }
        let begin = |build: &mut Build| -> Result<InterleavedRace, String> {
            Ok(InterleavedRace {
                race: build.runner.begin_beside(request)?,
                agent_pid: None,
            })
        };
        self.in_slices(&mut [begin(old)?, begin(new)?], old_first)
    }

    /// The values of the old build's trial and the new one's, which run in slices.
    fn in_slices(
        &self,
        sides: &mut [InterleavedRace; 2],
        old_first: bool,
    ) -> Result<(f64, f64), String> {
        if !old_first {
            sides.reverse();
        }
        interleave::run(sides)?;
        if !old_first {
            sides.reverse();
        }
        let [old, new] = sides.each_mut().map(|side| side.race.metric(self.metric));
        Ok((old?, new?))
    }
}

/// The old build's value and the new one's, measured in this order.
fn in_order(
    old_first: bool,
    old: &mut Build,
    new: &mut Build,
    mut measure: impl FnMut(&mut Build) -> Result<f64, String>,
) -> Result<(f64, f64), String> {
    if old_first {
        let value = measure(old)?;
        return Ok((value, measure(new)?));
    }
    let value = measure(new)?;
    Ok((measure(old)?, value))
}

/// Seconds for a scenario.
fn simulate(build: &Build, file: &Path) -> Result<f64, String> {
    build.runner.seconds_of(&["sim", "run"], file)
}

/// Names that the example has had.
const EXAMPLES: [&str; 2] = ["xtp_endpoint_bench", "xtp_roles"];

/// The number that the example prints last.
fn run_example(build: &Build, words: &[&str]) -> Result<f64, String> {
    let folder = build.folder.join("examples");
    let program = EXAMPLES.iter().map(|name| folder.join(name));
    let program = program
        .into_iter()
        .find(|path| path.is_file())
        .ok_or_else(|| {
            let folder = folder.display();
            format!(
                "{folder} holds no {}; build it with --examples",
                EXAMPLES[0]
            )
        })?;
    let output = Command::new(&program)
        .args(words)
        .stderr(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let number = text
        .split_whitespace()
        .rev()
        .find_map(|word| word.parse().ok());
    number.ok_or_else(|| format!("{} prints no number", program.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_is_the_one_of_the_sign_test() {
        // Tables of the sign test: with 9 pairs from the second to the second from above, with 20
        // from the sixth to the sixth from above.
        let ratios = |count: usize| (1..=count).map(|i| i as f64).collect::<Vec<f64>>();
        assert_eq!(interval(&ratios(9)), (2.0, 8.0));
        assert_eq!(interval(&ratios(20)), (6.0, 15.0));
    }

    #[test]
    fn line_names_are_unique() {
        let mut names: Vec<&str> = LINES.iter().map(|line| line.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), LINES.len());
    }
}
