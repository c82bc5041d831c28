//! The options of modules: their names, their values and what they mean.

use super::fault::FaultSettings;
use super::seal::SealKey;
use crate::contract::OptionHelp;
use crate::xtp::option_values::parse_interval;
use std::path::PathBuf;
use std::time::Duration;
use streams::Marks;

const fn option(name: &'static str, values: &'static str, meaning: &'static str) -> OptionHelp {
    OptionHelp {
        name,
        values,
        meaning,
    }
}

/// The option that pushes modules.
pub(super) const PUSH: OptionHelp = option(
    "push",
    "MODULE[/MODULE]",
    "modules of a stream between the user and the transport, the user's end first: pass, buffer, \
     meter, capture, fault, compress, seal",
);

/// The options of modules, each named after its module. Every transport has them.
pub(super) const OPTIONS: [OptionHelp; 7] = [
    option(
        "buffer-marks",
        "HIGH/LOW",
        "water marks of the queues of buffer, octets; 5120/1024 unless set",
    ),
    option(
        "capture-to",
        "FOLDER",
        "where capture writes a pcapng file for each circuit, the first 256 octets of each message",
    ),
    option(
        "fault-corrupt",
        "PERCENT%",
        "share of the messages sent of which fault inverts one bit",
    ),
    option(
        "fault-delay",
        "TIME",
        "how long fault holds each message sent, such as 5ms",
    ),
    option(
        "fault-drop",
        "PERCENT%",
        "share of the messages sent that fault drops; on transports that may lose messages",
    ),
    option(
        "fault-seed",
        "NUMBER",
        "where the random numbers of fault start; 0 unless set",
    ),
    option(
        "seal-key",
        "FILE",
        "the key of seal, 32 octets or 64 hexadecimal digits, the same at both ends",
    ),
];

/// The longest that a fault holds a message.
const DELAY_MAX: Duration = Duration::from_secs(10);

/// Values of the options of modules.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Settings {
    pub(super) marks: Option<Marks>,
    pub(super) capture_to: Option<PathBuf>,
    pub(super) fault: FaultSettings,
    pub(super) seal_key: Option<SealKey>,
}

impl Settings {
    /// Sets one option. The error is a sentence that names the option and its values.
    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "buffer-marks" => self.marks = Some(parse_marks(name, value)?),
            "capture-to" => self.capture_to = Some(parse_folder(name, value)?),
            "seal-key" => {
                let key = SealKey::read(value.as_ref());
                self.seal_key = Some(key.map_err(|why| format!("{name}={value}: {why}"))?);
            }
            "fault-corrupt" => self.fault.corrupt = parse_share(name, value)?,
            "fault-drop" => self.fault.drop = parse_share(name, value)?,
            "fault-delay" => {
                let delay = parse_interval(name, value, Duration::from_micros(1))?;
                if delay > DELAY_MAX {
                    return Err(format!("{name}={value} is too long; give at most 10s"));
                }
                self.fault.delay = delay;
            }
            _ => {
                let number = value.parse();
                self.fault.seed =
                    number.map_err(|_| format!("{name}={value}: {name} is a whole number"))?;
            }
        }
        Ok(())
    }
}

/// The module that an option belongs to: its name stands before the hyphen.
pub(super) fn module_of(option: &str) -> &str {
    option.split('-').next().unwrap_or_default()
}

fn parse_marks(name: &str, value: &str) -> Result<Marks, String> {
    let number = |text: &str| text.parse::<usize>().ok();
    let parts = value.split_once('/');
    let marks = parts.and_then(|(high, low)| Some((number(high)?, number(low)?)));
    let (high, low) = marks
        .ok_or_else(|| format!("{name}={value}: {name} is HIGH/LOW, two numbers of octets"))?;
    Marks::new(high, low).map_err(|error| format!("{name}={value}: {error}"))
}

fn parse_share(name: &str, value: &str) -> Result<f64, String> {
    let percent = value.strip_suffix('%').and_then(|text| text.parse().ok());
    match percent {
        Some(percent) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err(format!(
            "{name}={value}: {name} is a share in percent, from 0% to 100%, such as 1%"
        )),
    }
}

fn parse_folder(name: &str, value: &str) -> Result<PathBuf, String> {
    let folder = PathBuf::from(value);
    match folder.is_dir() {
        true => Ok(folder),
        false => Err(format!(
            "{name}={value}: there is no such folder; make it first"
        )),
    }
}
