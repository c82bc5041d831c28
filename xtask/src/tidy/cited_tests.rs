//! Tests that docs/reliability.md and the decision on reviews cite exist: a claim whose test was
//! renamed or removed is a fault.

use super::source::is_word;
use super::{Fault, File};
use std::collections::BTreeSet;

/// Pages that name tests.
const PAGES: [&str; 2] = ["docs/reliability.md", "docs/decisions/0022-audit.md"];

/// Underscores of a name that can only be a test's: its unit, condition and result.
const UNDERSCORES_MIN: usize = 2;

/// Faults of all pages.
pub(super) fn check_all(files: &[File]) -> Vec<Fault> {
    let defined: BTreeSet<&str> = files.iter().flat_map(functions).collect();
    let mut faults = Vec::new();
    for page in files
        .iter()
        .filter(|file| PAGES.contains(&file.path.as_str()))
    {
        for (index, line) in page.text.lines().enumerate() {
            let spans = line.split('`').skip(1).step_by(2);
            let missing = spans.filter(|span| is_test(span) && !defined.contains(span));
            faults.extend(missing.map(|span| {
                let what = format!("no test '{span}'; name the one that shows this now");
                page.fault(index + 1, what)
            }));
        }
    }
    faults
}

fn is_test(span: &str) -> bool {
    let is_name = span
        .chars()
        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    is_name && span.matches('_').count() >= UNDERSCORES_MIN && !span.starts_with('_')
}

/// Names of the functions of a file.
fn functions(file: &File) -> impl Iterator<Item = &str> {
    let code = file.rust.as_ref().map_or("", |source| source.code.as_str());
    code.split("fn ").skip(1).map(|rest| {
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        &rest[..end]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cited_tests_must_be_functions() {
        let files = [
            File::new("crates/a/src/b.rs", "fn peer_that_is_gone_times_out() {}"),
            File::new(
                PAGES[0],
                "| `peer_that_is_gone_times_out` | `recv_all`, `a.rs`\n",
            ),
            File::new(
                PAGES[1],
                "\n`peer_that_is_here_answers` and `peer_that_is_gone`\n",
            ),
            File::new("docs/other.md", "`peer_that_is_nowhere_at_all`"),
        ];
        let faults = check_all(&files);
        let said: Vec<String> = faults.iter().map(ToString::to_string).collect();
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].starts_with("docs/decisions/0022-audit.md:2: no test 'peer_that_is_here"));
    }
}
