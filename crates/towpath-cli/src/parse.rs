//! Option values: sizes, times, ranges. Every error names the value and a valid example.

mod sizes;

pub use sizes::{RaceSizes, race_sizes, size, sizes};

use control::Mix;
use loadgen::turn_schedule::{TURN_MAX_S, TURN_MIN_S};
use measure::spec::ReplyLen;
use measure::turn_plan::TurnChoice;
use std::time::Duration;

/// `60s`, `500ms`, `2m`, `1h`, or seconds.
///
/// # Errors
///
/// A sentence naming the text.
pub fn time(text: &str) -> Result<Duration, String> {
    let seconds = match text.parse() {
        Ok(seconds) => seconds,
        Err(_) => quantity::time_ps(text)? as f64 * 1e-12,
    };
    if !(seconds > 0.0 && seconds <= 86_400.0) {
        return Err(format!(
            "'{text}' is out of range; a time lies between 1us and 24h"
        ));
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// Longest service: a trial lasts for ten.
const SERVICE_MAX: Duration = Duration::from_secs(10);

/// `100us`, up to `10s`.
///
/// # Errors
///
/// A sentence naming the text.
pub fn service(text: &str) -> Result<Duration, String> {
    let service = time(text)?;
    match service <= SERVICE_MAX && service >= Duration::from_micros(1) {
        true => Ok(service),
        false => Err(format!(
            "'{text}' is out of range; a service takes from 1us to 10s"
        )),
    }
}

/// `512`, `4KiB`, or `same`.
///
/// # Errors
///
/// A sentence naming the text.
pub fn reply(text: &str) -> Result<ReplyLen, String> {
    if text == "same" {
        return Ok(ReplyLen::Same);
    }
    match size(text)? {
        0 => Err(
            "a reply of 0 bytes looks like the end of a byte stream; begin at 1, or write same"
                .into(),
        ),
        len => Ok(ReplyLen::Bytes(len)),
    }
}

/// `5`, or `5..20`: at least 5, at most 20.
///
/// # Errors
///
/// A sentence naming the text.
pub fn blocks(text: &str) -> Result<(u32, u32), String> {
    let wrong = || format!("'{text}' is no number of blocks; write for example 5 or 5..20");
    let number = |text: &str| text.parse::<u32>().map_err(|_| wrong());
    let (min, max) = match text.split_once("..") {
        Some((min, max)) => (number(min)?, number(max)?),
        None => (number(text)?, number(text)?),
    };
    if min < 1 || min > max || max > 1000 {
        return Err(format!(
            "'{text}' blocks: the first must be 1 or more, the second not below it nor above 1000"
        ));
    }
    Ok((min, max))
}

/// `3%` or `0.03` as a fraction.
///
/// # Errors
///
/// A sentence naming the text.
pub fn percent(text: &str) -> Result<f64, String> {
    let wrong = || format!("'{text}' is no share; write for example 3%");
    let fraction = match text.strip_suffix('%') {
        Some(number) => number.trim().parse::<f64>().map_err(|_| wrong())? / 100.0,
        None => text.parse::<f64>().map_err(|_| wrong())?,
    };
    if !(fraction > 0.0 && fraction < 1.0) {
        return Err(format!(
            "'{text}' is out of range; it must lie between 0 and 100 %, as 3% or 0.03"
        ));
    }
    Ok(fraction)
}

/// A whole number from `MIN` to `MAX`.
///
/// # Errors
///
/// A sentence naming the text.
pub fn whole<const MIN: u64, const MAX: u64, N: TryFrom<u64>>(text: &str) -> Result<N, String> {
    let number = text.parse::<u64>().ok();
    let number = number.filter(|number| (MIN..=MAX).contains(number));
    let number = number.and_then(|number| N::try_from(number).ok());
    number.ok_or_else(|| format!("'{text}' is no whole number from {MIN} to {MAX}"))
}

/// `0,1` (sender, receiver), `0` (both), or `none`.
///
/// # Errors
///
/// A sentence naming the text.
pub fn pins(text: &str) -> Result<(Option<u32>, Option<u32>), String> {
    if text == "none" {
        return Ok((None, None));
    }
    let number = |text: &str| {
        text.trim().parse::<u32>().map_err(|_| {
            format!("'{text}' is no CPU; write --pin SENDER,RECEIVER, for example 0,1, or none")
        })
    };
    match text.split_once(',') {
        Some((sender, receiver)) => Ok((Some(number(sender)?), Some(number(receiver)?))),
        None => {
            let cpu = number(text)?;
            Ok((Some(cpu), Some(cpu)))
        }
    }
}

/// `sender=-20,receiver=19`.
///
/// # Errors
///
/// A sentence naming the text.
pub fn priorities(text: &str) -> Result<(Option<i32>, Option<i32>), String> {
    let mut found = (None, None);
    for part in text.split(',') {
        let (side, value) = part.split_once('=').ok_or_else(|| {
            format!("'{part}' is no priority; write --priority sender=-20,receiver=19")
        })?;
        let nice: i32 = value
            .parse()
            .ok()
            .filter(|nice| (-20..=19).contains(nice))
            .ok_or_else(|| format!("'{value}' is no nice value; it lies between -20 and 19"))?;
        match side {
            "sender" => found.0 = Some(nice),
            "receiver" => found.1 = Some(nice),
            other => {
                return Err(format!(
                    "unknown side '{other}'; there are sender and receiver"
                ));
            }
        }
    }
    Ok(found)
}

/// `64,1400` (70 % small), or `64,1400,80%`.
///
/// # Errors
///
/// A sentence naming the text.
pub fn mix(text: &str) -> Result<Mix, String> {
    let parts: Vec<&str> = text.split(',').collect();
    let (small, full, share) = match parts[..] {
        [small, full] => (size(small)?, size(full)?, 0.7),
        [small, full, share] => (size(small)?, size(full)?, percent(share)?),
        _ => {
            return Err(format!(
                "'{text}' is no mix; write --mix SMALL,FULL[,SHARE], for example 64,1400,70%"
            ));
        }
    };
    if small == 0 || full == 0 {
        return Err("the sizes of a mix begin at 1 B".into());
    }
    Ok(Mix {
        small,
        full,
        small_percent: (share * 100.0).round() as u32,
    })
}

/// `auto`, or messages per second: `1000,10000`.
///
/// # Errors
///
/// A sentence naming the text.
pub fn rates(text: &str) -> Result<Vec<f64>, String> {
    if text == "auto" {
        return Ok(Vec::new());
    }
    let rate =
        |text: &str| {
            let plain = text.trim().replace('k', "e3").replace('M', "e6");
            plain.parse::<f64>().ok().filter(|rate| *rate >= 1.0 && *rate <= 1e9).ok_or_else(|| {
            format!("'{text}' is no rate; write messages per second, for example 1000,50k, or auto")
        })
        };
    text.split(',').map(rate).collect()
}

/// An Ethernet type, `0x88b5`.
///
/// # Errors
///
/// A sentence naming the text.
pub fn ethertype(text: &str) -> Result<u16, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let value = u16::from_str_radix(digits, 16)
        .ok()
        .filter(|&value| value >= 0x0600);
    value.ok_or_else(|| format!("'{text}' is no Ethernet type; write it in hexadecimal from 0x0600 on, for example 0x88b5"))
}

/// A label of a run: `commit=1f3a`.
///
/// # Errors
///
/// When the key is no name, or the text is empty, too long or has control characters.
pub fn label(text: &str) -> Result<(String, String), String> {
    let Some((key, value)) = text.split_once('=') else {
        return Err(format!("'{text}' is no KEY=TEXT, as in commit=1f3a"));
    };
    let key = label_key(key)?;
    if value.is_empty()
        || value.chars().count() > LABEL_TEXT_MAX
        || value.contains(char::is_control)
    {
        return Err(format!(
            "the text of label {key} must have 1 to {LABEL_TEXT_MAX} printable characters"
        ));
    }
    Ok((key, value.to_owned()))
}

/// The key of a label.
///
/// # Errors
///
/// When it is no name of letters, digits, hyphens and underscores.
pub fn label_key(key: &str) -> Result<String, String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if key.is_empty() || key.len() > LABEL_KEY_MAX || !key.chars().all(is_name) {
        return Err(format!(
            "'{key}' is no key of a label: 1 to {LABEL_KEY_MAX} letters, digits, - and _"
        ));
    }
    Ok(key.to_owned())
}

