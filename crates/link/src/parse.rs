//! Parser of path descriptions: `rate=10mbit,delay=5ms,loss=1%`.
//!
//! `key=value`, separated by commas; `there/back` where the directions differ; later stages behind
//! semicolons, each with its time: `rate=10mbit,delay=5ms;2s:rate=1mbit;3s:cut;4s:up`.

use crate::config::{GilbertElliott, LinkConfig, PS_PER_S};
use crate::path::{Path, PathChange};
use std::fmt;
use std::str::FromStr;

/// The error for a text that is not a path: one line that names the fault and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathError(String);

impl PathError {
    /// An error of a description that holds more than a path.
    pub fn new(text: String) -> PathError {
        PathError(text)
    }
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PathError {}

/// Slowest link: a full frame takes less than two minutes.
const RATE_MIN_BPS: u64 = 100;

/// Fastest link: 1 Tbit/s, at which a bit still takes a picosecond.
const RATE_MAX_BPS: u64 = 1_000_000_000_000;

/// Longest delay: a minute.
const DELAY_MAX_PS: u64 = 60 * PS_PER_S;

/// Latest change: after a day.
const CHANGE_MAX_PS: u64 = 86_400 * PS_PER_S;

/// Changes in a schedule.
const CHANGES_MAX: usize = 1000;

/// Octets of a full Ethernet frame.
const FRAME_LEN: u64 = 1514;

/// Default queue: this much time at the link's rate,
const QUEUE_PS: u64 = PS_PER_S / 10;

/// but at least this many full frames.
const QUEUE_FRAMES_MIN: u64 = 20;

/// Default delay of a reordered frame: this many full frames,
const REORDER_FRAMES: u64 = 4;

/// or this time on a link of unlimited rate.
const REORDER_PS: u64 = PS_PER_S / 1000;

impl FromStr for Path {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Path, PathError> {
        let mut stages = text.split(';');
        let mut stage = PathSpec::default();
        stage.apply(stages.next().unwrap_or_default())?;
        let mut path = Path {
            directions: stage.directions()?,
            schedule: Vec::new(),
        };
        for later in stages {
            let (at, what) = later.split_once(':').ok_or_else(|| {
                path_error(format!(
                    "'{later}' has no time; a later stage reads 2s:rate=1mbit"
                ))
            })?;
            stage.apply(what)?;
            let at_ps = at_most("time", at, parse_time(at)?, CHANGE_MAX_PS, "a day")?;
            if path.schedule.last().is_some_and(|last| last.at_ps >= at_ps) {
                return Err(path_error(format!(
                    "the stage at {at} comes too late; give stages by ascending time"
                )));
            }
            if path.schedule.len() == CHANGES_MAX {
                return Err(path_error(format!(
                    "more than {CHANGES_MAX} stages; give fewer"
                )));
            }
            let directions = stage.directions()?;
            path.schedule.push(PathChange { at_ps, directions });
        }
        Ok(path)
    }
}

/// Keys of a path given so far.
#[derive(Clone, Copy, Debug, Default)]
struct PathSpec {
    specs: [DirectionSpec; 2],
}

/// Keys of a direction given so far.
#[derive(Clone, Copy, Debug, Default)]
struct DirectionSpec {
    config: LinkConfig,
    queue_bytes: Option<u64>,
    reorder_ps: Option<u64>,
    burst_len: Option<f64>,
}

impl PathSpec {
    fn apply(&mut self, text: &str) -> Result<(), PathError> {
        for part in text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            match part.split_once('=') {
                Some((key, value)) => self.set(key.trim(), value.trim())?,
                None => self.apply_flag(part)?,
            }
        }
        Ok(())
    }

    fn apply_flag(&mut self, word: &str) -> Result<(), PathError> {
        let cut = match word {
            "cut" => true,
            "up" => false,
            _ => return Err(unknown_key(word)),
        };
        self.specs.iter_mut().for_each(|spec| spec.config.cut = cut);
        Ok(())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), PathError> {
        let (there, back) = value.split_once('/').unwrap_or((value, value));
        for (spec, value) in self.specs.iter_mut().zip([there, back]) {
            spec.set(key, value.trim())?;
        }
        Ok(())
    }

    fn directions(&self) -> Result<[LinkConfig; 2], PathError> {
        let [there, back] = self.specs.map(|spec| spec.config());
        Ok([there?, back?])
    }
}

impl DirectionSpec {
    fn set(&mut self, key: &str, value: &str) -> Result<(), PathError> {
        let config = &mut self.config;
        match key {
            "rate" => config.rate_bps = Some(parse_rate(value)?),
            "delay" => config.delay_ps = parse_delay(key, value)?,
            "jitter" => config.jitter_ps = parse_delay(key, value)?,
            "hold" => self.reorder_ps = Some(parse_delay(key, value)?),
            "queue" => self.queue_bytes = Some(parse_size(value)?),
            "loss" => config.loss_ppm = parse_share(key, value)?,
            "burst" => self.burst_len = Some(parse_burst_len(value)?),
            "gilbert" => config.bursts = Some(parse_gilbert(value)?),
            "duplicate" => config.duplicate_ppm = parse_share(key, value)?,
            "reorder" => config.reorder_ppm = parse_share(key, value)?,
            "corrupt" => config.corrupt_ppm = parse_share(key, value)?,
            _ => return Err(unknown_key(key)),
        }
        Ok(())
    }

