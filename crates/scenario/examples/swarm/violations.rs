//! The violations of a run: all in a file, the first on the terminal.

use scenario::swarm::{Violation, draw};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

/// Violations shown on the terminal.
const SHOWN: usize = 10;

/// What a run found so far.
pub struct Violations {
    found: Mutex<Found>,
    /// The file's name, for messages.
    file_name: String,
}

struct Found {
    count: u64,
    shown: Vec<Violation>,
    file: Option<File>,
    /// The file could not be written.
    error: Option<String>,
}

impl Violations {
    /// Collects in `file`, which is emptied, if it is given.
    ///
    /// # Errors
    ///
    /// The file cannot be made.
    pub fn new(file: Option<&Path>) -> Result<Violations, String> {
        let file_name = file.map_or(String::new(), |path| path.display().to_string());
        let file = file.map(File::create).transpose();
        let file = file.map_err(|error| {
            format!("cannot write {file_name}: {error}; name another with --violations FILE")
        })?;
        Ok(Violations {
            found: Mutex::new(Found {
                count: 0,
                shown: Vec::new(),
                file,
                error: None,
            }),
            file_name,
        })
    }

    /// Violations so far.
    pub fn count(&self) -> u64 {
        self.found.lock().map_or(0, |found| found.count)
    }

    /// Writes a violation to the file at once: an interrupted run keeps what it found.
    pub fn add(&self, violation: Violation) {
        let text = format!(
            "{}\n\n{}\n",
            describe(&violation),
            draw(violation.seed).trim_end()
        );
        let Ok(mut found) = self.found.lock() else {
            return;
        };
        found.count += 1;
        if let Some(file) = &mut found.file
            && let Err(error) = writeln!(file, "{text}")
        {
            found.error.get_or_insert(error.to_string());
        }
        if found.shown.len() < SHOWN {
            found.shown.push(violation);
        }
    }

    /// Shows the first violations on the terminal. Returns the number of all.
    ///
    /// # Errors
    ///
    /// The file could not be written.
    pub fn finish(self) -> Result<u64, String> {
        let found = self.found.into_inner().map_err(|error| error.to_string())?;
        let mut shown = found.shown;
        shown.sort_by_key(|violation| violation.seed);
        for violation in &shown {
            println!("{}", describe(violation));
        }
        if found.count > shown.len() as u64 {
            println!("and {} more", found.count - shown.len() as u64);
        }
        if found.count > 0 && found.file.is_some() {
            println!("all of them, with their scenarios: {}", self.file_name);
        }
        match found.error {
            Some(error) => Err(format!("cannot write {}: {error}", self.file_name)),
            None => Ok(found.count),
        }
    }
}

/// Seed, invariant and place of a violation, and how to see it again.
pub fn describe(violation: &Violation) -> String {
    let Violation {
        seed,
        invariant,
        detail,
    } = violation;
    format!("seed {seed}: {invariant:?}: {detail}\n    again: cargo xtask swarm --seed {seed}")
}
