//! What failed tests printed, kept for the end of a long run: nobody has to look for it among all that passed.

/// Lines kept of the output of one test program's failed tests: a panic of each of several, not a whole trace.
const LINES_MAX: usize = 120;

/// Reads what tests print.
#[derive(Debug, Default)]
pub(super) struct Failures {
    kept: Vec<String>,
    section: Section,
}

/// Where in the output of a test program a line lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Section {
    #[default]
    Other,
    /// After `failures:`; so many of its lines are kept.
    Failures(usize),
}

impl Failures {
    pub(super) fn take(&mut self, line: &str) {
        self.section = match (line, self.section) {
            // Their output, then their names, which are kept however long the output was.
            ("failures:", _) => Section::Failures(0),
            _ if line.starts_with("test result: ") => Section::Other,
            (_, Section::Failures(lines)) if !line.is_empty() => Section::Failures(lines + 1),
            (_, section) => section,
        };
        match self.section {
            Section::Failures(lines) if lines > LINES_MAX || line.is_empty() => {}
            Section::Failures(_) => self.kept.push(line.to_owned()),
            Section::Other if is_end_of_failed(line) => self.kept.push(line.to_owned()),
            Section::Other => {}
        }
    }

    /// All that is kept, a line each.
    pub(super) fn text(&self) -> String {
        self.kept.iter().map(|line| format!("{line}\n")).collect()
    }
}

/// Whether this is the last line of a test program of which a test failed, or cargo's word that one died.
fn is_end_of_failed(line: &str) -> bool {
    line.starts_with("test result: FAILED") || line.starts_with("error: test failed")
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "test one ... ok
test two ... FAILED

successes:

---- one stdout ----
much that one printed

successes:
    one

failures:

---- two stdout ----
thread 'two' panicked at tests/two.rs:1:1:

failures:
    two

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s
test three ... ok";

    #[test]
    fn output_of_failed_tests_is_kept() {
        let mut failures = Failures::default();
        OUTPUT.lines().for_each(|line| failures.take(line));
        let text = failures.text();
        assert!(
            text.contains("---- two stdout ----\nthread 'two' panicked"),
            "{text}"
        );
        assert!(
            text.ends_with("0 filtered out; finished in 0.01s\n"),
            "{text}"
        );
        assert!(
            !text.contains("much that one printed") && !text.contains("three"),
            "{text}"
        );
    }

    #[test]
    fn long_output_of_failed_tests_is_cut() {
        let mut failures = Failures::default();
        failures.take("failures:");
        (0..1000).for_each(|_| failures.take("a line of a trace"));
        assert_eq!(failures.text().lines().count(), LINES_MAX + 1);
        failures.take("failures:");
        failures.take("    its_name");
        assert!(failures.text().ends_with("failures:\n    its_name\n"));
    }

    #[test]
    fn nothing_is_kept_of_tests_that_passed() {
        let mut failures = Failures::default();
        failures.take("test one ... ok");
        failures.take("test result: ok. 1 passed; 0 failed; 0 ignored");
        assert_eq!(failures.text(), "");
    }
}
