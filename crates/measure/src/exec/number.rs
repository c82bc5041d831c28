//! The number of a program: in its output as JSON or as text, or counted on its host's interface.

use control::{HostTraffic, ProgramReport};
use loadgen::worker::program::output::last_lines;
use regex_lite::Regex;
use results::metric;
use serde::{Deserialize, Deserializer, de};

/// Lines of an output that an error shows.
const LINES_SHOWN: usize = 5;

/// Largest number that is believed: a terabit a second, or as many of anything.
const NUMBER_MAX: f64 = 1e15;

/// Where a number is, and what it is a number of.
#[derive(Clone, Debug)]
pub(crate) struct Number {
    source: Source,
    unit: Unit,
    times: f64,
    of_server: bool,
}

#[derive(Clone, Debug)]
enum Source {
    /// A JSON pointer (RFC 6901) into the output.
    Json(String),
    /// The first group of the last match in the output.
    Regex(Regex),
    /// What the receiving host's interface received.
    Counted,
}

/// A unit that a number is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Bits a second, times this.
    Bits(u64),
    /// Octets a second, times this.
    Octets(u64),
    /// Messages a second.
    Messages,
    /// Packets a second, as counted on an interface.
    Packets,
    /// A time, of so many nanoseconds.
    Nanoseconds(u64),
    /// Round trips a second.
    RoundTrips,
}

const UNITS: [(&str, Unit); 15] = [
    ("bit/s", Unit::Bits(1)),
    ("kbit/s", Unit::Bits(1_000)),
    ("Mbit/s", Unit::Bits(1_000_000)),
    ("Gbit/s", Unit::Bits(1_000_000_000)),
    ("B/s", Unit::Octets(1)),
    ("kB/s", Unit::Octets(1_000)),
    ("MB/s", Unit::Octets(1_000_000)),
    ("MiB/s", Unit::Octets(1 << 20)),
    ("messages/s", Unit::Messages),
    ("packets/s", Unit::Packets),
    ("s", Unit::Nanoseconds(1_000_000_000)),
    ("ms", Unit::Nanoseconds(1_000_000)),
    ("us", Unit::Nanoseconds(1_000)),
    ("ns", Unit::Nanoseconds(1)),
    ("round trips/s", Unit::RoundTrips),
];

impl Unit {
    /// The units of a workload's number; none for a workload that programs do not measure.
    pub(crate) fn of_workload(workload: &str) -> Vec<&'static str> {
        let fits = |unit: Unit| match workload {
            "throughput" => !matches!(unit, Unit::Nanoseconds(_) | Unit::RoundTrips),
            "delay" => matches!(unit, Unit::Nanoseconds(_) | Unit::RoundTrips),
            _ => false,
        };
        let all = UNITS.iter().filter(|(_, unit)| fits(*unit));
        all.map(|(name, _)| *name).collect()
    }

    fn name(self) -> &'static str {
        let found = UNITS.iter().find(|(_, unit)| *unit == self);
        found.map_or("", |(name, _)| name)
    }
}

/// What a worker saw at both ends, and over how many seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    /// The client.
    pub(crate) client: &'a ProgramReport,
    /// The server.
    pub(crate) server: &'a ProgramReport,
    /// What the interface of the server's host carried until the server was stopped.
    pub(crate) server_traffic: HostTraffic,
    /// Seconds the client ran.
    pub(crate) span_s: f64,
    /// What it carried while the client ran, and in how many seconds.
    pub(crate) during: (HostTraffic, f64),
}

/// A number in the measure it is about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Reading {
    /// User octets a second, from bits or octets.
    OctetsPerS(f64),
    /// Messages a second.
    PerS(f64),
    /// Microseconds.
    Us(f64),
}

impl Number {
    /// Whether it is counted on an interface.
    pub(crate) fn is_counted(&self) -> bool {
        matches!(self.source, Source::Counted)
    }

    /// Checks its unit against the measure it is to be.
    pub(crate) fn check(&self, measure: &str, workload: &str) -> Result<(), String> {
        let known = metric::find(measure)
            .ok_or_else(|| format!("'{measure}' is no measure; use one such as delay_p99_us"))?;
        let units = match measure == metric::primary(workload) {
            true => Unit::of_workload(workload),
            false if known.unit == "us" => Unit::of_workload("delay"),
            false => return Err(format!("'{measure}' is no time; `also` has times only")),
        };
        let name = self.unit.name();
        match units.contains(&name) {
            true => Ok(()),
            false => Err(format!(
                "{name} is no unit of {workload}; use one of {}",
                units.join(", ")
            )),
        }
    }

