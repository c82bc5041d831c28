//! What races measured, kept in a file, so that a hundred races can be run in several sittings.

use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// Measurements by name, of this run and, with a file, of those before it.
///
/// The file has a line of JSON for each: its `name`, the `value`, when (`at_unix_s`), where (`machine`) and what was
/// raced (`commit`). It grows by a line with each race, so that one which is interrupted loses no other.
pub struct RaceRecord {
    file: Option<File>,
    lines: Vec<Value>,
    /// Machine and commit of the lines that are added.
    origin: (String, String),
}

impl RaceRecord {
    /// The record in `path`, which need not exist; without a path nothing is kept.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or written, or one of its lines is none of a record.
    pub fn open(root: &Path, path: Option<&str>) -> Result<RaceRecord, String> {
        let mut record = RaceRecord {
            file: None,
            lines: Vec::new(),
            origin: (machine(), commit(root)),
        };
        let Some(path) = path else {
            return Ok(record);
        };
        let failed = |error: std::io::Error| format!("--record {path}: {error}");
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).open(path);
        record.file = Some(file.map_err(failed)?);
        let text = std::fs::read_to_string(path).map_err(failed)?;
        for (index, line) in text.lines().enumerate() {
            let parsed: Option<Value> = serde_json::from_str(line).ok();
            let parsed = parsed.filter(|line| line["name"].is_string());
            let line = parsed.ok_or_else(|| {
                let number = index + 1;
                format!(
                    "{path}:{number}: this is no line of a record; remove it, or name another file"
                )
            })?;
            record.lines.push(line);
        }
        Ok(record)
    }

    /// The value called `name`: as it was recorded, else as `measure` finds it, which is recorded then.
    ///
    /// # Errors
    ///
    /// When it cannot be measured or written.
    pub fn value(
        &mut self,
        name: &str,
        measure: impl FnOnce() -> Result<Value, String>,
    ) -> Result<Value, String> {
        if let Some(line) = self.lines.iter().find(|line| line["name"] == name) {
            return Ok(line["value"].clone());
        }
        let value = measure()?;
        let (machine, commit) = &self.origin;
        let at_unix_s = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        let line = json!({
            "name": name, "at_unix_s": at_unix_s, "machine": machine, "commit": commit, "value": value,
        });
        if let Some(file) = &mut self.file {
            let written = writeln!(file, "{line}");
            written.map_err(|error| format!("the record: {error}"))?;
        }
        self.lines.push(line);
        Ok(value)
    }
}

/// Model and number of the processors, and the kernel.
fn machine() -> String {
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("unknown processor", |rest| {
        rest.trim_matches([' ', '\t', ':'])
    });
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{model}, {count} processors, Linux {}", kernel.trim())
}

/// The commit that is checked out; empty where there is none.
fn commit(root: &Path) -> String {
    let output = Command::new("git")
        .current_dir(root)
        .args(["describe", "--always", "--dirty", "--abbrev=12"])
        .output();
    let output = output.ok().filter(|output| output.status.success());
    output.map_or_else(String::new, |output| {
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::super::race_result::WorkFolder;
    use super::*;

    #[test]
    fn recorded_value_is_not_measured_again() {
        let folder = WorkFolder::new().expect("a folder");
        let path = folder.path("record.jsonl");
        let path = path.to_str().expect("a path in UTF-8");
        let open = || RaceRecord::open(Path::new("."), Some(path)).expect("a record");
        let first = open().value("verdict-1pct 1", || Ok(json!({ "took_s": 9.5 })));
        let again = open().value("verdict-1pct 1", || Err("measured again".into()));
        assert_eq!(again, first);
        assert_eq!(first.expect("a value")["took_s"], 9.5);
        let other = open().value("verdict-1pct 2", || Err("a failed race".into()));
        assert_eq!(other, Err("a failed race".to_owned()));
        let line: Value = serde_json::from_str(&std::fs::read_to_string(path).expect("a file"))
            .expect("a failed race is not recorded: one line");
        assert!(line["at_unix_s"].as_u64() > Some(1_700_000_000), "{line}");
        assert!(
            line["machine"]
                .as_str()
                .is_some_and(|text| text.contains("Linux"))
        );
    }

    #[test]
    fn foreign_file_is_refused_with_its_line() {
        let folder = WorkFolder::new().expect("a folder");
        let path = folder.path("record.jsonl");
        std::fs::write(&path, "{\"name\":\"a\",\"value\":1}\nhello\n").expect("a file");
        let opened = RaceRecord::open(Path::new("."), path.to_str());
        let why = opened.err().expect("the second line is none of a record");
        assert!(why.contains("record.jsonl:2: "), "{why}");
    }
}
