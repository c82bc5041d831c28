//! Machines: facts and findings about the hosts.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Facts about a host, and findings that may disturb a measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Version of the result schema.
    pub version: u32,
    /// Facts, in the order they are shown.
    pub facts: Vec<Fact>,
    /// What doctor found.
    pub findings: Vec<Finding>,
}

/// A fact that differs between two runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FactChange {
    /// Its group.
    pub group: String,
    /// Its name.
    pub name: String,
    /// Its value in the earlier run; None when it was unknown.
    pub before: Option<String>,
    /// Its value in the later run.
    pub after: Option<String>,
}

/// Group and name of a fact.
type FactName = (String, String);

/// Facts that are measured anew each time, so that they say nothing about what was changed.
const MEASURED: [&str; 3] = [
    "memory available",
    "cost of a read (median)",
    "smallest step",
];

/// The group of facts about other work, which differs in each run; of another host as `HOST: load`.
const LOAD_GROUP: &str = "load";

impl Machine {
    /// The facts that differ in a `later` run: processor, kernel, governor, network, build. The load of
    /// the machine and what is measured anew each time are left out.
    pub fn changes(&self, later: &Machine) -> Vec<FactChange> {
        let set = |machine: &Machine| -> Vec<(FactName, String)> {
            let facts = machine.facts.iter().filter(|fact| fact.is_set());
            let named =
                facts.map(|fact| ((fact.group.clone(), fact.name.clone()), fact.value.clone()));
            named.collect()
        };
        let (before, after) = (set(self), set(later));
        let names = before.iter().chain(&after).map(|(name, _)| name.clone());
        let mut seen = BTreeSet::new();
        let names: Vec<FactName> = names.filter(|name| seen.insert(name.clone())).collect();
        let before: BTreeMap<FactName, String> = before.into_iter().collect();
        let after: BTreeMap<FactName, String> = after.into_iter().collect();
        let change = |name: FactName| {
            let (before, after) = (before.get(&name).cloned(), after.get(&name).cloned());
            (before != after).then_some(FactChange {
                group: name.0,
                name: name.1,
                before,
                after,
            })
        };
        names.into_iter().filter_map(change).collect()
    }
}

impl Fact {
    /// Whether it is a property of the host rather than a measurement of its moment.
    fn is_set(&self) -> bool {
        let group = self.group.rsplit(": ").next().unwrap_or_default();
        group != LOAD_GROUP && !MEASURED.contains(&self.name.as_str())
    }
}

/// One fact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fact {
    /// Which group it is shown in: `cpu`, `kernel`, `clock`, `network`, `load`.
    pub group: String,
    /// Its name, e.g. `model`.
    pub name: String,
    /// Its value, with unit.
    pub value: String,
}

/// A finding of doctor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// The observation.
    pub what: String,
    /// Which measurements it affects, and how.
    pub effect: String,
    /// What to do about it.
    pub remedy: String,
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// As it should be.
    Good,
    /// Worth knowing.
    Note,
    /// Results will be noisier or slower than they need be.
    Warning,
    /// Results would mislead.
    Bad,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(facts: &[(&str, &str, &str)]) -> Machine {
        let facts = facts.iter().map(|(group, name, value)| Fact {
            group: (*group).to_owned(),
            name: (*name).to_owned(),
            value: (*value).to_owned(),
        });
        Machine {
            facts: facts.collect(),
            ..Machine::default()
        }
    }

    #[test]
    fn changes_between_machines_leave_out_load_and_what_is_measured() {
        let before = machine(&[
            ("cpu", "frequency governor", "powersave"),
            ("kernel", "release", "6.1"),
            ("kernel", "memory available", "900 MiB"),
            ("load", "steal now", "0 %"),
            ("lab2: load", "steal now", "0 %"),
            ("lab2: kernel", "release", "6.1"),
        ]);
        let after = machine(&[
            ("cpu", "frequency governor", "performance"),
            ("kernel", "release", "6.1"),
            ("kernel", "memory available", "700 MiB"),
            ("load", "steal now", "3 %"),
            ("lab2: load", "steal now", "3 %"),
            ("build", "towpath", "0.2.0"),
        ]);
        let changes = before.changes(&after);
        let named: Vec<_> = changes
            .iter()
            .map(|c| (c.name.as_str(), c.before.as_deref(), c.after.as_deref()))
            .collect();
        assert_eq!(
            named,
            [
                ("frequency governor", Some("powersave"), Some("performance")),
                ("release", Some("6.1"), None),
                ("towpath", None, Some("0.2.0")),
            ]
        );
        assert!(before.changes(&before).is_empty());
    }
}