    /// Reads it. Errors: a sentence that says what was looked for, with the last lines of the output.
    pub(crate) fn read(&self, seen: &Seen<'_>) -> Result<Reading, String> {
        let (who, report) = match self.of_server {
            true => ("server", seen.server),
            false => ("client", seen.client),
        };
        let raw = match &self.source {
            Source::Json(pointer) => from_json(pointer, who, report),
            Source::Regex(pattern) => from_text(pattern, who, report),
            Source::Counted => Ok(self.counted(seen)),
        }?;
        let value = raw * self.times;
        if !value.is_finite() || value <= 0.0 || value > NUMBER_MAX {
            let unit = self.unit.name();
            return Err(format!(
                "the {who}'s number is {value} {unit}, which cannot be"
            ));
        }
        Ok(match self.unit {
            Unit::Bits(scale) => Reading::OctetsPerS(value * scale as f64 / 8.0),
            Unit::Octets(scale) => Reading::OctetsPerS(value * scale as f64),
            Unit::Messages | Unit::Packets => Reading::PerS(value),
            Unit::Nanoseconds(scale) => Reading::Us(value * scale as f64 / 1e3),
            Unit::RoundTrips => Reading::Us(1e6 / value),
        })
    }

    /// A second's octets, packets or bits, as the server's host received them.
    fn counted(&self, seen: &Seen<'_>) -> f64 {
        let (traffic, span_s) = seen.during;
        let count = match self.unit {
            Unit::Packets => traffic.received_packets as f64,
            Unit::Bits(scale) => traffic.received_octets as f64 * 8.0 / scale as f64,
            Unit::Octets(scale) => traffic.received_octets as f64 / scale as f64,
            _ => f64::NAN,
        };
        count / span_s.max(1e-9)
    }
}

fn from_json(pointer: &str, who: &str, report: &ProgramReport) -> Result<f64, String> {
    let said = || last_lines(&[&report.errors, &report.output], LINES_SHOWN);
    // Some programs print a line or two before their document.
    let document = report.output.find(['{', '[']);
    let document = document.map_or("", |at| &report.output[at..]);
    let value: serde_json::Value = serde_json::from_str(document)
        .map_err(|error| format!("the {who}'s output is no JSON: {error}{}", said()))?;
    let found = value.pointer(pointer);
    let number = found.and_then(|found| match found {
        serde_json::Value::String(text) => text.trim().parse().ok(),
        other => other.as_f64(),
    });
    number.ok_or_else(|| {
        let why = match value.pointer("/error").and_then(|error| error.as_str()) {
            Some(error) => format!("; its error is \"{}\"", control::validate::sentence(error)),
            None => said(),
        };
        format!("the {who}'s JSON has no number at {pointer}{why}")
    })
}

/// The last match: programs print what they have so far, and the total at the end.
fn from_text(pattern: &Regex, who: &str, report: &ProgramReport) -> Result<f64, String> {
    let find = |text: &str| -> Option<f64> {
        let last = pattern.captures_iter(text).last()?;
        last.get(1)?.as_str().parse().ok()
    };
    find(&report.output)
        .or_else(|| find(&report.errors))
        .ok_or_else(|| {
            let said = last_lines(&[&report.output, &report.errors], LINES_SHOWN);
            format!("the {who}'s output has no match of '{pattern}'{said}")
        })
}

/// The octets a second that a host must have received for this reading.
pub(crate) fn octets_per_s_at_least(reading: Reading, message_len: u64) -> Option<f64> {
    match reading {
        Reading::OctetsPerS(rate) => Some(rate),
        Reading::PerS(rate) => Some(rate * message_len as f64),
        Reading::Us(_) => None,
    }
}

const ONE_SOURCE: &str =
    "a number has one of json = \"/pointer\", regex = '...(...)...' and counted = true";

