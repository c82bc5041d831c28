//! Draws scenarios of XTP to groups.

use super::xtp::repair_options;
use super::{Below, Dice, Protocol, RETRIES, calls, chips, faults, head, messages};
use engine::SplitMix64;
use std::fmt::Write;
use std::ops::Range;

/// Seeds whose scenarios have XTP to counted groups. No others do.
pub const XTP_GROUPS: Range<u64> = 22 << 32..23 << 32;

/// The scenario of `seed`: the first station sends to all others, which it counts, so that none may miss a byte.
pub(super) fn draw(seed: u64) -> String {
    let mut dice = Dice(SplitMix64::new(SplitMix64::at(0x0067_726f_7570_7300, seed)));
    let members = dice.among(2, 6);
    let mut text = head(seed);
    let is_ether = calls::medium(&mut dice, &mut text, members + 1);
    let below = match dice.once_in(4) {
        true => Below::HALVES,
        false => Below::NOTHING,
    };
    let corrupt = faults(&mut dice, &mut text, Protocol::Xtp, is_ether, below);
    cuts(&mut dice, &mut text, members);
    let options = options(&mut dice, corrupt);
    for number in 0..=members {
        let counted = match number {
            0 => format!(", members = {members}"),
            _ => String::new(),
        };
        let _ = writeln!(
            text,
            "[[station]]\n{}engine = {{ protocol = \"xtp-group\"{counted}{options} }}",
            below.layer
        );
        chips(&mut dice, &mut text);
        text.push('\n');
    }
    for _ in 0..dice.among(1, 2) {
        traffic(&mut dice, &mut text);
    }
    text
}

/// Members that are cut off for a while. One that is restarted has left its group, and hears nothing of it.
fn cuts(dice: &mut Dice, text: &mut String, members: u64) {
    if dice.once_in(2) {
        return;
    }
    for _ in 0..dice.among(1, 3) {
        let kind = dice.one_of(&["partition", "flap"]);
        let (at, lasts) = (dice.among(0, 4000), dice.among(1, 1000));
        let station = dice.among(0, members);
        let _ = writeln!(
            text,
            "[[disturbance]]\nkind = \"{kind}\"\nat = \"{at} ms\"\nlasts = \"{lasts} ms\"\nstations = [{station}]"
        );
        if kind == "flap" {
            let times = dice.among(2, 4);
            let _ = writeln!(text, "every = \"1200 ms\"\ntimes = {times}");
        }
        text.push('\n');
    }
}

/// The same for all stations.
fn options(dice: &mut Dice, corrupt: bool) -> String {
    let mut text = format!(", retries = {RETRIES}");
    if dice.once_in(3) {
        let packet = dice.one_of(&[576, 1500]);
        let _ = write!(text, ", packet = {packet}");
    }
    if dice.once_in(3) {
        let window = dice.one_of(&["16 KiB", "128 KiB"]);
        let _ = write!(text, ", window = \"{window}\"");
    }
    repair_options(dice, &mut text, corrupt);
    if dice.once_in(3) {
        let slot = dice.one_of(&["1 ms", "20 ms"]);
        let _ = write!(text, ", slot = \"{slot}\"");
    }
    if dice.once_in(4) {
        text.push_str(", answer_to_group = true");
        if dice.once_in(2) {
            text.push_str(", damping = true");
        }
    }
    if dice.once_in(5) {
        let rate = dice.one_of(&["500 kbit/s", "5 Mbit/s"]);
        let _ = write!(text, ", rate = \"{rate}\"");
    }
    if dice.once_in(4) {
        text.push_str(", status_every = \"4 KiB\"");
    }
    text
}

fn traffic(dice: &mut Dice, text: &mut String) {
    messages(dice, text, ("[0]", "\"all\""), "{ fixed = 1400 }");
    let _ = writeln!(text, "start = \"{} ms\"\n", dice.among(0, 6000));
}
