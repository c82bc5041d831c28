//! Weights and bursts of a pattern of traffic.

use crate::engines::SpecError;
use crate::file::TrafficSpec;
use toml::Spanned;

/// Largest weight of a station.
const WEIGHT_MAX: u64 = 1_000_000;

/// The weights of `count` stations; empty if none are given.
pub(crate) fn weights(
    given: Option<&Spanned<Vec<u64>>>,
    end: &str,
    count: usize,
) -> Result<Vec<u64>, SpecError> {
    let Some(given) = given else {
        return Ok(Vec::new());
    };
    let weights = given.get_ref();
    let refusal = if weights.len() != count {
        let have = weights.len();
        format!(
            "weights.{end} has {have} numbers for {count} stations to draw from; give one for each"
        )
    } else if !weights
        .iter()
        .all(|weight| (1..=WEIGHT_MAX).contains(weight))
    {
        format!("weights.{end} is out of range; use 1 to {WEIGHT_MAX}")
    } else {
        return Ok(weights.clone());
    };
    Err((given.span(), refusal))
}

/// Most messages that are produced at once.
const BURST_MAX: u64 = 1 << 16;

pub(crate) fn burst(spec: &TrafficSpec) -> Result<u64, SpecError> {
    let Some(burst) = &spec.burst else {
        return Ok(1);
    };
    let refusal = match *burst.get_ref() {
        _ if spec.clients.is_some() => {
            "burst is for messages that do not wait for each other; leave out clients or burst"
                .to_owned()
        }
        messages if !(1..=BURST_MAX).contains(&messages) => {
            format!("a burst of {messages} messages; use 1 to {BURST_MAX}")
        }
        messages => return Ok(messages),
    };
    Err((burst.span(), refusal))
}
