//! Sizes of the code in figures: `cargo xtask tidy --figures`.

use super::File;
use super::length::functions;
use std::collections::BTreeMap;
use std::fmt;

/// Lines that two places share, at least, to count as a repeated passage.
const PASSAGE_LINES: usize = 6;

/// Sizes of the Rust code below `crates/` and `xtask/`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Figures {
    lines: usize,
    lines_of_tests: usize,
    functions: Spread,
    files: Spread,
    passages: usize,
    passage_lines: usize,
}

/// Number, median, 90th percentile and maximum of some lengths.
#[derive(Debug, Default, PartialEq, Eq)]
struct Spread {
    count: usize,
    median: usize,
    p90: usize,
    longest: usize,
}

impl Figures {
    pub(super) fn of(files: &[File]) -> Figures {
        let files: Vec<(&File, &str)> = files
            .iter()
            .filter(|file| file.path.starts_with("crates/") || file.path.starts_with("xtask/"))
            .filter_map(|file| Some((file, file.rust.as_ref()?.code.as_str())))
            .collect();
        let lines = |file: &File| file.text.lines().count();
        let untested = files.iter().map(|(file, code)| tests_from(file, code));
        let untested: Vec<usize> = untested.collect();
        let all: usize = files.iter().map(|(file, _)| lines(file)).sum();
        let mut lengths = Vec::new();
        for ((_, code), end) in files.iter().zip(&untested) {
            let inside = functions(code).into_iter().filter(|(line, _)| line <= end);
            lengths.extend(inside.map(|(_, length)| length));
        }
        let sources = files.iter().filter(|(file, _)| !is_test(file));
        let (passages, passage_lines) = repeated(&files);
        Figures {
            lines: all,
            lines_of_tests: all - untested.iter().sum::<usize>(),
            functions: Spread::of(lengths),
            files: Spread::of(sources.map(|(file, _)| lines(file)).collect()),
            passages,
            passage_lines,
        }
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let without = self.lines - self.lines_of_tests;
        writeln!(f, "lines      {} with tests, {without} without", self.lines)?;
        writeln!(f, "functions  {}, tests aside", self.functions)?;
        writeln!(f, "files      {}, folders of tests aside", self.files)?;
        let (passages, lines) = (self.passages, self.passage_lines);
        write!(
            f,
            "repeated   {passages} passages of {PASSAGE_LINES} lines or more, {lines} lines"
        )
    }
}

impl Spread {
    fn of(mut lengths: Vec<usize>) -> Spread {
        lengths.sort_unstable();
        let at = |part: usize| lengths.get((lengths.len() * part).div_ceil(100).max(1) - 1);
        Spread {
            count: lengths.len(),
            median: at(50).copied().unwrap_or(0),
            p90: at(90).copied().unwrap_or(0),
            longest: lengths.last().copied().unwrap_or(0),
        }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Spread {
            count,
            median,
            p90,
            longest,
        } = self;
        write!(
            f,
            "{count}: median {median}, 90th percentile {p90}, longest {longest} lines"
        )
    }
}

/// A file of integration tests or benchmarks.
fn is_test(file: &File) -> bool {
    file.path.contains("/tests/")
        || file.path.contains("/benches/")
        || file.path.ends_with("tests.rs")
}

/// How many lines of the file are not tests: those above its `#[cfg(test)]` module.
fn tests_from(file: &File, code: &str) -> usize {
    if is_test(file) {
        return 0;
    }
    let lines: Vec<&str> = code.lines().collect();
    let module = lines
        .windows(2)
        .position(|pair| pair[0].starts_with("#[cfg(test)]") && pair[1].ends_with('{'));
    module.unwrap_or(lines.len())
}

/// Passages that stand in two places or more, and the lines of the second and later ones. Blank
/// lines, imports and lone punctuation do not count.
fn repeated(files: &[(&File, &str)]) -> (usize, usize) {
    let mut seen: BTreeMap<Vec<&str>, usize> = BTreeMap::new();
    let (mut passages, mut lines_repeated) = (0, 0);
    for (_, code) in files {
        let lines: Vec<&str> = code
            .lines()
            .map(str::trim)
            .filter(|line| counts(line))
            .collect();
        // The line behind the passage that was counted last.
        let mut behind = 0;
        for (at, window) in lines.windows(PASSAGE_LINES).enumerate() {
            let times = seen.entry(window.to_vec()).or_default();
            *times += 1;
            if *times > 1 {
                passages += usize::from(at >= behind);
                lines_repeated += at + PASSAGE_LINES - behind.max(at);
                behind = at + PASSAGE_LINES;
            }
        }
    }
    (passages, lines_repeated)
}

fn counts(line: &str) -> bool {
    line.chars().any(char::is_alphanumeric) && !line.starts_with("use ") && !line.starts_with("//")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_of_lengths_names_median_and_tail() {
        let spread = Spread::of((1..=100).rev().collect());
        assert_eq!(
            (spread.count, spread.median, spread.p90, spread.longest),
            (100, 50, 90, 100)
        );
        assert_eq!(Spread::of(Vec::new()), Spread::default());
    }

    #[test]
    fn tests_are_counted_apart() {
        let text = "fn a() {\n}\n#[cfg(test)]\nmod tests {\n    fn b() {\n    }\n}\n";
        let files = [
            File::new("crates/a/src/lib.rs", text),
            File::new("crates/a/tests/all/main.rs", "fn c() {\n}\n"),
        ];
        let figures = Figures::of(&files);
        assert_eq!((figures.lines, figures.lines_of_tests), (9, 7));
        assert_eq!((figures.functions.count, figures.files.count), (1, 1));
    }

    #[test]
    fn passages_of_six_lines_are_found_once_each() {
        let passage = "a1();\nb();\n\nc();\nd();\ne();\nf();\ng();\n";
        let other = "h();\ni();\nj();\n";
        let files = [
            File::new("crates/a/src/lib.rs", format!("{passage}{other}")),
            File::new("crates/b/src/lib.rs", format!("{other}{passage}")),
        ];
        let figures = Figures::of(&files);
        assert_eq!((figures.passages, figures.passage_lines), (1, 7));
    }
}
