//! Further metrics in the cells of a table.

use crate::quantity;
use crate::view::Entry;
use results::{Cell, metric};

/// A metric shown below the median of each cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extra {
    /// The 99 % delay of the merged trials.
    P99,
    /// CPU time of both ends for a message.
    Cpu,
    /// User bits a second.
    Mbit,
    /// User bytes a second.
    Bytes,
    /// Transactions a second of one client: the slowest, the median one, the fastest.
    Clients,
    /// User bits in parts of what the link carries.
    Link,
}

impl Extra {
    /// All, by the word that asks for each.
    pub const ALL: [(&'static str, Extra); 6] = [
        ("p99", Extra::P99),
        ("cpu", Extra::Cpu),
        ("mbit", Extra::Mbit),
        ("bytes", Extra::Bytes),
        ("clients", Extra::Clients),
        ("link", Extra::Link),
    ];

    /// Parses a word.
    ///
    /// # Errors
    ///
    /// A sentence naming all words.
    pub fn parse(word: &str) -> Result<Extra, String> {
        let found = Extra::ALL.iter().find(|(name, _)| *name == word);
        found.map(|(_, extra)| *extra).ok_or_else(|| {
            let words = Extra::ALL.map(|(name, _)| name).join(", ");
            format!("'{word}' is nothing to show; choose from {words}")
        })
    }

    /// The text in a cell; None where it was not measured.
    pub(crate) fn text(self, entry: &Entry) -> Option<String> {
        let median = |name: &str| entry.estimate(name).map(|estimate| estimate.median);
        match self {
            Extra::P99 => p99_text(entry),
            Extra::Cpu => {
                let name = "cpu_ns_per_message";
                Some(format!("CPU {}", quantity::measure(name, median(name)?)))
            }
            Extra::Mbit => {
                let name = metric::MBIT_PER_S;
                Some(quantity::measure(name, median(name)?))
            }
            Extra::Bytes => Some(quantity::si(
                median(metric::MBIT_PER_S)? * BYTES_PER_MBIT,
                "B/s",
            )),
            Extra::Clients => clients_text(entry),
            Extra::Link => {
                let share = quantity::share(median(metric::LINK_SHARE_FRACTION)?);
                Some(format!("{share} of the link"))
            }
        }
    }
}

/// `each 1.2 k/s (1.1 k/s to 1.3 k/s)`; of one client nothing, as its rate is the whole.
fn clients_text(entry: &Entry) -> Option<String> {
    entry
        .cell
        .integer(Cell::CLIENTS)
        .filter(|clients| *clients > 1)?;
    let rate = |name: &str| {
        let estimate = entry.estimate(name)?;
        Some(quantity::measure(name, estimate.median))
    };
    let (low, high) = (rate("client_min_per_s")?, rate("client_max_per_s")?);
    let each = rate(metric::CLIENT_PER_S).unwrap_or(quantity::MISSING.into());
    Some(format!("each {each} ({low} to {high})"))
}

/// 10^6 bits.
const BYTES_PER_MBIT: f64 = 1e6 / 8.0;

/// The percentile of the merged histograms, which it has only with enough samples.
fn p99_text(entry: &Entry) -> Option<String> {
    let samples = *entry.summary.samples.get("delay")?;
    let quantiles = entry.summary.quantiles.get("delay");
    let p99_us = quantiles.and_then(|all| all.get("0.99"));
    Some(match p99_us {
        Some(us) if *us > 0.0 => format!("p99 {}", quantity::time_ns(us * 1e3)),
        _ => format!("p99 unknown: {samples} samples are too few"),
    })
}
