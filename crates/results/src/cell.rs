//! Cells: the factors varied in a run.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The value of a factor.
#[derive(Clone, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Factor {
    /// A count or a size.
    Integer(i64),
    /// A measure, finite.
    Number(f64),
    /// A name.
    Text(String),
}

impl fmt::Display for Factor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Factor::Integer(value) => write!(f, "{value}"),
            Factor::Number(value) => write!(f, "{value}"),
            Factor::Text(value) => f.write_str(value),
        }
    }
}

impl From<&str> for Factor {
    fn from(text: &str) -> Self {
        Factor::Text(text.to_owned())
    }
}

impl From<String> for Factor {
    fn from(text: String) -> Self {
        Factor::Text(text)
    }
}

impl From<u64> for Factor {
    fn from(value: u64) -> Self {
        Factor::Integer(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

/// A flat map from factor to value: `transport`, `size` (bytes of a message), `workload`, and
/// whatever else a run varies. Factors without a key were not varied.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cell(pub BTreeMap<String, Factor>);

impl Cell {
    /// The factor that distinguishes contestants: a transport with its own options, as in
    /// [`crate::Plan::transports`].
    pub const TRANSPORT: &'static str = "transport";
    /// Bytes of a message.
    pub const SIZE: &'static str = "size";
    /// Which workload: `throughput`, `delay`, `offered`, `connect`, `transactions`.
    pub const WORKLOAD: &'static str = "workload";

    /// An offered load in per cent of the contestant's own capacity.
    pub const LOAD_PERCENT: &'static str = "load_percent";
    /// Messages that each circuit sends, where their number is fixed.
    pub const MESSAGES: &'static str = "messages";
    /// Circuits of each transport, where their number is a factor.
    pub const CIRCUITS: &'static str = "circuits";
    /// Callers of a transport at a time.
    pub const CLIENTS: &'static str = "clients";
    /// An offered load in messages a second.
    pub const RATE: &'static str = "rate_per_s";
    /// Receivers of one sender: their number, or `N@one` where they share its messages.
    pub const FAN_OUT: &'static str = "fan_out";

    /// The cell with one more factor.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Factor>) -> Cell {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    /// The cell without a factor; without [`Cell::TRANSPORT`] it names the contest.
    #[must_use]
    pub fn without(&self, name: &str) -> Cell {
        let mut cell = self.clone();
        cell.0.remove(name);
        cell
    }

    /// A factor as text, empty when it was not varied.
    pub fn text(&self, name: &str) -> String {
        self.0.get(name).map(Factor::to_string).unwrap_or_default()
    }

    /// A factor as a whole number.
    pub fn integer(&self, name: &str) -> Option<i64> {
        match self.0.get(name)? {
            Factor::Integer(value) => Some(*value),
            _ => None,
        }
    }

    /// The transport.
    pub fn transport(&self) -> String {
        self.text(Cell::TRANSPORT)
    }

    /// The message size in bytes.
    pub fn size(&self) -> Option<u64> {
        self.integer(Cell::SIZE)
            .and_then(|size| u64::try_from(size).ok())
    }

    /// The workload.
    pub fn workload(&self) -> String {
        self.text(Cell::WORKLOAD)
    }
}
