//! Draws scenarios with ATM cells.

use super::{Below, Dice, Protocol, calls, circuits};
use engine::SplitMix64;
use std::fmt::Write;

/// The scenario of `seed`: cells of any kind below any protocol, half of the time on lines of cells.
///
/// `mri` is longer than a station's work on a packet takes, with cells of all others between its own.
pub(super) fn draw(seed: u64) -> String {
    let mut dice = Dice(SplitMix64::new(SplitMix64::at(0x4345_4c4c, seed)));
    let is_atm = dice.once_in(2);
    let medium = is_atm.then(|| line(&mut dice));
    let layer = cells(&mut dice, is_atm);
    let below = Below {
        layer: &layer,
        medium: medium.as_deref(),
        // Cells have checks that find every error of one bit.
        is_damaging: true,
        paths: 1,
    };
    match dice.among(0, 5) {
        0 => calls::draw(&mut dice, seed, Protocol::Call, Some(below), None),
        1 => calls::draw(&mut dice, seed, Protocol::Vmtp, Some(below), None),
        2 => circuits(seed, below, Some(Protocol::Sctp)),
        3 => circuits(seed, below, Some(Protocol::Bare)),
        _ => circuits(seed, below, Some(Protocol::Xtp)),
    }
}

fn line(dice: &mut Dice) -> String {
    let delay = dice.one_of(&["10 us", "1 ms", "20 ms"]);
    let mut text = format!("kind = \"atm\"\ndelay = \"{delay}\"\n");
    if dice.once_in(3) {
        // The line's own is 155.52 Mbit/s.
        text.push_str("rate = \"25 Mbit/s\"\n");
    }
    if dice.once_in(3) {
        text.push_str("low_priority_queue = \"16 KiB\"\n");
    }
    text
}

fn cells(dice: &mut Dice, is_atm: bool) -> String {
    let mri = dice.one_of(&["400 ms", "1 s"]);
    let mut text = format!("cells = {{ mri = \"{mri}\"");
    if dice.once_in(3) {
        text.push_str(", aal = \"aal5\"");
    } else {
        text.push_str(", aal = \"aal34\"");
        if dice.once_in(4) {
            text.push_str(", cpcs = \"streaming\"");
        }
        // A bit error after correction is that of two bits: there are none.
        if dice.once_in(3) {
            text.push_str(", correct = true");
        }
    }
    if dice.once_in(4) {
        text.push_str(", low_priority = true");
    }
    if !is_atm && dice.once_in(2) {
        let frame = dice.among(1, 28);
        let _ = write!(text, ", frame = {frame}");
    }
    text.push_str(" }\n");
    text
}
