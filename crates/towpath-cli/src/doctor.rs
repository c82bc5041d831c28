//! `towpath doctor`.

use crate::inspect::width;
use crate::print::{self, wrap};
use crate::{CliError, DONE};
use results::{Finding, Machine, Severity};

/// Widest a line of prose gets; longer ones are hard to read.
const PROSE: usize = 96;

/// Columns before a fact's values.
const VALUES_AT: usize = 10;

/// Examines the machine.
///
/// # Errors
///
/// When standard output cannot be written.
pub fn doctor(as_json: bool) -> Result<u8, CliError> {
    let machine = host::machine(&host::Test::default());
    if as_json {
        print::json(&machine)?;
    } else {
        print::line(text(&machine, width()))?;
    }
    Ok(DONE)
}

/// What matters first, then what is well in a line each, then the facts.
fn text(machine: &Machine, width: usize) -> String {
    let width = width.min(PROSE);
    let mut lines = vec![verdict(&machine.findings)];
    for severity in [Severity::Bad, Severity::Warning, Severity::Note] {
        let alike = machine.findings.iter();
        for finding in alike.filter(|finding| finding.severity == severity) {
            lines.push(String::new());
            lines.extend(described(finding, width));
        }
    }
    lines.push(String::new());
    for finding in &machine.findings {
        if finding.severity == Severity::Good {
            lines.push(headed(finding, width));
        }
    }
    lines.push(String::new());
    lines.extend(facts(machine, width));
    lines.join("\n")
}

fn verdict(findings: &[Finding]) -> String {
    let count = |severity| {
        let alike = findings.iter().filter(|found| found.severity == severity);
        alike.count()
    };
    match (count(Severity::Bad), count(Severity::Warning)) {
        (0, 0) => "Nothing here spoils a measurement.".into(),
        (0, 1) => "One thing makes results noisier than they need be.".into(),
        (0, some) => format!("{some} things make results noisier than they need be."),
        (1, _) => "One thing here would make results misleading.".into(),
        (some, _) => format!("{some} things here would make results misleading."),
    }
}

fn described(finding: &Finding, width: usize) -> Vec<String> {
    let mut lines = vec![headed(finding, width)];
    if !finding.effect.is_empty() {
        lines.push(indented(&finding.effect, width));
    }
    if !finding.remedy.is_empty() {
        lines.push(indented(&format!("-> {}", finding.remedy), width));
    }
    lines
}

/// The finding behind its coloured sign; the sign is painted after the line is broken.
fn headed(finding: &Finding, width: usize) -> String {
    let (word, colour) = match finding.severity {
        Severity::Good => ("good", anstyle::AnsiColor::Green),
        Severity::Note => ("note", anstyle::AnsiColor::Cyan),
        Severity::Warning => ("warning", anstyle::AnsiColor::Yellow),
        Severity::Bad => ("bad", anstyle::AnsiColor::Red),
    };
    let style = anstyle::Style::new().fg_color(Some(colour.into())).bold();
    let line = wrap(&format!("{word}: {}", finding.what), width, 0, 4);
    format!("{style}{word}{style:#}{}", &line[word.len()..])
}

fn indented(text: &str, width: usize) -> String {
    format!("    {}", wrap(text, width, 4, 4))
}

/// A paragraph a group: `name value` after `name value`.
fn facts(machine: &Machine, width: usize) -> Vec<String> {
    let mut groups: Vec<(&str, Vec<String>)> = Vec::new();
    for fact in &machine.facts {
        let item = format!("{} {}", fact.name, fact.value);
        match groups.last_mut() {
            Some((group, items)) if *group == fact.group => items.push(item),
            _ => groups.push((&fact.group, vec![item])),
        }
    }
    let paragraph = |(group, items): (&str, Vec<String>)| {
        let body = wrap(&items.join("; "), width, VALUES_AT, VALUES_AT);
        format!("{group:<VALUES_AT$}{body}")
    };
    groups.into_iter().map(paragraph).collect()
}

#[cfg(test)]
mod tests {
    use super::{Finding, Severity, text};

    #[test]
    fn what_matters_stands_first_and_fits_the_width() {
        let finding = |severity, what: &str| Finding {
            severity,
            what: what.into(),
            effect: "each figure is of something else than it says ".repeat(4),
            remedy: "stop it".into(),
        };
        let machine = results::Machine {
            version: results::SCHEMA_VERSION,
            facts: Vec::new(),
            findings: vec![
                finding(Severity::Note, "small"),
                finding(Severity::Bad, "large"),
            ],
        };
        let plain = anstream::adapter::strip_str(&text(&machine, 60)).to_string();
        assert!(
            plain.find("bad: large") < plain.find("note: small"),
            "{plain}"
        );
        assert!(plain.contains("\n    -> stop it"), "{plain}");
        assert!(
            plain.lines().all(|line| line.chars().count() <= 60),
            "{plain}"
        );
    }
}
