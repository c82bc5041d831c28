//! Draws scenarios with ATM cells.

use super::{Below, Dice, Protocol, callings, calls, circuits};
use engine::SplitMix64;
use std::fmt::Write;
use std::ops::Range;

/// Seeds whose scenarios have transactions over cells, with all that is drawn of either.
pub const CALLS_OVER_CELLS: Range<u64> = 20 << 32..21 << 32;

/// The scenario of `seed`: cells of any kind below any protocol, half of the time on lines of cells.
///
/// `mri` is longer than a station's work on a packet takes, with cells of all others between its own.
pub(super) fn draw(seed: u64) -> String {
    if CALLS_OVER_CELLS.contains(&seed) {
        return draw_calls(seed);
    }
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

/// The scenario of `seed`: transactions over cells, with services, clients, streams, groups and requests that are passed
/// on; cells of the study's format and repaired ones among them, and adapters on lines of cells.
fn draw_calls(seed: u64) -> String {
    let mut dice = Dice(SplitMix64::new(SplitMix64::at(0x6365_6c6c_6361_6c6c, seed)));
    let mut services = Dice(SplitMix64::new(SplitMix64::at(0x7365_7263, seed)));
    let is_atm = dice.once_in(2);
    let medium = is_atm.then(|| line(&mut dice));
    let is_study = dice.once_in(3);
    let layer = match is_study {
        true => study_cells(&mut dice),
        false => cells(&mut dice, is_atm),
    };
    let below = Below {
        layer: &layer,
        medium: medium.as_deref(),
        is_damaging: true,
        paths: 1,
    };
    // Cells of the study do not show that two packets were joined, and 16 bits of `call` may not either.
    let kind = dice.among(u64::from(is_study), 3);
    let text = match kind {
        0 => calls::draw(
            &mut dice,
            seed,
            Protocol::Call,
            Some(below),
            Some(&mut services),
        ),
        1 => calls::draw(
            &mut dice,
            seed,
            Protocol::Vmtp,
            Some(below),
            Some(&mut services),
        ),
        _ => callings::draw_over(&mut dice, seed, Some(below)),
    };
    let text = if is_study {
        with_short_packets(&text)
    } else {
        text
    };
    // An adapter that overflows loses cells without a fault: `call` would give up.
    match is_atm && kind > 0 && dice.once_in(2) {
        true => with_adapters(&mut dice, &text),
        false => text,
    }
}

/// Cells of the study's format, which may be asked for again.
fn study_cells(dice: &mut Dice) -> String {
    let repair = dice.one_of(&["discard", "cells"]);
    format!(
        "cells = {{ mri = \"400 ms\", aal = \"aal34\", sar = \"study\", repair = \"{repair}\" }}\n"
    )
}

/// Packets that 32 cells carry.
fn with_short_packets(text: &str) -> String {
    let short = |line: &str| match line.starts_with("engine = {") {
        true if line.contains("packet = 1500") => line.replace("packet = 1500", "packet = 1100"),
        true if !line.contains("packet = ") => line.replace(" }", ", packet = 1100 }"),
        _ => line.to_owned(),
    };
    text.lines().map(|line| short(line) + "\n").collect()
}

/// Stations whose work is counted have an adapter too.
fn with_adapters(dice: &mut Dice, text: &str) -> String {
    let access = dice.one_of(&["words", "burst", "scatter-gather"]);
    let end = dice.once_in(2);
    let adapter = format!(
        "chips = {{ adapter = {{ access = \"{access}\", interrupt_timer = \"1 ms\", interrupt_end = {end} }}, "
    );
    text.replace("chips = { ", &adapter)
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
