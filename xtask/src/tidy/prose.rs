//! Documents speak of the project alone.

use super::source::is_word;
use super::{Fault, File};

/// Paths of some machine. `/dev`, `/proc`, `/sys` and `/etc` are every machine's.
const PATHS: &[&str] = &["/work/", "/root/", "/home/", "/tmp/", "/Users/"];

/// Characters of a line at most, tables and links aside.
const LINE_MAX: usize = 160;

pub(super) fn check(file: &File) -> Vec<Fault> {
    if !file.path.ends_with(".md") {
        return Vec::new();
    }
    let mut faults = Vec::new();
    let mut in_code = false;
    for (index, line) in file.text.lines().enumerate() {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        if let Some(path) = PATHS.iter().find(|path| line.contains(**path)) {
            faults.push(file.fault(index + 1, format!("'{path}' is a path of one machine")));
        }
        if let Some(number) = issue_number(line).filter(|_| !in_code) {
            let what = format!("'{number}' means nothing to a reader; say what it is about");
            faults.push(file.fault(index + 1, what));
        }
        let free = in_code || fence || line.starts_with('|') || line.contains("](");
        if !free && line.chars().count() > LINE_MAX {
            faults.push(file.fault(index + 1, format!("more than {LINE_MAX} characters")));
        }
    }
    faults
}

/// `#12`, or `issue 12`.
fn issue_number(line: &str) -> Option<&str> {
    let marks = ["#", "issue ", "Issue "];
    marks.iter().find_map(|mark| {
        let mut places = line.match_indices(mark);
        places.find_map(|(at, _)| {
            let rest = &line[at + mark.len()..];
            let digits = rest.find(|c: char| !c.is_ascii_digit());
            let digits = digits.unwrap_or(rest.len());
            // `a#1` is the anchor of a link, and `#1a` the colour.
            let inside = line[..at].ends_with(|c: char| is_word(c) || c == '/' || c == '(');
            let longer = rest[digits..].starts_with(is_word);
            (digits > 0 && !inside && !longer).then(|| &line[at..at + mark.len() + digits])
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str) -> usize {
        check(&File::new("a.md", text)).len()
    }

    #[test]
    fn paths_of_one_machine_are_faults() {
        assert_eq!(faults("see /home/me/a"), 1);
        assert_eq!(faults("see /proc/stat and docs/"), 0);
    }

    #[test]
    fn issue_numbers_are_faults() {
        assert_eq!(faults("as in #12"), 1);
        assert_eq!(faults("fixes issue 7."), 1);
        assert_eq!(faults("# 1. Heading\n[a](b.md#1) colour #112233ff"), 0);
        assert_eq!(faults("```\n#12\n```"), 0);
    }

    #[test]
    fn long_lines_are_faults_unless_they_are_tables() {
        let long = "a ".repeat(LINE_MAX);
        assert_eq!(faults(&long), 1);
        assert_eq!(faults(&format!("| {long} |")), 0);
    }
}
