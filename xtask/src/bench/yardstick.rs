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
            .status()
            .map_err(|error| format!("cc: {error}; apt-get install gcc"))?;
        if built.success() {
            Ok(Yardstick { name, program })
        } else {
            Err(format!("{name}.c does not build"))
        }
    }

    /// Runs it; gives the number that it prints as `KEY=NUMBER`.
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
        let value = |word: &str| word.strip_prefix(key)?.strip_prefix('=')?.parse().ok();
        let found = text.split_whitespace().find_map(value);
        found.ok_or_else(|| format!("{name} reported no {key}"))
    }
}

impl Drop for Yardstick {
    fn drop(&mut self) {
        // A program left in the temporary folder does no harm.
        let _ = std::fs::remove_file(&self.program);
    }
}
