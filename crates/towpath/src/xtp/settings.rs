//! What can be set on an endpoint of XTP.

use crate::contract::OptionHelp;
use engine::Framing;
use engine_xtp::{Config, Congestion, ErrorControl};
use std::collections::BTreeMap;

/// Settings of an endpoint. Those not named here are in the engine's [`Config`], which a program
/// can change as a whole.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The engine's; what it says is explained there.
    pub config: Config,
    /// Bytes of a circuit's send store; bytes stay in it until they are acknowledged. Half of it
    /// is room for the largest message.
    pub send_queue_len: usize,
    /// Octets of kernel buffer asked for in each direction. What all circuits of an endpoint may have
    /// on their way should fit into it twice, as the kernel charges its own bookkeeping too.
    pub socket_buffer_len: usize,
    /// Whether many packets pass through the kernel in one call, where it can do that.
    pub segmentation: bool,
}

/// The send store's default: acknowledgements come about every 120 KiB, so four of them.
const STORE_LEN: usize = 512 << 10;

/// Octets of the shortest and longest packet.
const PACKET_LENS: std::ops::RangeInclusive<usize> = 128..=wire_udp::UDP_PAYLOAD_MAX;

impl Default for Settings {
    /// The engine's defaults, with user bytes summed once, by UDP.
    fn default() -> Settings {
        Settings {
            config: Config {
                checksum: false,
                ..Config::default()
            },
            send_queue_len: STORE_LEN,
            socket_buffer_len: wire_udp::BUFFER_LEN,
            segmentation: true,
        }
    }
}

impl Settings {
    /// The words [`parse`](Settings::parse) knows.
    pub const HELP: &'static [OptionHelp] = &[
        OptionHelp {
            name: "checksum",
            values: "off|on",
            meaning: "XTP's own checksum over user bytes, besides UDP's",
        },
        OptionHelp {
            name: "congestion",
            values: "off|loss|delay",
            meaning: "how the sender learns what a shared path takes; XTP itself has nothing",
        },
        OptionHelp {
            name: "error",
            values: "selective|gbn|none",
            meaning: "what is sent again after a loss: what is missing, all from there on, nothing",
        },
        OptionHelp {
            name: "packet",
            values: "BYTES",
            meaning: "octets of a full packet, 128 to 65507; 1472 if not given",
        },
        OptionHelp {
            name: "queue",
            values: "BYTES",
            meaning: "send store and receive window of a circuit, such as 32k",
        },
        OptionHelp {
            name: "segmentation",
            values: "on|off",
            meaning: "whether many packets pass through the kernel in one call",
        },
    ];

    /// Settings from words.
    ///
    /// # Errors
    ///
    /// A sentence that names the word and what would be right.
    pub fn parse(own: &BTreeMap<String, String>) -> Result<Settings, String> {
        Settings::default().with(own)
    }

    /// These settings, changed by words.
    ///
    /// # Errors
    ///
    /// As [`parse`](Settings::parse).
    pub fn with(mut self, own: &BTreeMap<String, String>) -> Result<Settings, String> {
        for (name, value) in own {
            self.set(name, value)?;
        }
        Ok(self)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "checksum" => {
                self.config.checksum = choose(name, value, &[("off", false), ("on", true)])?
            }
            "segmentation" => {
                self.segmentation = choose(name, value, &[("on", true), ("off", false)])?;
            }
            "congestion" => self.config.congestion = choose(name, value, &CONGESTION)?,
            "error" => self.config.error = choose(name, value, &ERROR)?,
            "packet" => {
                self.config.packet_len = bytes(name, value, PACKET_LENS)?;
            }
            "queue" => {
                let len = bytes(name, value, 4096..=64 << 20)?;
                self.send_queue_len = len;
                self.config.window = len as u64;
                self.config.initial_window = self.config.initial_window.min(len as u64);
            }
            _ => {
                let known: Vec<&str> = Settings::HELP.iter().map(|help| help.name).collect();
                return Err(format!(
                    "xtp has no option {name}; it has {}",
                    known.join(", ")
                ));
            }
        }
        Ok(())
    }

    /// The engine's configuration for circuits that keep messages as `framing` says.
    pub(crate) fn config(&self, framing: Framing) -> Config {
        Config {
            framing,
            seed: crate::hosted::seed(),
            ..self.config.clone()
        }
    }

    /// Settings as a result shows them.
    pub(crate) fn effective(&self) -> BTreeMap<String, String> {
        let checksum = match self.config.checksum {
            true => "on: XTP and UDP sum the data",
            false => "off: UDP sums the data",
        };
        let error = ERROR.iter().find(|(_, error)| *error == self.config.error);
        let congestion = CONGESTION
            .iter()
            .find(|(_, congestion)| *congestion == self.config.congestion);
        let named = |name: Option<&str>| name.unwrap_or("?").to_owned();
        BTreeMap::from([
            ("checksum".into(), checksum.into()),
            ("window".into(), self.config.window.to_string()),
            ("send_store".into(), self.send_queue_len.to_string()),
            ("error".into(), named(error.map(|(name, _)| *name))),
            (
                "congestion".into(),
                named(congestion.map(|(name, _)| *name)),
            ),
        ])
    }
}

