//! Options of a group as words.

use super::{BucketConfig, GroupEndpointConfig, Reliability};
use crate::contract::OptionHelp;
use crate::xtp::option_values::{self, OFF_ON, parse_choice};
use engine_xtp::ErrorControl;
use engine_xtp::pdu::Version;
use std::collections::BTreeMap;
use std::time::Duration;

/// The words of a group; the same at all ends.
pub const HELP: &[OptionHelp] = &[
    OptionHelp {
        name: "answer",
        values: "sender|group",
        meaning: "where receivers send their control packets: to the sender, or to all at the port after the group's",
    },
    OptionHelp {
        name: "buckets",
        values: "N/E",
        meaning: "no list of members: N status requests in a WTIMER, and E answers of a receiver in a row may be lost, \
                  such as 2/2",
    },
    OptionHelp {
        name: "damping",
        values: "off|on",
        meaning: "whether receivers leave out a control packet that another one has sent; needs buckets and answer=group",
    },
    OptionHelp {
        name: "dialect",
        values: "4.0|3.6|3.5",
        meaning: "version of XTP; 3.6 and 3.5 know no members, so there are buckets, and answers go to the group",
    },
    OptionHelp {
        name: "error",
        values: "selective|gbn|none",
        meaning: "retransmission after a loss: selective, go-back-N, or none; buckets go back",
    },
    OptionHelp {
        name: "rate",
        values: "RATE",
        meaning: "rate limit, bits per second, of the sender, and the one that receivers ask it for",
    },
    OptionHelp {
        name: "replicate",
        values: "off|on",
        meaning: "whether the sender sends each packet to each receiver by itself, where there is no multicast",
    },
    OptionHelp {
        name: "slot",
        values: "TIME",
        meaning: "control packets wait for a random time below it, up to 1s; 0s if not given",
    },
];

/// Longest slot: WTIMER grows by it.
pub(crate) const SLOT_MAX: Duration = Duration::from_secs(1);

/// Most status requests in a WTIMER, and most lost answers in a row: a sender keeps a bucket for each.
const BUCKETS_MAX: u32 = 64;

/// The versions that have groups.
pub(crate) const VERSIONS: [(&str, Version); 3] = [
    ("4.0", Version::V40),
    ("3.6", Version::V36),
    ("3.5", Version::V35),
];

const ANSWERS: [(&str, bool); 2] = [("sender", false), ("group", true)];

const ERRORS: [(&str, ErrorControl); 3] = option_values::ERROR_CONTROLS;

/// What the words of a group ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupWords {
    /// Control packets of receivers go to the group.
    pub answer_to_group: bool,
    /// The bucket algorithm instead of a list of members.
    pub buckets: Option<BucketConfig>,
    /// Control packets that another receiver has sent are left out.
    pub damping: bool,
    /// The version of XTP.
    pub version: Version,
    /// Retransmission; None for the default of how members are tracked.
    pub error: Option<ErrorControl>,
    /// Limit of the sender's rate, bytes per second.
    pub rate_bytes_per_s: Option<u32>,
    /// Packets are sent to each receiver.
    pub replicate: bool,
    /// Longest delay of a control packet.
    pub slot: Duration,
}

impl GroupWords {
    /// The words among `own`.
    ///
    /// # Errors
    ///
    /// A sentence that names the word and its valid values.
    pub fn parse(own: &BTreeMap<String, String>) -> Result<GroupWords, String> {
        let mut words = GroupWords::default();
        for (name, value) in own {
            match name.as_str() {
                "answer" => words.answer_to_group = parse_choice(name, value, &ANSWERS)?,
                "buckets" => words.buckets = Some(parse_buckets(value)?),
                "damping" => words.damping = parse_choice(name, value, &OFF_ON)?,
                "dialect" => words.version = parse_choice(name, value, &VERSIONS)?,
                "error" => words.error = Some(parse_choice(name, value, &ERRORS)?),
                "rate" => words.rate_bytes_per_s = Some(option_values::parse_rate(name, value)?),
                "replicate" => words.replicate = parse_choice(name, value, &OFF_ON)?,
                "slot" => words.slot = parse_slot(value)?,
                _ => {
                    let known: Vec<&str> = HELP.iter().map(|help| help.name).collect();
                    let known = known.join(", ");
                    return Err(format!("a group has no option {name}; it has {known}"));
                }
            }
        }
        if words.version.is_v3() {
            words.complete_for_v3(own.contains_key("answer"));
        }
        words.check().map(|()| words)
    }

    /// What a version without members does where no word says otherwise (0122).
    fn complete_for_v3(&mut self, answer_is_given: bool) {
        if !matches!(
            self.error,
            Some(ErrorControl::None | ErrorControl::Selective)
        ) {
            self.buckets.get_or_insert_default();
        }
        if !answer_is_given {
            self.answer_to_group = !self.replicate && self.error != Some(ErrorControl::None);
        }
    }

