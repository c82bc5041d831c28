//! The plan, and the command to run it again.

use crate::quantity;
use results::RunData;
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct Section {
    command: String,
    folder: String,
    rows: Vec<(String, String)>,
}

pub(super) fn section(run: &RunData) -> Section {
    let plan = &run.plan;
    let list = |names: &[String]| {
        let names: Vec<String> = names.iter().map(|name| quantity::clean(name, 40)).collect();
        names.join(", ")
    };
    let sizes: Vec<String> = plan
        .sizes
        .iter()
        .map(|size| quantity::bytes(*size))
        .collect();
    let looks: Vec<String> = plan.blocks.looks.iter().map(u32::to_string).collect();
    let mut rows = vec![
        ("transports", list(&plan.transports)),
        ("baseline", quantity::label(&plan.baseline)),
        ("workloads", list(&plan.workloads)),
        ("message sizes", sizes.join(", ")),
        (
            "blocks",
            format!(
                "{} to {}, analysed after {}",
                plan.blocks.min,
                plan.blocks.max,
                looks.join(", ")
            ),
        ),
        ("trial time", quantity::span_s(plan.trial_s)),
        ("time limit", quantity::span_s(plan.time_s)),
        ("seed", plan.seed.to_string()),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect::<Vec<_>>();
    for (name, value) in plan
        .options
        .iter()
        .filter(|(name, _)| !name.starts_with("class."))
    {
        rows.push((quantity::clean(name, 60), quantity::clean(value, 300)));
    }
    Section {
        command: command(&plan.command),
        folder: folder(run),
        rows,
    }
}

/// Only the folder's own name: its path is private to the owner.
fn folder(run: &RunData) -> String {
    let name = run
        .path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    quantity::clean(&name.unwrap_or_default(), 120)
}

/// The command line with quotes where a shell needs them.
fn command(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    let quoted = words.iter().map(|word| {
        let word = quantity::clean(word, 400);
        match !word.is_empty() && word.chars().all(plain) {
            true => word,
            false => format!("'{}'", word.replace('\'', "'\\''")),
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_is_shell_quoted() {
        let words = ["towpath", "race", "it's"].map(String::from);
        assert_eq!(command(&words), "towpath race 'it'\\''s'");
    }
}
