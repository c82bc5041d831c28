//! A race of the built program, and what its folder says.

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// A folder of this benchmark among the temporary ones, removed on drop.
pub struct WorkFolder(PathBuf);

impl WorkFolder {
    /// A new one.
    ///
    /// # Errors
    ///
    /// When it cannot be made.
    pub fn new() -> Result<WorkFolder, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("towpath-bench-verdict-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        Ok(WorkFolder(folder))
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        // A folder left among the temporary ones does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Parts of a summary that hold verdicts, and the number of blocks that they took.
const VERDICTS: [&str; 4] = ["verdicts", "overall", "control", "blocks"];

/// A finished race.
pub struct RaceResult {
    /// Its summary.
    pub summary: Value,
    /// Its trials.
    pub trials: Vec<Value>,
    /// Seconds of the whole command.
    pub took_s: f64,
}

impl RaceResult {
    /// Races as a user would.
    ///
    /// # Errors
    ///
    /// When the race fails.
    pub fn of(program: &Path, words: &[&str]) -> Result<RaceResult, String> {
        let folder = WorkFolder::new()?;
        let out = folder.path("run");
        let began = Instant::now();
        let output = Command::new(program)
            .arg("race")
            .args(words)
            .args(["--json", "--no-report", "--out"])
            .arg(&out)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let took_s = began.elapsed().as_secs_f64();
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(said.trim().to_owned());
        }
        let text = std::fs::read_to_string(out.join("trials.jsonl"));
        let text = text.map_err(|error| format!("no trials: {error}"))?;
        let trials: Result<Vec<Value>, _> = text.lines().map(serde_json::from_str).collect();
        Ok(RaceResult {
            summary: serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?,
            trials: trials.map_err(|error| error.to_string())?,
            took_s,
        })
    }

    /// What is recorded of it: its seconds and its verdicts, without trials.
    pub fn to_value(&self) -> Value {
        let part = |name: &str| (name.to_owned(), self.summary[name].clone());
        let summary: Value = VERDICTS.iter().copied().map(part).collect();
        json!({ "took_s": self.took_s, "summary": summary })
    }

    /// The race of [`RaceResult::to_value`].
    pub fn of_value(value: &Value) -> Option<RaceResult> {
        Some(RaceResult {
            summary: value.get("summary")?.clone(),
            trials: Vec::new(),
            took_s: value["took_s"].as_f64()?,
        })
    }

    /// The verdicts of a part of the summary: `verdicts`, `overall`, `control`.
    pub fn verdicts(&self, part: &str) -> &[Value] {
        self.summary[part].as_array().map_or(&[], Vec::as_slice)
    }

    /// The trials of blocks, without pilots.
    pub fn of_blocks(&self) -> impl Iterator<Item = &Value> {
        let blocks = |trial: &&Value| trial["block"].as_u64().unwrap_or(0) > 0;
        self.trials.iter().filter(blocks)
    }
}

/// The log ratio of two trials of a block as a race judges it: of typical rounds where both took turns, else of the values of
/// `metric`.
pub fn log_ratio(ours: &Value, theirs: &Value, metric: &str) -> Option<f64> {
    let turns = |trial: &Value| -> Option<Vec<f64>> {
        let values = trial["series"]["turns"]["values"].as_array()?;
        values.iter().map(Value::as_f64).collect()
    };
    if let (Some(ours), Some(theirs)) = (turns(ours), turns(theirs)) {
        return stats::rounds::typical_log_ratio(&ours, &[&theirs]);
    }
    let value = |trial: &Value| trial["metrics"][metric].as_f64();
    Some(value(ours)?.ln() - value(theirs)?.ln())
}
