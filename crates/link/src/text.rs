//! A path in words: `rate=10mbit,delay=5ms,loss=1%`.
//!
//! `key=value` with commas between; `there/back` where the directions differ; later stages behind
//! semicolons, each with its time: `rate=10mbit,delay=5ms;2s:rate=1mbit;3s:cut;4s:up`.

use crate::config::{GilbertElliott, LinkConfig, PS_PER_S};
use crate::path::{Change, Path};
use std::fmt;
use std::str::FromStr;

/// Why a text is no path: one line that names the fault and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathError(String);

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

/// Longest delay: a minute, twice the way to Mars at its nearest in a hurry.
const DELAY_MAX_PS: u64 = 60 * PS_PER_S;

/// Latest change: a day.
const CHANGE_MAX_PS: u64 = 86_400 * PS_PER_S;

/// Changes in a schedule.
const CHANGES_MAX: usize = 1000;

/// Octets of a full Ethernet frame.
const FRAME: u64 = 1514;

/// A queue that was not asked for holds this much time at the link's rate.
const QUEUE_PS: u64 = PS_PER_S / 10;

/// And this many full frames at least.
const QUEUE_FRAMES: u64 = 20;

/// A frame held back without a time asked for is held for this many full frames.
const HOLD_FRAMES: u64 = 4;

/// The same where frames take no time.
const HOLD_PS: u64 = PS_PER_S / 1000;

impl FromStr for Path {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Path, PathError> {
        let mut stages = text.split(';');
        let mut stage = Stage::default();
        stage.apply(stages.next().unwrap_or_default())?;
        let mut path = Path {
            directions: stage.directions()?,
            schedule: Vec::new(),
        };
        for later in stages {
            let (at, what) = later.split_once(':').ok_or_else(|| {
                fault(format!(
                    "'{later}' has no time; a later stage reads 2s:rate=1mbit"
                ))
            })?;
            stage.apply(what)?;
            let at_ps = within("time", at, time(at)?, CHANGE_MAX_PS, "a day")?;
            if path.schedule.last().is_some_and(|last| last.at_ps >= at_ps) {
                return Err(fault(format!(
                    "the stage at {at} comes too late; give stages by ascending time"
                )));
            }
            if path.schedule.len() == CHANGES_MAX {
                return Err(fault(format!("more than {CHANGES_MAX} stages; give fewer")));
            }
            let directions = stage.directions()?;
            path.schedule.push(Change { at_ps, directions });
        }
        Ok(path)
    }
}

/// What was said of a path so far.
#[derive(Clone, Copy, Debug, Default)]
struct Stage {
    said: [Said; 2],
}

/// What was said of a direction so far.
#[derive(Clone, Copy, Debug, Default)]
struct Said {
    config: LinkConfig,
    queue_bytes: Option<u64>,
    hold_ps: Option<u64>,
    run: Option<f64>,
}

impl Stage {
    fn apply(&mut self, text: &str) -> Result<(), PathError> {
        for part in text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            match part.split_once('=') {
                Some((key, value)) => self.set(key.trim(), value.trim())?,
                None => self.switch(part)?,
            }
        }
        Ok(())
    }

    fn switch(&mut self, word: &str) -> Result<(), PathError> {
        let cut = match word {
            "cut" => true,
            "up" => false,
            _ => return Err(unknown(word)),
        };
        self.said.iter_mut().for_each(|said| said.config.cut = cut);
        Ok(())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), PathError> {
        let (there, back) = value.split_once('/').unwrap_or((value, value));
        for (said, value) in self.said.iter_mut().zip([there, back]) {
            said.set(key, value.trim())?;
        }
        Ok(())
    }

    fn directions(&self) -> Result<[LinkConfig; 2], PathError> {
        let [there, back] = self.said.map(|said| said.config());
        Ok([there?, back?])
    }
}

impl Said {
    fn set(&mut self, key: &str, value: &str) -> Result<(), PathError> {
        let config = &mut self.config;
        match key {
            "rate" => config.rate_bps = Some(rate(value)?),
            "delay" => config.delay_ps = delay(key, value)?,
            "jitter" => config.jitter_ps = delay(key, value)?,
            "hold" => self.hold_ps = Some(delay(key, value)?),
            "queue" => self.queue_bytes = Some(bytes(value)?),
            "loss" => config.loss_ppm = part(key, value)?,
            "burst" => self.run = Some(run(value)?),
            "gilbert" => config.bursts = Some(chain(value)?),
            "duplicate" => config.duplicate_ppm = part(key, value)?,
            "reorder" => config.reorder_ppm = part(key, value)?,
            "corrupt" => config.corrupt_ppm = part(key, value)?,
            _ => return Err(unknown(key)),
        }
        Ok(())
    }

    /// What was said, with what follows from it.
    fn config(&self) -> Result<LinkConfig, PathError> {
        let mut config = self.config;
        if config.jitter_ps > config.delay_ps {
            return Err(fault(
                "the jitter is larger than the delay, so frames would arrive before they are sent; give a larger delay or a smaller jitter",
            ));
        }
        let frames = |count: u64| {
            config
                .rate_bps
                .map(|rate| count * FRAME * 8 * PS_PER_S / rate.max(RATE_MIN_BPS))
        };
        config.reorder_ps = self.hold_ps.or(frames(HOLD_FRAMES)).unwrap_or(HOLD_PS);
        if let Some(rate_bps) = config.rate_bps {
            let usual = u128::from(rate_bps) * u128::from(QUEUE_PS) / u128::from(PS_PER_S) / 8;
            let usual = (usual as u64).max(QUEUE_FRAMES * FRAME);
            config.queue_bytes = self.queue_bytes.unwrap_or(usual);
        }
        if let Some(run) = self.run {
            let impossible = || {
                fault(format!(
                    "no chain loses {} % of the frames in runs of {run}; give a loss above 0 and below 100 %, a run of 1 or more, and less loss or longer runs",
                    f64::from(config.loss_ppm) / 1e4
                ))
            };
            config.bursts =
                Some(GilbertElliott::of_runs(config.loss_ppm, run).ok_or_else(impossible)?);
            config.loss_ppm = 0;
        }
        Ok(config)
    }
}

