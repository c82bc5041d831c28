//! Runs trials of our own program as a user would.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The program to run, and a folder for its results.
pub struct TrialRunner {
    program: PathBuf,
    folder: PathBuf,
    runs: u32,
}

/// The parameters of a trial.
#[derive(Clone, Debug)]
pub struct TrialRequest {
    /// The transport.
    pub transport: &'static str,
    /// The workload.
    pub workload: &'static str,
    /// Bytes of a message.
    pub size: u64,
    /// Seconds.
    pub span_s: f64,
    /// More arguments.
    pub more: Vec<String>,
}

impl TrialRequest {
    /// A trial with more arguments.
    pub fn new(
        transport: &'static str,
        workload: &'static str,
        size: u64,
        span_s: f64,
        more: &[&str],
    ) -> TrialRequest {
        TrialRequest {
            transport,
            workload,
            size,
            span_s,
            more: more.iter().map(|&word| word.to_owned()).collect(),
        }
    }
}

impl TrialRunner {
    /// Builds the program in release mode.
    pub fn build(root: &Path) -> Result<TrialRunner, String> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = Command::new(cargo)
            .current_dir(root)
            .args(["build", "--release", "--locked", "--package", "towpath-cli"])
            .status()
            .map_err(|error| format!("cargo does not run: {error}"))?;
        if !status.success() {
            return Err("the program does not build".into());
        }
        let target = crate::target(root);
        Ok(TrialRunner::of(target.join("release/towpath")))
    }

    /// Runs `program`, which is built.
    pub fn of(program: PathBuf) -> TrialRunner {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("towpath-bench-{}-{number}", std::process::id());
        TrialRunner {
            program,
            folder: std::env::temp_dir().join(name),
            runs: 0,
        }
    }

    /// Seconds that the program takes with `words` and a file.
    pub fn seconds_of(&self, words: &[&str], file: &Path) -> Result<f64, String> {
        let began = Instant::now();
        let status = Command::new(&self.program)
            .args(words)
            .arg(file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .map_err(|error| error.to_string())?;
        match status.success() {
            true => Ok(began.elapsed().as_secs_f64()),
            false => Err(format!("{words:?} fails with {}", file.display())),
        }
    }

    /// The program.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// A metric of one trial.
    pub fn metric(&mut self, ask: &TrialRequest, name: &str) -> Result<f64, String> {
        self.begin(ask)?.metric(name)
    }

    /// Starts a race of one trial.
    pub fn begin(&mut self, ask: &TrialRequest) -> Result<RunningTrial, String> {
        let started = self.start(ask, false)?;
        Ok(RunningTrial::new(ask, started))
    }

    /// Starts a race of one trial beside another one, for whose end it would wait otherwise.
    pub fn begin_beside(&mut self, ask: &TrialRequest) -> Result<RunningTrial, String> {
        let started = self.start(ask, true)?;
        Ok(RunningTrial::new(ask, started))
    }

    /// Seconds from the start of the program to its first trial's record.
    pub fn first_trial_s(&mut self, ask: &TrialRequest) -> Result<f64, String> {
        let began = Instant::now();
        let (mut child, out) = self.start(ask, false)?;
        let trials = out.join("trials.jsonl");
        let mut first = None;
        while began.elapsed() < Duration::from_secs(20) {
            if std::fs::metadata(&trials).is_ok_and(|file| file.len() > 0) {
                first = Some(began.elapsed().as_secs_f64());
                break;
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        child.wait().map_err(|error| error.to_string())?;
        let _ = std::fs::remove_dir_all(&out);
        first.ok_or_else(|| "no trial within 20 s".into())
    }

    /// Largest resident memory, MB, of any process of a run.
    pub fn memory_mb(&mut self, ask: &TrialRequest) -> Result<f64, String> {
        let (mut child, out) = self.start(ask, false)?;
        let mut most_kb = 0u64;
        while child
            .try_wait()
            .map_err(|error| error.to_string())?
            .is_none()
        {
            let processes = process_tree(child.id()).into_iter();
            most_kb = processes.filter_map(peak_kb).fold(most_kb, u64::max);
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = std::fs::remove_dir_all(&out);
        Ok(most_kb as f64 / 1000.0)
    }

    fn start(
        &mut self,
        ask: &TrialRequest,
        beside_another: bool,
    ) -> Result<(Child, PathBuf), String> {
        self.runs += 1;
        let out = self.folder.join(self.runs.to_string());
        let mut race = Command::new(&self.program);
        if beside_another {
            race.env("TOWPATH_RACE_LOCK", "none");
        }
        let child = race
            .args([
                "race",
                ask.transport,
                "--workload",
                ask.workload,
                "--blocks",
                "1",
            ])
            .args(["--no-control", "--no-report", "--json", "--seed", "1"])
            .arg("--sizes")
            .arg(ask.size.to_string())
            .arg("--trial")
            .arg(format!("{}ms", ask.span_s * 1000.0))
            .args(&ask.more)
            .arg("--out")
            .arg(&out)
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("{}: {error}", self.program.display()))?;
        Ok((child, out))
    }
}

/// A running race of one trial.
pub struct RunningTrial {
    child: Child,
    out: PathBuf,
    transport: &'static str,
}

impl RunningTrial {
    fn new(ask: &TrialRequest, (child, out): (Child, PathBuf)) -> RunningTrial {
        RunningTrial {
            child,
            out,
            transport: ask.transport,
        }
    }

    /// Its process ID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> Result<bool, String> {
        let ended = self.child.try_wait().map_err(|error| error.to_string())?;
        Ok(ended.is_some())
    }

    /// Kills it if it is still running.
    pub fn end(&mut self) {
        // Both fail only for a process that has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits for its end; gives the trial's record.
    pub fn trial(&mut self) -> Result<Value, String> {
        let status = self.child.wait().map_err(|error| error.to_string())?;
        let trial = last_trial(&self.out)?;
        if !status.success() || trial["status"] != "ok" {
            return Err(format!("{} failed: {}", self.transport, trial["reason"]));
        }
        Ok(trial)
    }

    /// Waits for its end; gives a metric of its trial.
    pub fn metric(&mut self, name: &str) -> Result<f64, String> {
        self.trial()?["metrics"][name]
            .as_f64()
            .ok_or_else(|| format!("{} has no {name}", self.transport))
    }
}

impl Drop for RunningTrial {
    fn drop(&mut self) {
        self.end();
        // A folder left among the temporary ones does no harm.
        let _ = std::fs::remove_dir_all(&self.out);
    }
}

impl Drop for TrialRunner {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn last_trial(folder: &Path) -> Result<Value, String> {
    let path = folder.join("trials.jsonl");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("no trials: {error}"))?;
    let line = text.lines().last().ok_or("no trials")?;
    serde_json::from_str(line).map_err(|error| error.to_string())
}

/// A process and all its descendants.
pub fn process_tree(first: u32) -> Vec<u32> {
    let mut family = vec![first];
    let mut visited = 0;
    while let Some(&parent) = family.get(visited) {
        family.extend(children_of(parent));
        visited += 1;
    }
    family
}

fn children_of(parent: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{parent}/task"));
    let tasks = tasks.into_iter().flatten().flatten();
    let texts = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    texts
        .flat_map(|text| {
            let ids = text.split_whitespace().filter_map(|pid| pid.parse().ok());
            ids.collect::<Vec<u32>>()
        })
        .collect()
}

fn peak_kb(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}
