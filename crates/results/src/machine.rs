//! Machines: facts and findings about the hosts.

use serde::{Deserialize, Serialize};

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
