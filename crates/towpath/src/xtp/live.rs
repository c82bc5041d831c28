//! Options that change while an association, or its endpoint, lives.

use super::config::CTIMER_MIN;
use super::endpoint::Endpoint;
use super::option_values::{parse_count, parse_interval, parse_rate, parse_time, rate_limit};
use engine::{AssociationId, Instant};
use engine_xtp::config::PACKET_LEN;
use engine_xtp::{RateLimit, Xtp};
use std::io;
use std::time::Duration;

/// An option of a live association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveOption {
    /// Limit of the rate of what this side sends; None for none of its own.
    OutputRate(Option<RateLimit>),
    /// Limit of the rate of what the peer sends.
    InputRate(Option<RateLimit>),
    /// Priority among the associations of the endpoint; None for the last place.
    Sort(Option<u16>),
}

impl LiveOption {
    /// The names that [`parse`](LiveOption::parse) knows.
    pub const NAMES: [&'static str; 3] = ["output_rate", "input_rate", "sort"];

    /// An option from words: a rate or a number as of an endpoint's options, or `off`.
    ///
    /// # Errors
    ///
    /// A sentence that names the option and its valid values.
    pub fn parse(name: &str, value: &str) -> Result<LiveOption, String> {
        let rate = || match value {
            "off" => Ok(None),
            _ => parse_rate(name, value).map(|rate| Some(rate_limit(rate, None, PACKET_LEN))),
        };
        match name {
            "output_rate" => rate().map(LiveOption::OutputRate),
            "input_rate" => rate().map(LiveOption::InputRate),
            "sort" if value == "off" => Ok(LiveOption::Sort(None)),
            "sort" => {
                let sort = parse_count(name, value, 0..=u16::MAX)?;
                Ok(LiveOption::Sort(Some(sort)))
            }
            _ => Err(format!(
                "{name} does not change while an association lives; what does is {}",
                LiveOption::NAMES.join(", ")
            )),
        }
    }
}

impl Endpoint {
    /// Changes an option of a live association; of one that is gone, nothing. Errors are those of the wire.
    pub fn change(&self, id: AssociationId, option: LiveOption) -> io::Result<()> {
        self.command(|engine, now| option.apply(engine, now, id))
    }
}

impl LiveOption {
    fn apply(self, engine: &mut Xtp, now: Instant, id: AssociationId) {
        match self {
            LiveOption::OutputRate(rate) => engine.set_rate(now, id, rate),
            LiveOption::InputRate(rate) => engine.impose_rate(now, id, rate),
            LiveOption::Sort(sort) => engine.set_sort(id, sort),
        }
    }
}

/// An option of all associations of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndpointOption {
    /// CTIMER; zero for never.
    Keepalive(Duration),
    /// Status requests without an answer before an association is abandoned.
    RetryCount(u32),
}

impl EndpointOption {
    const NAMES: [&'static str; 2] = ["ctimer", "retrycount"];

    fn parse(name: &str, value: &str) -> Result<EndpointOption, String> {
        match name {
            "ctimer" if parse_time(name, value)?.is_zero() => {
                Ok(EndpointOption::Keepalive(Duration::ZERO))
            }
            "ctimer" => parse_interval(name, value, CTIMER_MIN).map(EndpointOption::Keepalive),
            "retrycount" => parse_count(name, value, 1..=1000).map(EndpointOption::RetryCount),
            _ => Err(format!(
                "{name} does not change while an endpoint lives; what does is {}, and of one association {}",
                EndpointOption::NAMES.join(", "),
                LiveOption::NAMES.join(", ")
            )),
        }
    }
}

/// A change that the user of an endpoint asks for by `towpath xtp set`: `all` or the number of an association, and an option
/// with its value. Errors: a sentence that says what is wrong.
pub(crate) fn change_by_words(engine: &mut Xtp, now: Instant, words: &str) -> Result<(), String> {
    let [which, name, value] = *words.split(' ').collect::<Vec<_>>() else {
        return Err("this is no change; give all or a number, an option and its value".to_owned());
    };
    if which == "all" {
        match EndpointOption::parse(name, value)? {
            EndpointOption::Keepalive(span) => engine.set_keepalive(now, span),
            EndpointOption::RetryCount(count) => engine.set_retries_max(count),
        }
        return Ok(());
    }
    let id = which.parse().map(AssociationId).ok();
    let id = id.filter(|&id| engine.association(now, id).is_some());
    let id = id.ok_or_else(|| {
        format!("there is no association {which}; `towpath xtp contexts` lists them, and all is the endpoint")
    })?;
    LiveOption::parse(name, value)?.apply(engine, now, id);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_by_words_names_what_is_wrong() {
        let mut engine = Xtp::new(engine_xtp::Config::default());
        let mut change = |words: &str| change_by_words(&mut engine, Instant::ZERO, words);
        assert_eq!(change("all ctimer 5s"), Ok(()));
        assert_eq!(change("all retrycount 3"), Ok(()));
        for (words, part) in [
            ("all sort 3", "of one association output_rate"),
            ("all ctimer 1us", "at least 1000us"),
            ("7 sort 3", "no association 7"),
            ("x sort 3", "no association x"),
            ("all ctimer", "this is no change"),
        ] {
            let why = change(words).expect_err("wrong");
            assert!(why.contains(part), "{words}: {why}");
        }
    }

    #[test]
    fn live_options_parse_and_others_are_refused_with_a_remedy() {
        let rate = LiveOption::parse("output_rate", "80mbit").expect("a rate");
        let LiveOption::OutputRate(Some(limit)) = rate else {
            panic!("{rate:?}");
        };
        assert_eq!(limit.rate_bytes_per_s, 10_000_000);
        for (name, value, option) in [
            ("input_rate", "off", LiveOption::InputRate(None)),
            ("sort", "off", LiveOption::Sort(None)),
            ("sort", "7", LiveOption::Sort(Some(7))),
        ] {
            assert_eq!(LiveOption::parse(name, value), Ok(option));
        }
        for (name, value, part) in [
            ("queue", "32k", "what does is output_rate, input_rate, sort"),
            ("sort", "x", "from 0 to 65535"),
            ("output_rate", "1", "such as 100mbit"),
        ] {
            let why = LiveOption::parse(name, value).expect_err("wrong");
            assert!(why.contains(part), "{why}");
        }
    }
}