const ERROR: [(&str, ErrorControl); 3] = [
    ("selective", ErrorControl::Selective),
    ("gbn", ErrorControl::GoBackN),
    ("none", ErrorControl::None),
];

const CONGESTION: [(&str, Congestion); 3] = [
    ("off", Congestion::Off),
    ("loss", Congestion::Loss),
    ("delay", Congestion::Delay),
];

fn choose<T: Copy>(name: &str, value: &str, choices: &[(&str, T)]) -> Result<T, String> {
    let found = choices.iter().find(|(word, _)| *word == value);
    found.map(|(_, choice)| *choice).ok_or_else(|| {
        let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        format!(
            "{name}={value} is not possible; choose {}",
            words.join(", ")
        )
    })
}

/// A number of bytes, with k or M for powers of 1024.
fn bytes(name: &str, value: &str, range: std::ops::RangeInclusive<usize>) -> Result<usize, String> {
    let digits = value.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let factor = match &value[digits.len()..] {
        "" | "B" => Some(1),
        "k" | "K" | "KiB" => Some(1 << 10),
        "m" | "M" | "MiB" => Some(1 << 20),
        _ => None,
    };
    let number = digits.parse::<usize>().ok();
    let len = number.zip(factor).and_then(|(n, f)| n.checked_mul(f));
    len.filter(|len| range.contains(len)).ok_or_else(|| {
        format!(
            "{name}={value} is not possible; give bytes from {} to {}, such as 32k",
            range.start(),
            range.end()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[(&str, &str)]) -> Result<Settings, String> {
        let own = words.iter().map(|(k, v)| (k.to_string(), v.to_string()));
        Settings::parse(&own.collect())
    }

    #[test]
    fn words_set_what_they_say() {
        let settings = parse(&[("checksum", "on"), ("queue", "32k"), ("error", "gbn")]);
        let settings = settings.expect("all of them are known");
        assert!(settings.config.checksum);
        assert_eq!(settings.config.window, 32 << 10);
        assert_eq!(settings.send_queue_len, 32 << 10);
        assert_eq!(settings.config.error, ErrorControl::GoBackN);
        assert_eq!(settings.effective()["error"], "gbn");
    }

    #[test]
    fn every_word_of_the_help_is_known_and_its_values_are() {
        for help in Settings::HELP {
            for value in help.values.split('|') {
                let value = if value == "BYTES" { "8k" } else { value };
                parse(&[(help.name, value)]).unwrap_or_else(|text| panic!("{text}"));
            }
        }
    }

    #[test]
    fn wrong_words_are_named_with_the_right_ones() {
        let wrong = [
            (("error", "maybe"), "choose selective, gbn, none"),
            (("queue", "12"), "from 4096 to 67108864"),
            (("queue", "99999999999999999999k"), "queue=9999"),
            (("packet", "1472x"), "packet=1472x"),
            (("colour", "red"), "it has checksum, congestion, error"),
        ];
        for (word, part) in wrong {
            let text = parse(&[word]).expect_err("it is wrong");
            assert!(text.contains(part), "{text}");
        }
    }
}
