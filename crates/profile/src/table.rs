//! Tables of layers and functions, with message sizes side by side.

use crate::call_table::{CallTable, MeasuredCalls};
use crate::layer::{self, Layer};
use crate::symbolize::Frame;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Number of messages the times refer to, as in the study of 1984.
pub const PER_MESSAGES: f64 = 10_000.0;

/// A row grows with size when its time at the largest size exceeds that at the smallest by this
/// many standard errors, and ...
const STANDARD_ERRORS_MIN: f64 = 3.0;

/// ... by this factor.
const GROWTH: f64 = 1.2;

/// Most functions shown of a layer.
const PROCEDURES_MAX: usize = 8;

/// Functions below this share of the time at every size are not shown.
const SHOWN_SHARE: f64 = 0.005;

/// Which functions a table lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// Those that take most of the time of each layer, by short names.
    #[default]
    Main,
    /// All that were sampled, by their whole names.
    All,
}

/// Samples of one side at one size, by layer and function.
#[derive(Clone, Debug, Default)]
pub struct SampleTally {
    /// Weight and number of samples of each function.
    pub procedures: BTreeMap<(Layer, String), (f64, u64)>,
}

impl SampleTally {
    /// Counts a sample by its stack, innermost frame first.
    pub fn add(&mut self, frames: &[Frame], weight: f64) {
        let (layer, name) = layer::classify(frames);
        let entry = self.procedures.entry((layer, name.to_owned())).or_default();
        entry.0 += weight;
        entry.1 += 1;
    }

    /// Total weight.
    pub fn weight(&self) -> f64 {
        self.procedures.values().map(|(weight, _)| weight).sum()
    }

    /// Number of samples.
    pub fn samples(&self) -> u64 {
        self.procedures.values().map(|(_, count)| count).sum()
    }
}

/// Totals of one message size.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Column {
    /// Octets of a message.
    pub size: u64,
    /// Messages this side sent or received.
    pub messages: u64,
    /// CPU seconds they took.
    pub cpu_s: f64,
    /// Seconds they took.
    pub span_s: f64,
    /// Samples taken.
    pub samples: u64,
    /// Samples lost because the ring was full.
    pub lost: u64,
}

/// A time or a count at each size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProfileRow {
    /// Layer, function or event.
    pub name: String,
    /// The values: seconds per 10,000 messages, or events per message; None where unknown.
    pub values: Vec<Option<f64>>,
    /// Standard errors of times, from the number of samples; empty for counts.
    pub errors: Vec<f64>,
    /// Whether it grows significantly with size.
    pub grows: bool,
}

/// A layer and its functions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LayerRows {
    /// The layer as a whole.
    pub layer: ProfileRow,
    /// Its functions, longest time first; negligible ones are omitted, unless [`Detail::All`] are asked for.
    pub procedures: Vec<ProfileRow>,
}

/// One side of a transport.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SideProfile {
    /// `sender` or `receiver`.
    pub name: String,
    /// The sizes, ascending.
    pub columns: Vec<Column>,
    /// CPU time by layer, user space first.
    pub layers: Vec<LayerRows>,
    /// Total CPU time.
    pub total: ProfileRow,
    /// Time off the CPU: sleeping or runnable.
    pub off: ProfileRow,
    /// Events per message.
    pub counts: Vec<ProfileRow>,
    /// Calls of kernel routines, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<CallTable>,
}

/// One side at one size, as measured.
#[derive(Clone, Debug, Default)]
pub struct MeasuredSize {
    /// The size and totals.
    pub column: Column,
    /// The samples.
    pub tally: SampleTally,
    /// Events per message.
    pub counts: BTreeMap<String, f64>,
    /// Calls of kernel routines, if they were asked for.
    pub calls: Option<MeasuredCalls>,
}

