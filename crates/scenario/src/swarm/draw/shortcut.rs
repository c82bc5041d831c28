//! Draws scenarios of XTP with stations of one host that take the shortcut, and rings that die.

use super::{Below, Dice, Protocol, circuits};
use engine::SplitMix64;
use std::fmt::Write;
use std::ops::Range;

/// Seeds whose scenarios have stations of one host. No others do.
pub const SHORTCUTS: Range<u64> = 23 << 32..24 << 32;

/// Before the options of a station.
const ENGINE: &str = "engine = { protocol = \"xtp\"";

/// The scenario of `seed`: circuits of XTP as without a shortcut, and draws of its own of what hosts are.
pub(super) fn draw(seed: u64) -> String {
    let mut dice = Dice(SplitMix64::new(SplitMix64::at(0x7269_6e67, seed)));
    let below = match dice.once_in(4) {
        true => Below::HALVES,
        false => Below::NOTHING,
    };
    let text = circuits(seed, below, Some(Protocol::Xtp));
    let mut parts = text.split(ENGINE);
    let mut drawn = parts.next().unwrap_or_default().to_owned();
    let stations = text.matches(ENGINE).count() as u64;
    for (number, part) in parts.enumerate() {
        // The first two are on one host, and take the shortcut.
        let is_first = number < 2;
        let host = if is_first || !dice.once_in(3) {
            "a"
        } else {
            "b"
        };
        let shortcut = is_first || !dice.once_in(5);
        let _ = write!(
            drawn,
            "host = \"{host}\"\n{ENGINE}, shortcut = {shortcut}{part}"
        );
    }
    let before = format!(
        "{}{}[[station]]",
        deaths(&mut dice, stations),
        host(&mut dice)
    );
    drawn.replacen("[[station]]", &before, 1)
}

/// What the rings of the first host are like, half the time.
fn host(dice: &mut Dice) -> String {
    if dice.once_in(2) {
        return String::new();
    }
    let ring = dice.one_of(&["2 KiB", "16 KiB", "1 MiB"]);
    let latency = dice.one_of(&["0 us", "1 us", "30 ms"]);
    let copy = dice.one_of(&["0 us", "5 us"]);
    let meeting = dice.one_of(&["0 us", "1 ms", "2 s"]);
    format!(
        "[[host]]\nname = \"a\"\nring = \"{ring}\"\nlatency = \"{latency}\"\ncopy_fixed = \"{copy}\"\n\
         meeting = \"{meeting}\"\n\n"
    )
}

/// Rings that die, of one of the stations that have some.
fn deaths(dice: &mut Dice, stations: u64) -> String {
    let mut text = String::new();
    for _ in 0..dice.among(0, 3) {
        let station = dice.among(0, stations.min(2) - 1);
        let (at, lasts) = (dice.among(0, 8000), dice.among(0, 1000));
        let _ = write!(
            text,
            "[[disturbance]]\nkind = \"rings\"\nstations = [{station}]\nat = \"{at} ms\"\nlasts = \"{lasts} ms\"\n\n"
        );
    }
    text
}
