//! Checks in a process of their own beside the tests.

use super::{Tally, TestOutput, parse_counts};
use crate::{fail, target};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// The process, and the file that it prints to.
pub(super) struct BesideTests {
    printed: PathBuf,
    child: Option<io::Result<Child>>,
}

impl BesideTests {
    /// Of the workspace in this folder; it is not started yet.
    pub(super) fn new(root: &Path) -> BesideTests {
        BesideTests {
            printed: target(root).join("ci-beside-tests.txt"),
            child: None,
        }
    }

    /// Starts it, at the first call.
    pub(super) fn start(&mut self) {
        let printed = &self.printed;
        self.child.get_or_insert_with(|| start(printed));
    }

    /// Waits for its end and gives what it counted; prints how its steps ended, and all that it printed if one failed.
    pub(super) fn finish(mut self, output: &mut TestOutput) -> Tally {
        self.start();
        let ended = self.child.map(|child| child.and_then(|mut one| one.wait()));
        let text = std::fs::read_to_string(&self.printed).unwrap_or_default();
        let counted = text.lines().last().and_then(parse_counts);
        let is_clean = counted.is_some_and(|tally| tally.failed == 0);
        for line in text.lines().filter(|line| output.take(line)) {
            if !is_clean || line.starts_with("== ") {
                println!("{line}");
            }
        }
        match (ended, counted) {
            (Some(Ok(status)), Some(tally)) if status.success() => tally,
            (ended, _) => {
                fail(&format!(
                    "the checks beside the tests did not end well: {ended:?}"
                ));
                Tally::of(false)
            }
        }
    }
}

fn start(printed: &Path) -> io::Result<Child> {
    let file = File::create(printed)?;
    Command::new(std::env::current_exe()?)
        .args(["ci", "--beside-tests"])
        .stderr(file.try_clone()?)
        .stdout(file)
        .spawn()
}