impl SideProfile {
    /// The table of a side, from its sizes in ascending order.
    pub fn of(name: &str, sizes: &[MeasuredSize], detail: Detail) -> SideProfile {
        let layers = Layer::ALL
            .iter()
            .filter_map(|&layer| layer_rows(layer, sizes, detail));
        let per = |of: fn(&Column) -> f64| {
            let values = sizes.iter().map(|size| (of(&size.column), 0.0));
            row("", sizes, values.collect())
        };
        let counted: BTreeSet<&String> = sizes.iter().flat_map(|size| size.counts.keys()).collect();
        SideProfile {
            name: name.to_owned(),
            columns: sizes.iter().map(|size| size.column.clone()).collect(),
            layers: layers.collect(),
            total: ProfileRow {
                name: "on the processor".into(),
                ..per(|column| column.cpu_s)
            },
            off: ProfileRow {
                name: "off the processor".into(),
                ..per(|column| (column.span_s - column.cpu_s).max(0.0))
            },
            counts: counted
                .into_iter()
                .map(|name| count_row(name, sizes))
                .collect(),
            calls: CallTable::of(sizes.iter().map(|size| size.calls.as_ref())),
        }
    }

    /// All rows that grow with size, layers and functions.
    pub fn growing(&self) -> impl Iterator<Item = &ProfileRow> {
        let rows = self
            .layers
            .iter()
            .flat_map(|rows| [&rows.layer].into_iter().chain(&rows.procedures));
        rows.filter(|row| row.grows)
    }
}

/// Weight and number of samples by function, of one layer at one size.
type LayerTally = BTreeMap<String, (f64, u64)>;

fn layer_rows(layer: Layer, sizes: &[MeasuredSize], detail: Detail) -> Option<LayerRows> {
    let found: Vec<LayerTally> = sizes
        .iter()
        .map(|size| tally_of_layer(&size.tally, layer))
        .collect();
    let names: BTreeSet<&String> = found.iter().flat_map(BTreeMap::keys).collect();
    if names.is_empty() {
        return None;
    }
    let whole = found.iter().zip(sizes).map(|(found, size)| {
        let add = |sum: (f64, u64), one: &(f64, u64)| (sum.0 + one.0, sum.1 + one.1);
        seconds(found.values().fold((0.0, 0), add), size)
    });
    let of = |name: &String| -> Vec<(f64, f64)> {
        let each = found.iter().zip(sizes);
        each.map(|(found, size)| seconds(found.get(name).copied().unwrap_or_default(), size))
            .collect()
    };
    let mut procedures: Vec<ProfileRow> = names
        .into_iter()
        .map(|name| (name, of(name)))
        .filter(|(_, values)| detail == Detail::All || is_shown(values, sizes))
        .map(|(name, values)| match detail {
            Detail::Main => row(&short_name(name), sizes, values),
            Detail::All => row(name, sizes, values),
        })
        .collect();
    procedures.sort_by(|one, other| largest(other).total_cmp(&largest(one)));
    if detail == Detail::Main {
        procedures.truncate(PROCEDURES_MAX);
    }
    Some(LayerRows {
        layer: row(layer.name(), sizes, whole.collect()),
        procedures,
    })
}

fn tally_of_layer(tally: &SampleTally, layer: Layer) -> LayerTally {
    let own = tally.procedures.iter().filter(|((of, _), _)| *of == layer);
    own.map(|((_, name), value)| (name.clone(), *value))
        .collect()
}

/// Seconds that samples represent, and their standard error. The samples divide the CPU time
/// counted by the scheduler; the number of samples of a function is a Poisson count.
fn seconds((weight, count): (f64, u64), size: &MeasuredSize) -> (f64, f64) {
    let all = size.tally.weight();
    if all == 0.0 {
        return (0.0, 0.0);
    }
    let value = size.column.cpu_s * weight / all;
    // At least one sample, where there are none.
    let one = size.column.cpu_s / size.tally.samples().max(1) as f64;
    (value, (value / (count.max(1) as f64).sqrt()).max(one))
}

fn is_shown(values: &[(f64, f64)], sizes: &[MeasuredSize]) -> bool {
    let mut all = values.iter().zip(sizes);
    all.any(|((value, _), size)| *value > SHOWN_SHARE * size.column.cpu_s)
}