    /// Whether the words go together.
    fn check(&self) -> Result<(), String> {
        let wrong = match self {
            _ if self.version.is_v3() && self.error == Some(ErrorControl::Selective) => {
                "3.6 and 3.5 go back in a group; leave out error, or give error=gbn or error=none"
            }
            _ if self.damping && !(self.buckets.is_some() && self.answer_to_group) => {
                "damping=on needs receivers that hear each other and are not counted; add buckets=2/2 and answer=group, \
                 or leave it out"
            }
            _ if self.replicate && self.answer_to_group => {
                "answer=group needs multicast, which replicate=on does without; leave one of them out"
            }
            GroupWords {
                buckets: Some(_),
                error: Some(ErrorControl::Selective | ErrorControl::None),
                ..
            } => "buckets always go back; leave out error, or give error=gbn",
            _ => return Ok(()),
        };
        Err(wrong.to_owned())
    }

    /// Whether members are counted, so that each gets all that is sent, or is known not to.
    pub fn is_reliable(&self) -> bool {
        self.buckets.is_none() && self.error != Some(ErrorControl::None)
    }

    /// Changes a configuration accordingly; a sender that replicates needs its receivers' addresses besides.
    pub fn apply(&self, settings: &mut GroupEndpointConfig) {
        let config = &mut settings.config;
        config.version = self.version;
        settings.ack_to_group = self.answer_to_group;
        config.damping = self.damping;
        config.slot = self.slot;
        config.reliability = match (self.buckets, self.error) {
            (Some(buckets), _) => Reliability::Buckets(buckets),
            (None, Some(ErrorControl::None)) => Reliability::None,
            (None, _) => Reliability::Counted,
        };
        config.error = self.error.unwrap_or(config.error);
        let packet_len = config.packet_len;
        let limit = |rate| option_values::rate_limit(rate, None, packet_len);
        config.rate = self.rate_bytes_per_s.map(limit).or(config.rate);
    }

    /// The words in effect, as shown in results.
    pub fn effective(&self) -> BTreeMap<String, String> {
        let tracking = match self.buckets {
            Some(buckets) => format!("{}/{}", buckets.requests, buckets.tolerated),
            None => "off: members are counted".to_owned(),
        };
        let error = match (self.buckets, self.error) {
            (Some(_), _) => ErrorControl::GoBackN,
            (None, error) => error.unwrap_or(ErrorControl::Selective),
        };
        let name = |yes: bool, words: [&str; 2]| words[usize::from(yes)].to_owned();
        let dialect = version_name(self.version).to_owned();
        let mut errors = ERRORS.iter();
        let error = errors.find(|(_, one)| *one == error);
        let mut effective = BTreeMap::from([
            (
                "answer".into(),
                name(self.answer_to_group, ["sender", "group"]),
            ),
            ("buckets".into(), tracking),
            ("damping".into(), name(self.damping, ["off", "on"])),
            ("dialect".into(), dialect),
            (
                "error".into(),
                error.map_or("?", |(name, _)| name).to_owned(),
            ),
            ("replicate".into(), name(self.replicate, ["off", "on"])),
            ("slot".into(), format!("{} us", self.slot.as_micros())),
        ]);
        if let Some(rate) = self.rate_bytes_per_s {
            let text = format!("{} bit/s", u64::from(rate) * 8);
            effective.insert("rate".into(), text);
        }
        effective
    }
}

/// The name of a version that has groups.
pub(super) fn version_name(version: Version) -> &'static str {
    let mut known = VERSIONS.iter();
    let found = known.find(|(_, one)| *one == version);
    found.map_or("?", |(name, _)| name)
}

/// N and E.
fn parse_buckets(value: &str) -> Result<BucketConfig, String> {
    let number = |text: &str, least: u32| {
        let number = text.parse().ok();
        number.filter(|number| (least..=BUCKETS_MAX).contains(number))
    };
    let both = value.split_once('/');
    let both = both.and_then(|(n, e)| Some((number(n, 1)?, number(e, 0)?)));
    let (requests, tolerated) = both.ok_or_else(|| {
        format!(
            "buckets={value} is not possible; give N/E, N from 1 to {BUCKETS_MAX} and E from 0 to {BUCKETS_MAX}, \
             such as 2/2"
        )
    })?;
    Ok(BucketConfig {
        requests,
        tolerated,
    })
}

