//! Findings as a table in Markdown, to be pasted where a page of one's own says what held.

use super::{Ran, text};
use std::fmt::Write;
use study::judge::finding::Finding;

/// The findings of all studies: each study in its first row, with its form and how many exhibits ran.
pub fn findings(all: &[Ran]) -> String {
    let mut out = "| study | finding | word |\n| --- | --- | --- |\n".to_owned();
    for ran in all {
        let form = if ran.result.quick {
            "short form"
        } else {
            "in full"
        };
        let exhibits = text::exhibits_text(ran);
        let study = format!("{}, {form}: {exhibits}", ran.selection.study.key);
        rows(&mut out, study.trim_end_matches('.'), &ran.findings);
    }
    out.trim_end().to_owned()
}

fn rows(out: &mut String, study: &str, findings: &[Finding]) {
    if findings.is_empty() {
        let _ = writeln!(out, "| {} | | no findings |", cell(study));
    }
    for (place, finding) in findings.iter().enumerate() {
        let study = if place == 0 {
            cell(study)
        } else {
            String::new()
        };
        let says = finding.says.trim_end_matches('.');
        let _ = writeln!(
            out,
            "| {study} | {} | {} |",
            cell(says),
            cell(&word(finding))
        );
    }
}

/// `held: 0.628 (5 blocks)`.
fn word(finding: &Finding) -> String {
    let word = finding.word.text();
    match (finding.found.is_empty(), finding.blocks) {
        (true, _) => word,
        (false, 1) => format!("{word}: {} (1 block)", finding.found),
        (false, blocks) => format!("{word}: {} ({blocks} blocks)", finding.found),
    }
}

/// What a cell of a table may hold: no end of a line and no bar of its own.
fn cell(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;
    use study::judge::finding::Word;

    fn finding(says: &str, word: Word, found: &str, blocks: usize) -> Finding {
        Finding {
            says: says.to_owned(),
            word,
            found: found.to_owned(),
            blocks,
        }
    }

    #[test]
    fn rows_name_the_study_once_and_cells_stay_cells() {
        let mut out = String::new();
        let why = "run a|b\nwas stopped".to_owned();
        let findings = [
            finding("A is faster.", Word::Held, "0.628", 5),
            finding("B is slower.", Word::NotDecided(Some(9)), "1.020", 1),
            finding("C", Word::NotChecked(why), "", 0),
        ];
        rows(&mut out, "one-1984, in full", &findings);
        rows(&mut out, "two-1999, short form", &[]);
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(
            lines,
            [
                "| one-1984, in full | A is faster | held: 0.628 (5 blocks) |",
                "|  | B is slower | not decided; 9 blocks would do: 1.020 (1 block) |",
                "|  | C | not checked: run a\\|b was stopped |",
                "| two-1999, short form | | no findings |",
            ]
        );
    }
}
