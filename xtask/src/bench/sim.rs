//! sim: speed and scaling of the simulator, and ns-3 for comparison.
//!
//! Each run is a separate process, `towpath sim run` as a user would call it; its time is that of
//! the whole process.

mod ns3;
mod scenarios;

use super::bar::{Bar, BenchTarget};
use super::trial_runner::TrialRunner;
use scenarios as text;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// Measurements of each value; the median is used.
const ROUNDS: usize = 5;

/// Measures one bar.
type Measure = fn(&SimBench) -> Bar;

/// Runs the benchmark; `arguments` may select bars by prefix.
pub fn run(root: &Path, arguments: &[&str]) -> ExitCode {
    let bench = match SimBench::build(root) {
        Ok(bench) => bench,
        Err(error) => return crate::fail(&error),
    };
    let all: [(&str, Measure); 6] = [
        ("sim-events", events),
        ("sim-xtp", xtp),
        ("sim-ns3", ns3),
        ("sim-scale", scale),
        ("sim-memory", memory),
        ("sim-jobs", jobs),
    ];
    let wanted =
        |name: &str| arguments.is_empty() || arguments.iter().any(|start| name.starts_with(start));
    let mut below = false;
    for (_, measure) in all.iter().filter(|(name, _)| wanted(name)) {
        let bar = measure(&bench);
        println!("{}", bar.line());
        below |= !bar.is_above_floor();
    }
    match below {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}

/// The program, and a folder for scenarios.
struct SimBench {
    root: PathBuf,
    ours: TrialRunner,
    folder: PathBuf,
}

/// One run.
struct SimRun {
    outcome: Value,
    wall_s: f64,
    /// Resident memory, the median of samples every millisecond.
    resident_kb: f64,
}

impl SimBench {
    fn build(root: &Path) -> Result<SimBench, String> {
        let ours = TrialRunner::build(root)?;
        let folder = std::env::temp_dir().join(format!("towpath-sim-{}", std::process::id()));
        std::fs::create_dir_all(&folder)
            .map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        Ok(SimBench {
            root: root.to_owned(),
            ours,
            folder,
        })
    }

    fn write(&self, text: &str) -> Result<PathBuf, String> {
        let path = self.folder.join("scenario.toml");
        std::fs::write(&path, text).map_err(|error| error.to_string())?;
        Ok(path)
    }

    /// A run of a scenario.
    fn run(&self, text: &str) -> Result<SimRun, String> {
        let path = self.write(text)?;
        let out = self.folder.join("outcome.json");
        let file = std::fs::File::create(&out).map_err(|error| error.to_string())?;
        let began = Instant::now();
        let mut child = Command::new(self.ours.program())
            .args(["sim", "run", "--json"])
            .arg(&path)
            .stdout(file)
            .spawn()
            .map_err(|error| format!("{}: {error}", self.ours.program().display()))?;
        let mut samples = Vec::new();
        let status = loop {
            samples.extend(resident(child.id()));
            if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
                break status;
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        let wall_s = began.elapsed().as_secs_f64();
        let outcome = std::fs::read_to_string(&out).map_err(|error| error.to_string())?;
        if !status.success() {
            return Err("the simulator refuses the scenario".to_owned());
        }
        let outcome = serde_json::from_str(&outcome).map_err(|error| error.to_string())?;
        Ok(SimRun {
            outcome,
            wall_s,
            resident_kb: stats::estimate::median(&samples),
        })
    }

    /// Seconds of a sweep over eight seeds.
    fn sweep_s(&self, text: &str, jobs: &str) -> Result<f64, String> {
        let path = self.write(text)?;
        let words = ["sim", "sweep", "--seeds", "1..8", "--jobs", jobs];
        self.ours.seconds_of(&words, &path)
    }
}

impl Drop for SimBench {
    fn drop(&mut self) {
        // A folder left among the temporary ones does no harm.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn resident(pid: u32) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// The median of [`ROUNDS`] measurements, or the first error.
fn median_of_rounds(
    name: &str,
    unit: &'static str,
    target: BenchTarget,
    what: &str,
    mut measure: impl FnMut() -> Result<f64, String>,
) -> Bar {
    let values: Result<Vec<f64>, String> = (0..ROUNDS).map(|_| measure()).collect();
    let figure = values.map(|values| {
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(0.0, f64::max);
        let note = format!("{what}; {ROUNDS} rounds, {least:.3} to {most:.3}");
        (stats::estimate::median(&values), note)
    });
    Bar::of_figure(name, figure, unit, target)
}

fn number(outcome: &Value, path: &str) -> Result<f64, String> {
    let value = outcome.pointer(path).and_then(Value::as_f64);
    value.ok_or_else(|| format!("the outcome has no {path}"))
}

fn events(bench: &SimBench) -> Bar {
    let target = BenchTarget::at_least(3.0, 5.0);
    let what = "a saturated Ethernet, 20 stations with bare";
    median_of_rounds("sim-events", "M/s", target, what, || {
        let ran = bench.run(&text::saturated(20, 200_000))?;
        Ok(number(&ran.outcome, "/events")? / ran.wall_s / 1e6)
    })
}

fn xtp(bench: &SimBench) -> Bar {
    let target = BenchTarget::at_least(0.5, 1.0);
    let what = "XTP packets of 1500 octets and their ACKs over a link of 1 Gbit/s";
    median_of_rounds("sim-xtp", "M/s", target, what, || {
        let ran = bench.run(&text::bulk_xtp(20_000))?;
        let packets: Result<Vec<f64>, String> = (0..2)
            .map(|station| number(&ran.outcome, &format!("/stations/{station}/packets_built")))
            .collect();
        Ok(packets?.iter().sum::<f64>() / ran.wall_s / 1e6)
    })
}

fn ns3(bench: &SimBench) -> Bar {
    let target = BenchTarget::at_least(5.0, 10.0);
    let peer = match ns3::Ns3::build(&bench.root) {
        Ok(peer) => peer,
        Err(error) => {
            eprintln!("SKIPPED: sim-ns3: {error}");
            return Bar {
                name: "sim-ns3".to_owned(),
                value: None,
                unit: "x",
                target,
                note: error,
            };
        }
    };
    let mut profile = String::new();
    let mut both = (0.0, 0.0);
    let mut bar = median_of_rounds("sim-ns3", "x", target, "", || {
        let theirs = peer.run(&text::LOAD)?;
        let ran = bench.run(&text::poisson(&text::LOAD))?;
        let ours = number(&ran.outcome, "/ether/sent")? / ran.wall_s;
        profile.clone_from(&theirs.profile);
        both = (ours, theirs.packets_per_s);
        Ok(ours / theirs.packets_per_s)
    });
    bar.note = format!(
        "{} packets and replies carried per second of wall time, bare against UDP, the last \
         round: ours {:.0}, ns-3 {:.0}; ns-3's build profile: {profile}{}",
        text::LOAD.description(),
        both.0,
        both.1,
        bar.note
    );
    bar
}

fn scale(bench: &SimBench) -> Bar {
    let target = BenchTarget::at_most(3.0, 2.0);
    let what = "time per event, 1,000 saturated stations against 2";
    median_of_rounds("sim-scale", "x", target, what, || {
        let mut each = [0.0; 2];
        for (slot, stations) in [2, 1000].into_iter().enumerate() {
            let ran = bench.run(&text::saturated(stations, 100_000))?;
            each[slot] = ran.wall_s / number(&ran.outcome, "/events")?;
        }
        Ok(each[1] / each[0])
    })
}

fn memory(bench: &SimBench) -> Bar {
    let target = BenchTarget::at_most(2.2, 1.5);
    let what = "resident memory per station, from 10,000 and 1,000 XTP stations";
    median_of_rounds("sim-memory", "kB", target, what, || {
        let many = bench.run(&text::idle(10_000))?.resident_kb;
        let few = bench.run(&text::idle(1_000))?.resident_kb;
        Ok((many - few) * 1.024 / 9_000.0)
    })
}

fn jobs(bench: &SimBench) -> Bar {
    let target = BenchTarget::at_least(1.8, 1.9);
    let what = "speed-up of a sweep of eight seeds with two jobs against one";
    let scenario = text::saturated(20, 50_000);
    median_of_rounds("sim-jobs", "x", target, what, || {
        let one = bench.sweep_s(&scenario, "1")?;
        Ok(one / bench.sweep_s(&scenario, "2")?)
    })
}
