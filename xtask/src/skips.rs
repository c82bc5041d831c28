//! Tests that skip something for want of a tool, a right or a kernel's feature say so in a line that begins
//! with `SKIPPED`. The lines are shown and counted, and held against the number that is committed here, so
//! that a test that begins to skip is noticed.

use std::collections::BTreeMap;

/// Lines of a run of `.ci/run` as root on Debian with all tools it installs and a kernel without SMC, QUIC,
/// netem, fq, kernel SCTP, CUSE and a function tracer that root may use. A machine with less skips more.
const COMMITTED: u64 = 174;

/// Set to `strict`: more lines than committed fail the run.
const STRICT: &str = "TOWPATH_SKIPS";

/// Before each such line.
const MARK: &str = "SKIPPED";

/// Reads what tests print with `--show-output`.
#[derive(Debug, Default)]
pub(crate) struct Skips {
    /// Times of each line.
    lines: BTreeMap<String, u64>,
    section: Section,
}

/// Where in the output of a test program a line lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Section {
    /// Names and results of tests, and what failed ones printed.
    #[default]
    Results,
    /// What passed ones printed, of which only skips are shown.
    Successes,
}

impl Skips {
    /// Takes a line; whether it is to be shown.
    pub(crate) fn take(&mut self, line: &str) -> bool {
        self.section = match line {
            "successes:" => Section::Successes,
            "failures:" => Section::Results,
            _ if line.starts_with("test result: ") => Section::Results,
            _ => self.section,
        };
        let is_skip = line.starts_with(MARK);
        if is_skip {
            *self.lines.entry(line.to_owned()).or_default() += 1;
        }
        is_skip || self.section == Section::Results
    }

    /// Says how many there were, and of which reasons; whether they are within what is allowed.
    pub(crate) fn judge(&self) -> bool {
        let is_strict = std::env::var(STRICT).is_ok_and(|word| word == "strict");
        println!("\n{}", self.text());
        !is_strict || self.count() <= COMMITTED
    }

    fn count(&self) -> u64 {
        self.lines.values().sum()
    }

    fn text(&self) -> String {
        let mut text = match self.count() {
            0 => "nothing was skipped".to_owned(),
            count => format!("{count} lines of tests that skipped something"),
        };
        if self.count() > COMMITTED {
            text.push_str(&format!(
                "; {COMMITTED} are committed, so look at what is new ({STRICT}=strict makes it a failure)"
            ));
        }
        for (line, times) in &self.lines {
            text.push_str(&format!("\n  {times} x {line}"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "running 2 tests
test one ... ok
test two ... ok

successes:

---- one stdout ----
much that one printed
SKIPPED: tshark is absent

successes:
    one
    two

test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s";

    #[test]
    fn skips_of_passed_tests_are_shown_and_counted() {
        let mut skips = Skips::default();
        let shown: Vec<&str> = OUTPUT.lines().filter(|line| skips.take(line)).collect();
        assert_eq!(skips.count(), 1);
        assert!(shown.contains(&"SKIPPED: tshark is absent"));
        assert!(shown.contains(&"test two ... ok"));
        assert!(
            shown
                .last()
                .is_some_and(|line| line.starts_with("test result"))
        );
        assert!(!shown.contains(&"much that one printed"), "{shown:?}");
        assert!(skips.text().ends_with("1 x SKIPPED: tshark is absent"));
    }

    #[test]
    fn output_of_failed_tests_is_shown() {
        let mut skips = Skips::default();
        for line in ["successes:", "hidden", "failures:", "shown"] {
            assert_eq!(skips.take(line), line != "hidden" && line != "successes:");
        }
    }
}
