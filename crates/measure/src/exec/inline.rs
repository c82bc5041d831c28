//! A contestant on the command line, for a program that is raced once:
//!
//! ```text
//! exec:NAME=SERVER :: CLIENT :: NUMBER :: UNIT
//! ```
//!
//! It is an entry of a file of contestants in one line: SERVER and CLIENT are words as a shell splits
//! them, NUMBER is a JSON pointer where it begins with `/` and else a regular expression. The unit
//! says which workload it is, and the server is ready when its port listens.

use super::definition::{self, Definition};
use super::number::Unit;
use std::path::Path;

/// Between the parts.
const SEPARATOR: &str = " :: ";

/// The form, for errors.
const FORM: &str = "write exec:NAME=SERVER :: CLIENT :: NUMBER :: UNIT, as \
                    'exec:mine=./mine -l {port} :: ./mine -c {host} {port} :: ([0-9.]+) Mbit/s :: Mbit/s'";

/// Reads what stands behind `exec:`; None where it is the name of a contestant alone.
///
/// # Errors
///
/// One sentence that names the contestant, with the form where a part is missing.
pub fn read(text: &str) -> Option<Result<(String, Definition), String>> {
    let (name, rest) = text.split_once('=')?;
    let about = |why: String| format!("exec:{name}: {why}");
    Some(definition_of(name, rest).map_err(about))
}

fn definition_of(name: &str, text: &str) -> Result<(String, Definition), String> {
    let parts: Vec<&str> = text.split(SEPARATOR).map(str::trim).collect();
    let &[server, client, number, unit] = parts.as_slice() else {
        return Err(format!("it has {} parts instead of 4; {FORM}", parts.len()));
    };
    let delay = Unit::of_workload("delay").contains(&unit);
    let workload = if delay { "delay" } else { "throughput" };
    let source = if number.starts_with('/') {
        "json"
    } else {
        "regex"
    };
    let mut file = toml::Table::new();
    let texts = |pairs: &[(&str, &str)]| {
        let pairs = pairs.iter();
        let values = pairs.map(|(key, text)| ((*key).to_owned(), toml::Value::from(*text)));
        toml::Value::Table(values.collect())
    };
    let measurement = toml::Table::from_iter([
        ("client".to_owned(), words(client)?.into()),
        (
            "number".to_owned(),
            texts(&[(source, number), ("unit", unit)]),
        ),
    ]);
    let about = format!("{server} and {client}, as typed");
    let contestant = toml::Table::from_iter([
        ("about".to_owned(), about.into()),
        ("server".to_owned(), words(server)?.into()),
        ("ready".to_owned(), "tcp".into()),
        (workload.to_owned(), measurement.into()),
    ]);
    file.insert(name.to_owned(), contestant.into());
    let text = toml::to_string(&file).map_err(|error| error.to_string())?;
    // The text is ours, so a place in it says nothing; the sentence behind it does.
    let without_place = |why: String| match why.splitn(4, ':').nth(3) {
        Some(sentence) => sentence.trim().to_owned(),
        None => why,
    };
    let all = definition::parse(Path::new("inline"), &text).map_err(without_place)?;
    let only = all.into_iter().next();
    only.ok_or_else(|| FORM.to_owned())
}

/// Words as a POSIX shell splits them.
fn words(text: &str) -> Result<Vec<String>, String> {
    shlex::split(text)
        .ok_or_else(|| format!("a quote is not closed in `{text}`, or it ends with \\"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        read(text).expect("it is inline").expect_err(text)
    }

    #[test]
    fn line_is_a_definition_whose_unit_names_the_workload() {
        let text =
            "mine=sh -c 'exec ./mine -l {port}' :: ./mine -c {host} {port} :: ([0-9.]+) us :: us";
        let (name, found) = read(text).expect("inline").expect("a contestant");
        assert_eq!(name, "mine");
        assert_eq!(found.server, ["sh", "-c", "exec ./mine -l {port}"]);
        assert_eq!(
            found.workloads().keys().copied().collect::<Vec<_>>(),
            ["delay"]
        );
        let text = "i=iperf3 -s -p {port} :: iperf3 -c {host} -p {port} -J :: /end/sum :: bit/s";
        let (_, found) = read(text).expect("inline").expect("a contestant");
        assert!(found.workloads()["throughput"].has("{port}"));
        assert!(read("iperf3").is_none(), "a name alone");
    }

    #[test]
    fn faults_name_the_contestant_and_the_part() {
        for (text, wanted) in [
            (
                "mine=./mine",
                "exec:mine: it has 1 parts instead of 4; write exec:NAME=",
            ),
            (
                "m=./m {port} :: ./c {port} :: [0-9] :: Mbit/s",
                "has no group",
            ),
            (
                "m=./m {port} :: ./c {port} :: ([0-9]+) :: furlong",
                "furlong",
            ),
            (
                "m=./m :: ./c {port} :: ([0-9]+) :: bit/s",
                "its server has no {port}",
            ),
            (
                "m=./m {porto} :: ./c {port} :: ([0-9]+) :: bit/s",
                "unknown {porto}",
            ),
            (
                "m=./m '{port} :: ./c {port} :: ([0-9]+) :: bit/s",
                "is not closed",
            ),
            (
                "a b=./m {port} :: ./c {port} :: ([0-9]+) :: bit/s",
                "is no name",
            ),
        ] {
            let why = refusal(text);
            assert!(
                why.starts_with("exec:") && why.contains(wanted),
                "{text}: {why}"
            );
            assert!(!why.contains("inline:"), "{why}");
        }
    }
}