    /// The configuration: keys given, and defaults derived from them.
    fn config(&self) -> Result<LinkConfig, PathError> {
        let mut config = self.config;
        if config.jitter_ps > config.delay_ps {
            return Err(path_error(
                "the jitter is larger than the delay, so frames would arrive before they are sent; give a larger delay or a smaller jitter",
            ));
        }
        let frames = |count: u64| {
            config
                .rate_bps
                .map(|rate| count * FRAME_LEN * 8 * PS_PER_S / rate.max(RATE_MIN_BPS))
        };
        config.reorder_ps = self
            .reorder_ps
            .or(frames(REORDER_FRAMES))
            .unwrap_or(REORDER_PS);
        if let Some(rate_bps) = config.rate_bps {
            let usual = u128::from(rate_bps) * u128::from(QUEUE_PS) / u128::from(PS_PER_S) / 8;
            let usual = (usual as u64).max(QUEUE_FRAMES_MIN * FRAME_LEN);
            config.queue_bytes = self.queue_bytes.unwrap_or(usual);
        }
        if let Some(burst_len) = self.burst_len {
            let impossible = || {
                path_error(format!(
                    "no chain loses {} % of the frames in bursts of {burst_len}; give a loss above 0 and below 100 %, a burst of 1 or more, and less loss or longer bursts",
                    f64::from(config.loss_ppm) / 1e4
                ))
            };
            config.bursts = Some(
                GilbertElliott::from_burst_len(config.loss_ppm, burst_len)
                    .ok_or_else(impossible)?,
            );
            config.loss_ppm = 0;
        }
        Ok(config)
    }
}

fn path_error(text: impl Into<String>) -> PathError {
    PathError(text.into())
}

fn unknown_key(key: &str) -> PathError {
    path_error(format!(
        "a link has no '{key}'; its keys are rate, delay, jitter, queue, loss, burst, gilbert, duplicate, reorder, hold, corrupt, and in a later stage cut and up"
    ))
}

/// A number and its unit.
fn split_number(text: &str) -> Option<(f64, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let value: f64 = digits.parse().ok()?;
    value.is_finite().then_some((value, unit.trim()))
}

fn parse_rate(text: &str) -> Result<u64, PathError> {
    let rate = quantity::rate_bps(text).map_err(path_error)?;
    if !(RATE_MIN_BPS..=RATE_MAX_BPS).contains(&rate) {
        return Err(path_error(format!(
            "a rate of {text} is impossible here; give one from {RATE_MIN_BPS}bit to 1000gbit"
        )));
    }
    Ok(rate)
}

fn parse_time(text: &str) -> Result<u64, PathError> {
    quantity::time_ps(text).map_err(path_error)
}

fn parse_delay(key: &str, text: &str) -> Result<u64, PathError> {
    let zero = text.trim_start_matches('0').is_empty() && !text.is_empty();
    let value = if zero { 0 } else { parse_time(text)? };
    at_most(key, text, value, DELAY_MAX_PS, "60s")
}

fn at_most(what: &str, text: &str, value: u64, most: u64, words: &str) -> Result<u64, PathError> {
    if value > most {
        return Err(path_error(format!(
            "a {what} of {text} is too long; give {words} at most"
        )));
    }
    Ok(value)
}

/// A bare number could be one of packets.
fn parse_size(text: &str) -> Result<u64, PathError> {
    if text.ends_with(|c: char| c.is_ascii_digit()) {
        return Err(path_error(format!(
            "'{text}' is no size; give it a unit, such as 100kB"
        )));
    }
    let value = quantity::bytes(text).map_err(path_error)?;
    if value < FRAME_LEN {
        return Err(path_error(format!(
            "a queue of {text} does not hold a frame; give {FRAME_LEN}B or more"
        )));
    }
    Ok(value)
}

/// A share of all frames, in parts per million.
fn parse_share(key: &str, text: &str) -> Result<u32, PathError> {
    let parsed = split_number(text)
        .filter(|(value, unit)| *unit == "%" || (unit.is_empty() && *value == 0.0));
    let Some((percent, _)) = parsed else {
        return Err(path_error(format!(
            "'{text}' is not a share of all frames; give {key}=1%"
        )));
    };
    if percent > 100.0 {
        return Err(path_error(format!(
            "{key}={text} is more than all frames; give 100% at most"
        )));
    }
    let ppm = (percent * 1e4).round() as u32;
    if ppm == 0 && percent > 0.0 {
        return Err(path_error(format!(
            "{key}={text} is less than a frame in a million; give 0.0001% or more"
        )));
    }
    Ok(ppm)
}

fn parse_burst_len(text: &str) -> Result<f64, PathError> {
    let parsed = split_number(text).filter(|(_, unit)| unit.is_empty());
    let (value, _) = parsed.ok_or_else(|| {
        path_error(format!(
            "'{text}' is not a burst length; give a number of frames, such as burst=10"
        ))
    })?;
    Ok(value)
}

/// `good to bad : bad to good [: loss when bad [: loss when good]]`.
fn parse_gilbert(text: &str) -> Result<GilbertElliott, PathError> {
    let parts: Result<Vec<u32>, PathError> = text
        .split(':')
        .map(|text| parse_share("gilbert", text))
        .collect();
    match parts?[..] {
        [to_bad_ppm, to_good_ppm, ref rest @ ..] if rest.len() <= 2 => Ok(GilbertElliott {
            to_bad_ppm,
            to_good_ppm,
            loss_bad_ppm: rest.first().copied().unwrap_or(1_000_000),
            loss_good_ppm: rest.get(1).copied().unwrap_or(0),
        }),
        _ => Err(path_error(format!(
            "'{text}' is no chain of losses; give gilbert=GOOD-TO-BAD:BAD-TO-GOOD[:LOSS-WHEN-BAD[:LOSS-WHEN-GOOD]], such as gilbert=1%:25%"
        ))),
    }
}