fn largest(row: &ProfileRow) -> f64 {
    row.values.iter().flatten().copied().fold(0.0, f64::max)
}

/// A row of seconds, divided among the messages.
fn row(name: &str, sizes: &[MeasuredSize], values: Vec<(f64, f64)>) -> ProfileRow {
    let per = |size: &MeasuredSize| match size.column.messages {
        0 => None,
        messages => Some(PER_MESSAGES / messages as f64),
    };
    let scaled: Vec<Option<(f64, f64)>> = values
        .iter()
        .zip(sizes)
        .map(|((value, error), size)| per(size).map(|factor| (value * factor, error * factor)))
        .collect();
    ProfileRow {
        name: name.to_owned(),
        grows: grows(&scaled),
        values: scaled
            .iter()
            .map(|pair| pair.map(|(value, _)| value))
            .collect(),
        errors: scaled
            .iter()
            .map(|pair| pair.map_or(0.0, |(_, error)| error))
            .collect(),
    }
}

fn grows(values: &[Option<(f64, f64)>]) -> bool {
    let (Some(Some(first)), Some(Some(last))) = (values.first(), values.last()) else {
        return false;
    };
    let error = first.1.hypot(last.1);
    values.len() > 1 && last.0 > first.0 * GROWTH && last.0 - first.0 > STANDARD_ERRORS_MIN * error
}

fn count_row(name: &str, sizes: &[MeasuredSize]) -> ProfileRow {
    let values = sizes.iter().map(|size| size.counts.get(name).copied());
    row_of_counts(name, values.collect())
}

/// A row of events per message.
pub(crate) fn row_of_counts(name: &str, values: Vec<Option<f64>>) -> ProfileRow {
    let ends = values
        .first()
        .copied()
        .flatten()
        .zip(values.last().copied().flatten());
    ProfileRow {
        name: name.to_owned(),
        grows: values.len() > 1 && ends.is_some_and(|(first, last)| last > first * GROWTH + 0.001),
        values,
        errors: Vec::new(),
    }
}

/// A function's name shortened for tables: the type instead of its traits, no type parameters, and
/// of a long path the crate and the last two parts.
pub fn short_name(name: &str) -> String {
    let name = without_parameters(&without_traits(name));
    let parts: Vec<&str> = name.split("::").filter(|part| !part.is_empty()).collect();
    match parts[..] {
        [first, .., before, last] if parts.len() > 3 => format!("{first}::..::{before}::{last}"),
        _ => parts.join("::"),
    }
}

/// `<a::B as c::D>::e` is `a::B::e`.
fn without_traits(name: &str) -> String {
    let Some(rest) = name.strip_prefix('<') else {
        return name.to_owned();
    };
    let Some((owner, behind)) = rest.split_once(" as ") else {
        return rest.replacen('>', "", 1);
    };
    // The trait may have type parameters: its end closes the first bracket.
    let mut depth = 1;
    for (at, c) in behind.char_indices() {
        depth += i32::from(c == '<') - i32::from(c == '>');
        if depth == 0 {
            return format!("{owner}{}", &behind[at + 1..]);
        }
    }
    owner.to_owned()
}