const COUNTED_UNITS: &str =
    "an interface counts bits, octets and packets, and packets are counted there only";

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Number, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Written {
            json: Option<String>,
            regex: Option<String>,
            counted: Option<bool>,
            unit: String,
            times: Option<f64>,
            from: Option<String>,
        }
        let written = Written::deserialize(from)?;
        let fault = |why: String| de::Error::custom(why);
        let source = match (written.json, written.regex, written.counted) {
            (Some(pointer), None, None) if pointer.starts_with('/') => Source::Json(pointer),
            (Some(pointer), None, None) => {
                return Err(fault(format!(
                    "'{pointer}' is no JSON pointer (RFC 6901); write /end/sum/bits_per_second"
                )));
            }
            (None, Some(text), None) => Source::Regex(pattern(&text).map_err(fault)?),
            (None, None, Some(true)) => Source::Counted,
            _ => {
                return Err(fault(ONE_SOURCE.to_owned()));
            }
        };
        let unit = UNITS.iter().find(|(name, _)| *name == written.unit);
        let (_, unit) = unit.ok_or_else(|| {
            let names: Vec<&str> = UNITS.iter().map(|(name, _)| *name).collect();
            fault(format!(
                "unknown unit '{}'; use one of {}",
                written.unit,
                names.join(", ")
            ))
        })?;
        let of_server = match written.from.as_deref() {
            None | Some("client") => false,
            Some("server") => true,
            Some(other) => {
                return Err(fault(format!(
                    "from is '{other}', not \"client\" or \"server\""
                )));
            }
        };
        let times = written.times.unwrap_or(1.0);
        if !times.is_finite() || times <= 0.0 {
            return Err(fault(format!("times is {times}, not a number above 0")));
        }
        let is_counted = matches!(source, Source::Counted);
        let can_count = matches!(unit, Unit::Bits(_) | Unit::Octets(_) | Unit::Packets);
        if is_counted && !can_count || !is_counted && *unit == Unit::Packets {
            return Err(fault(COUNTED_UNITS.to_owned()));
        }
        Ok(Number {
            source,
            unit: *unit,
            times,
            of_server,
        })
    }
}

/// A regular expression with a group around the number.
fn pattern(text: &str) -> Result<Regex, String> {
    let pattern =
        Regex::new(text).map_err(|error| format!("'{text}' is no regular expression: {error}"))?;
    match pattern.captures_len() {
        ..2 => Err(format!(
            "'{text}' has no group; put the number in parentheses"
        )),
        _ => Ok(pattern),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        #[derive(Deserialize)]
        struct Holder {
            number: Number,
        }
        let holder: Holder = toml::from_str(&format!("number = {text}")).expect(text);
        holder.number
    }

    fn read(text: &str, output: &str) -> Result<Reading, String> {
        let client = ProgramReport {
            output: output.into(),
            ..ProgramReport::default()
        };
        number(text).read(&Seen {
            client: &client,
            server: &ProgramReport::default(),
            server_traffic: HostTraffic::default(),
            span_s: 1.0,
            during: (
                HostTraffic {
                    received_octets: 3000,
                    received_packets: 10,
                    ..HostTraffic::default()
                },
                2.0,
            ),
        })
    }

    #[test]
    fn number_is_found_in_json_by_pointer() {
        let output = "warning: x\n{\"end\": {\"rates\": [{\"bps\": 8e6}]}}";
        let text = "{ json = '/end/rates/0/bps', unit = 'bit/s' }";
        assert_eq!(read(text, output), Ok(Reading::OctetsPerS(1e6)));
        let why = read(text, "{\"error\": \"unable to connect\"}").expect_err("no number");
        assert!(why.contains("no number at /end/rates/0/bps"), "{why}");
        assert!(why.contains("unable to connect"), "{why}");
        let why = read(text, "usage: mine").expect_err("no JSON");
        assert!(
            why.contains("is no JSON") && why.contains("usage: mine"),
            "{why}"
        );
    }

    #[test]
    fn number_is_the_group_of_the_last_match_and_a_miss_shows_the_output() {
        let text = "{ regex = '([0-9.]+) ms', unit = 'ms', times = 2 }";
        assert_eq!(read(text, "1 ms\n2.5 ms\n"), Ok(Reading::Us(5000.0)));
        let why = read(text, "one\ntwo\n").expect_err("no match");
        assert!(why.contains("no match of"), "{why}");
        assert!(why.ends_with("it said \"one\" \"two\""), "{why}");
    }

    #[test]
    fn number_is_counted_on_the_interface() {
        let octets = "{ counted = true, unit = 'B/s' }";
        assert_eq!(read(octets, ""), Ok(Reading::OctetsPerS(1500.0)));
        let packets = "{ counted = true, unit = 'packets/s' }";
        assert_eq!(read(packets, ""), Ok(Reading::PerS(5.0)));
    }

    #[test]
    fn number_that_cannot_be_is_refused() {
        let text = "{ regex = '([-0-9.infa]+) us', unit = 'us' }";
        for output in ["0 us", "-1 us", "inf us", "nan us", "99999999999999999 us"] {
            let why = read(text, output).expect_err(output);
            assert!(why.contains("cannot be"), "{why}");
        }
        let rate = "{ regex = '([0-9]+) /s', unit = 'round trips/s' }";
        assert_eq!(read(rate, "20000 /s"), Ok(Reading::Us(50.0)));
    }
}
