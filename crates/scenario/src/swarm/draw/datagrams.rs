//! Draws scenarios of UDP: datagrams in fragments, and packets that find a receiver's queue full.

use super::{Below, Dice, Protocol, circuits};
use engine::SplitMix64;
use std::fmt::Write;
use std::ops::Range;

/// Seeds whose scenarios have UDP. No others do.
pub const DATAGRAMS: Range<u64> = 24 << 32..25 << 32;

/// The scenario of `seed`: circuits as of other protocols, and queues of receivers.
pub(super) fn draw(seed: u64) -> String {
    let mut dice = Dice(SplitMix64::new(SplitMix64::at(0x7564_7000, seed)));
    let text = circuits(seed, Below::NOTHING, Some(Protocol::Udp));
    match dice.once_in(2) {
        true => {
            let queue = dice.one_of(&[1, 4, 50]);
            let with_queue = format!("chips = {{ queue = {queue}, ");
            text.replace("chips = { ", &with_queue)
        }
        false => text,
    }
}

/// Options of a station.
pub(super) fn options(dice: &mut Dice, text: &mut String, corrupt: bool) {
    if dice.once_in(3) {
        let packet = dice.one_of(&[64, 576, 9000]);
        let _ = write!(text, ", packet = {packet}");
    }
    if dice.once_in(3) {
        let window = dice.one_of(&["4 KiB", "64 KiB"]);
        let _ = write!(text, ", window = \"{window}\"");
    }
    if !corrupt && dice.once_in(3) {
        text.push_str(", checksum = false");
    }
}