fn without_parameters(name: &str) -> String {
    let mut depth = 0;
    let mut kept = String::new();
    for c in name.chars() {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ if depth <= 0 => kept.push(c),
            _ => {}
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(size: u64, copy: u64, tcp: u64) -> MeasuredSize {
        let mut tally = SampleTally::default();
        let frame = |name: &str| Frame {
            name: name.into(),
            kernel: true,
        };
        for _ in 0..copy {
            tally.add(&[frame("_copy_from_iter"), frame("tcp_sendmsg")], 1.0);
        }
        for _ in 0..tcp {
            tally.add(&[frame("tcp_sendmsg")], 1.0);
        }
        MeasuredSize {
            column: Column {
                size,
                messages: 20_000,
                // A millisecond a sample.
                cpu_s: (copy + tcp) as f64 / 1000.0,
                span_s: 2.0,
                samples: copy + tcp,
                lost: 0,
            },
            tally,
            counts: BTreeMap::from([("system calls".to_owned(), 1.0)]),
            calls: None,
        }
    }

    #[test]
    fn seconds_are_scaled_and_growing_rows_marked() {
        let side = SideProfile::of(
            "sender",
            &[size(64, 100, 400), size(16_384, 900, 410)],
            Detail::Main,
        );
        let names: Vec<&str> = side
            .layers
            .iter()
            .map(|rows| rows.layer.name.as_str())
            .collect();
        assert_eq!(names, ["TCP/UDP", "copy"]);
        let copy = &side.layers[1];
        // 100 ms for 20,000 messages.
        assert_eq!(
            copy.layer.values[0].map(|s| (s * 1e6).round()),
            Some(50_000.0)
        );
        assert!(copy.layer.grows && copy.procedures[0].grows);
        assert!(!side.layers[0].layer.grows, "{:?}", side.layers[0].layer);
        assert_eq!(
            side.total.values[1].map(|s| (s * 1e6).round()),
            Some(655_000.0)
        );
        assert_eq!(
            side.off.values[0].map(|s| (s * 1e6).round()),
            Some(750_000.0)
        );
        let growing: Vec<&str> = side.growing().map(|row| row.name.as_str()).collect();
        assert_eq!(growing, ["copy", "_copy_from_iter"]);
        assert_eq!(side.counts[0].values, [Some(1.0), Some(1.0)]);
        assert!(!side.counts[0].grows);
    }

    #[test]
    fn all_functions_are_listed_by_their_names_if_asked_for() {
        let mut measured = size(64, 10, 10_000);
        for number in 0..20 {
            let frame = Frame {
                name: format!("<a::B as c::D>::seldom_{number}").into(),
                kernel: false,
            };
            measured.tally.add(&[frame], 0.001);
        }
        let functions = |detail| -> Vec<String> {
            let side = SideProfile::of("sender", std::slice::from_ref(&measured), detail);
            let rows = side.layers.into_iter().flat_map(|rows| rows.procedures);
            rows.map(|row| row.name).collect()
        };
        let [main, all] = [Detail::Main, Detail::All].map(functions);
        assert_eq!(all.len(), measured.tally.procedures.len());
        assert!(
            all.contains(&"<a::B as c::D>::seldom_19".to_owned()),
            "{all:?}"
        );
        assert!(main.len() < 4, "{main:?}");
    }

    #[test]
    fn insignificant_growth_is_not_marked() {
        // 9 and 14 samples: 1.04 standard errors apart.
        let side = SideProfile::of(
            "sender",
            &[size(64, 9, 400), size(128, 14, 400)],
            Detail::Main,
        );
        assert!(side.growing().next().is_none());
        let alone = SideProfile::of("sender", &[size(64, 9, 400)], Detail::Main);
        assert!(alone.growing().next().is_none());
    }

    #[test]
    fn zero_messages_give_no_time_per_message() {
        let mut empty = size(64, 1, 1);
        empty.column.messages = 0;
        let side = SideProfile::of("receiver", &[empty], Detail::Main);
        assert_eq!(side.total.values, [None]);
        let nothing = SideProfile::of("receiver", &[MeasuredSize::default()], Detail::Main);
        assert!(nothing.layers.is_empty());
    }

    #[test]
    fn function_names_are_shortened() {
        assert_eq!(short_name("tcp_sendmsg"), "tcp_sendmsg");
        assert_eq!(
            short_name(
                "<engine_xtp::association::Engine as engine::contract::Engine<u8>>::transmit"
            ),
            "engine_xtp::..::Engine::transmit"
        );
        assert_eq!(
            short_name("driver::ring::Ring<T>::put::<u8>"),
            "driver::..::Ring::put"
        );
        assert_eq!(short_name("<a::B>::c"), "a::B::c");
        assert_eq!(short_name("<broken"), "broken");
    }
}