fn parse_slot(value: &str) -> Result<Duration, String> {
    let slot = option_values::parse_time("slot", value)?;
    if slot > SLOT_MAX {
        return Err(format!(
            "slot={value} is too long; give up to 1s, such as 2ms"
        ));
    }
    Ok(slot)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[(&str, &str)]) -> Result<GroupWords, String> {
        let own = words.iter().map(|(k, v)| (k.to_string(), v.to_string()));
        GroupWords::parse(&own.collect())
    }

    #[test]
    fn words_set_their_fields() {
        let words = parse(&[
            ("answer", "group"),
            ("buckets", "3/0"),
            ("damping", "on"),
            ("slot", "2ms"),
            ("rate", "80mbit"),
        ]);
        let words = words.expect("all of them are known");
        let mut settings = GroupEndpointConfig::default();
        words.apply(&mut settings);
        let config = &settings.config;
        assert!(settings.ack_to_group && config.damping && !words.is_reliable());
        let buckets = BucketConfig {
            requests: 3,
            tolerated: 0,
        };
        assert_eq!(config.reliability, Reliability::Buckets(buckets));
        assert_eq!(config.slot, Duration::from_millis(2));
        assert_eq!(
            config.rate.map(|rate| rate.rate_bytes_per_s),
            Some(10_000_000)
        );
        assert_eq!(words.effective()["buckets"], "3/0");
        let words = parse(&[("error", "gbn"), ("replicate", "on")]).expect("known");
        let mut settings = GroupEndpointConfig::default();
        words.apply(&mut settings);
        assert_eq!(settings.config.reliability, Reliability::Counted);
        assert_eq!(settings.config.error, ErrorControl::GoBackN);
        assert!(words.replicate && words.is_reliable());
        let words = parse(&[("error", "none")]).expect("known");
        words.apply(&mut settings);
        assert_eq!(settings.config.reliability, Reliability::None);
    }

    #[test]
    fn version_without_members_has_buckets_and_answers_to_the_group() {
        for (dialect, version) in [("3.6", Version::V36), ("3.5", Version::V35)] {
            let words = parse(&[("dialect", dialect)]).expect("known");
            let mut settings = GroupEndpointConfig::default();
            words.apply(&mut settings);
            assert_eq!(settings.config.version, version);
            let buckets = Reliability::Buckets(BucketConfig::default());
            assert_eq!(settings.config.reliability, buckets);
            assert!(settings.ack_to_group && !words.is_reliable());
            assert_eq!(words.effective()["dialect"], dialect);
            assert_eq!(words.effective()["error"], "gbn");
        }
        for (more, to_group) in [(("answer", "sender"), false), (("replicate", "on"), false)] {
            let words = parse(&[("dialect", "3.6"), more]).expect("known");
            assert_eq!(words.answer_to_group, to_group, "{more:?}");
        }
        let words = parse(&[("dialect", "3.6"), ("error", "none")]).expect("known");
        assert!(words.buckets.is_none() && !words.answer_to_group);
        let words = parse(&[("dialect", "4.0")]).expect("known");
        assert!(words.buckets.is_none() && words.is_reliable());
    }

    #[test]
    fn word_that_is_wrong_or_alone_is_refused_with_a_remedy() {
        for (words, part) in [
            (&[("answer", "all")][..], "choose sender, group"),
            (&[("buckets", "2")], "give N/E"),
            (&[("buckets", "0/2")], "N from 1 to 64"),
            (&[("buckets", "2/65")], "E from 0 to 64"),
            (&[("damping", "on")], "add buckets=2/2 and answer=group"),
            (&[("damping", "maybe")], "choose off, on"),
            (&[("dialect", "3.3")], "choose 4.0, 3.6, 3.5"),
            (&[("dialect", "3.6"), ("error", "selective")], "error=gbn"),
            (&[("error", "some")], "choose selective, gbn, none"),
            (&[("error", "selective"), ("buckets", "2/2")], "error=gbn"),
            (&[("rate", "1")], "such as 100mbit"),
            (&[("replicate", "on"), ("answer", "group")], "leave one"),
            (&[("slot", "2s")], "up to 1s"),
            (&[("colour", "red")], "it has answer, buckets"),
        ] {
            let text = parse(words).expect_err("it is wrong");
            assert!(text.contains(part), "{words:?}: {text}");
        }
    }

    #[test]
    fn every_word_in_help_parses_with_its_values() {
        for help in HELP {
            for value in help.values.split('|') {
                let value = match value {
                    "N/E" => "2/2",
                    "RATE" => "10mbit",
                    "TIME" => "2ms",
                    word => word,
                };
                let all = [(help.name, value), ("buckets", "2/2"), ("answer", "group")];
                let needed = if help.name == "damping" {
                    &all[..]
                } else {
                    &all[..1]
                };
                parse(needed).unwrap_or_else(|text| panic!("{text}"));
            }
        }
    }
}