/// Characters of a label's key, at most; it is a column in a report.
const LABEL_KEY_MAX: usize = 32;

/// Characters of a label's text, at most.
const LABEL_TEXT_MAX: usize = 200;

/// `auto`, `on` or `off`.
pub fn turns(text: &str) -> Result<TurnChoice, String> {
    let all = [TurnChoice::Auto, TurnChoice::On, TurnChoice::Off];
    let named = all.into_iter().find(|choice| choice.name() == text);
    named.ok_or_else(|| format!("'{text}' is none of auto, on and off"))
}

/// The length of a turn.
///
/// # Errors
///
/// A sentence naming the text and the range.
pub fn turn_time(text: &str) -> Result<Duration, String> {
    let length = time(text)?;
    let seconds = length.as_secs_f64();
    match (TURN_MIN_S..=TURN_MAX_S).contains(&seconds) {
        true => Ok(length),
        false => Err(format!(
            "'{text}' is out of range; a turn lasts 10ms to 50ms"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_values_are_refused_and_named() {
        for text in [
            "",
            "x",
            "64 parsecs",
            "-1",
            "0",
            "9..1",
            "99999999999999999999",
            "1TiB",
            "1..9+0",
            "1..9+x",
            "1..9+-1",
            "around:",
            "around:1",
            "1..5000+1",
            "1..64MiB+1",
        ] {
            let error = sizes(text).expect_err("no size");
            assert!(!error.is_empty());
        }
        assert!(size("64Q").is_err_and(|error| error.contains("'64Q'")));
        assert!(time("soon").is_err_and(|error| error.contains("'soon'")));
        assert!(blocks("20..5").is_err());
        assert!(percent("0").is_err() && percent("200%").is_err());
        assert!(pins("a,b").is_err());
        for text in ["0", "65", "-1", "1.5", "many", "99999999999999999999"] {
            let error = whole::<1, 64, u32>(text).expect_err("no such number");
            assert_eq!(error, format!("'{text}' is no whole number from 1 to 64"));
        }
        assert!(priorities("sender=99").is_err());
        assert!(rates("fast").is_err());
        assert!(ethertype("12").is_err());
    }

    #[test]
    fn valid_values_parse() {
        assert_eq!(time("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(blocks("5..20"), Ok((5, 20)));
        assert_eq!(percent("3%"), Ok(0.03));
        assert_eq!(whole::<1, 64, u16>("64"), Ok(64));
        assert_eq!(pins("0,1"), Ok((Some(0), Some(1))));
        assert_eq!(
            priorities("sender=-20,receiver=19"),
            Ok((Some(-20), Some(19)))
        );
        assert_eq!(rates("1000,50k"), Ok(vec![1000.0, 50_000.0]));
        assert_eq!(ethertype("0x88b5"), Ok(0x88b5));
    }
}
