//! Yardsticks: small C programs outside the workspace that show what a machine gives at best.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A yardstick, built from its source in the folder named by TOWPATH_YARDSTICKS.
pub struct Yardstick {
    name: &'static str,
    program: PathBuf,
}

impl Yardstick {
    /// Builds it.
    ///
    /// # Errors
    ///
    /// Without the folder, and when `NAME.c` in it does not build.
    pub fn build(name: &'static str) -> Result<Yardstick, String> {
        let folder = std::env::var_os("TOWPATH_YARDSTICKS").ok_or_else(|| {
            format!("{name} is absent: set TOWPATH_YARDSTICKS to the folder that holds {name}.c")
        })?;
        let process = std::process::id();
        let program = std::env::temp_dir().join(format!("towpath-{name}-{process}"));
        let built = Command::new("cc")
            .args(["-O2", "-march=native", "-w", "-o"])
            .arg(&program)
            .arg(Path::new(&folder).join(format!("{name}.c")))
            .arg("-lm")
            .status()
            .map_err(|error| format!("cc: {error}; apt-get install gcc"))?;
        if built.success() {
            Ok(Yardstick { name, program })
        } else {
            Err(format!("{name}.c does not build"))
        }
    }

    /// Runs it; gives the number that it prints as `KEY=NUMBER` or `KEY NUMBER`.
    ///
    /// # Errors
    ///
    /// When it does not run, or prints none.
    pub fn run(&self, words: &[&str], key: &str) -> Result<f64, String> {
        let name = self.name;
        let output = Command::new(&self.program)
            .args(words)
            .output()
            .map_err(|error| format!("{name}: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        number_of(&text, key).ok_or_else(|| format!("{name} reported no {key}"))
    }
}

/// The number behind `key` in what a yardstick printed.
fn number_of(text: &str, key: &str) -> Option<f64> {
    let mut words = text.split_whitespace();
    while let Some(word) = words.next() {
        let number = match word.strip_prefix(key) {
            Some("") => words.next(),
            Some(rest) => rest.strip_prefix('='),
            None => continue,
        };
        if let Some(number) = number.and_then(|number| number.parse().ok()) {
            return Some(number);
        }
    }
    None
}

impl Drop for Yardstick {
    fn drop(&mut self) {
        // A program left in the temporary folder does no harm.
        let _ = std::fs::remove_file(&self.program);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_is_found_behind_its_key_in_either_form() {
        let text = "pairs 73 sd 0.2634 mean -0.0051 mean_s 7 rate=2.5 sd=1";
        assert_eq!(number_of(text, "mean"), Some(-0.0051));
        assert_eq!(number_of(text, "rate"), Some(2.5));
        assert_eq!(number_of(text, "sd"), Some(0.2634));
        assert_eq!(number_of(text, "median"), None);
        assert_eq!(number_of("mean", "mean"), None);
    }
}