fn fault(text: impl Into<String>) -> PathError {
    PathError(text.into())
}

fn unknown(key: &str) -> PathError {
    fault(format!(
        "a link has no '{key}'; it has rate, delay, jitter, queue, loss, burst, gilbert, duplicate, reorder, hold, corrupt, and in a later stage cut and up"
    ))
}

/// A number and its unit.
fn number(text: &str) -> Option<(f64, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let value: f64 = digits.parse().ok()?;
    value.is_finite().then_some((value, unit.trim()))
}

/// A number in one of the `units`, as a count of the smallest thing.
fn measure(what: &str, text: &str, units: &[(&str, f64)], example: &str) -> Result<f64, PathError> {
    let parsed = number(text).and_then(|(value, unit)| {
        let known = units
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(unit));
        known.map(|(_, factor)| value * factor)
    });
    parsed.ok_or_else(|| {
        let names: Vec<&str> = units.iter().map(|(name, _)| *name).collect();
        fault(format!(
            "'{text}' is no {what}; give a number and one of {}, such as {example}",
            names.join(", ")
        ))
    })
}

fn rate(text: &str) -> Result<u64, PathError> {
    let units = [("bit", 1.0), ("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)];
    let rate = measure("rate", text, &units, "10mbit")?;
    if rate < RATE_MIN_BPS as f64 || rate > RATE_MAX_BPS as f64 {
        return Err(fault(format!(
            "a rate of {text} is impossible here; give one from {RATE_MIN_BPS}bit to 1000gbit"
        )));
    }
    Ok(rate.round() as u64)
}

fn time(text: &str) -> Result<u64, PathError> {
    let units = [("ns", 1e3), ("us", 1e6), ("ms", 1e9), ("s", 1e12)];
    Ok(measure("time", text, &units, "5ms")?.round() as u64)
}

fn delay(key: &str, text: &str) -> Result<u64, PathError> {
    let zero = text.trim_start_matches('0').is_empty() && !text.is_empty();
    let value = if zero { 0 } else { time(text)? };
    within(key, text, value, DELAY_MAX_PS, "60s")
}

fn within(what: &str, text: &str, value: u64, most: u64, words: &str) -> Result<u64, PathError> {
    if value > most {
        return Err(fault(format!(
            "a {what} of {text} is too long; give {words} at most"
        )));
    }
    Ok(value)
}

fn bytes(text: &str) -> Result<u64, PathError> {
    let units = [
        ("B", 1.0),
        ("kB", 1e3),
        ("KiB", 1024.0),
        ("MB", 1e6),
        ("MiB", 1_048_576.0),
    ];
    let value = measure("size", text, &units, "100kB")?.round() as u64;
    if value < FRAME {
        return Err(fault(format!(
            "a queue of {text} does not hold a frame; give {FRAME}B or more"
        )));
    }
    Ok(value)
}

/// A part of all frames, in parts of a million.
fn part(key: &str, text: &str) -> Result<u32, PathError> {
    let parsed =
        number(text).filter(|(value, unit)| *unit == "%" || (unit.is_empty() && *value == 0.0));
    let Some((percent, _)) = parsed else {
        return Err(fault(format!(
            "'{text}' is no part of all frames; give {key}=1%"
        )));
    };
    if percent > 100.0 {
        return Err(fault(format!(
            "{key}={text} is more than all frames; give 100% at most"
        )));
    }
    let ppm = (percent * 1e4).round() as u32;
    if ppm == 0 && percent > 0.0 {
        return Err(fault(format!(
            "{key}={text} is less than a frame in a million; give 0.0001% or more"
        )));
    }
    Ok(ppm)
}

fn run(text: &str) -> Result<f64, PathError> {
    let parsed = number(text).filter(|(_, unit)| unit.is_empty());
    let (value, _) = parsed.ok_or_else(|| {
        fault(format!(
            "'{text}' is no length of a run of losses; give frames, such as burst=10"
        ))
    })?;
    Ok(value)
}

/// `good to bad : bad to good [: loss when bad [: loss when good]]`.
fn chain(text: &str) -> Result<GilbertElliott, PathError> {
    let parts: Result<Vec<u32>, PathError> =
        text.split(':').map(|text| part("gilbert", text)).collect();
    match parts?[..] {
        [to_bad_ppm, to_good_ppm, ref rest @ ..] if rest.len() <= 2 => Ok(GilbertElliott {
            to_bad_ppm,
            to_good_ppm,
            loss_bad_ppm: rest.first().copied().unwrap_or(1_000_000),
            loss_good_ppm: rest.get(1).copied().unwrap_or(0),
        }),
        _ => Err(fault(format!(
            "'{text}' is no chain of losses; give gilbert=GOOD-TO-BAD:BAD-TO-GOOD[:LOSS-WHEN-BAD[:LOSS-WHEN-GOOD]], such as gilbert=1%:25%"
        ))),
    }
}
