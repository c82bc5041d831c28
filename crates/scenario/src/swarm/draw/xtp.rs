//! Options of XTP.

use super::{Dice, RETRIES};
use std::fmt::Write;

/// Options of an endpoint.
pub(super) fn options(dice: &mut Dice, text: &mut String, (corrupt, many_retries): (bool, bool)) {
    if many_retries {
        let _ = write!(text, ", retries = {RETRIES}");
    }
    if dice.once_in(4) {
        let packet = dice.one_of(&[128, 576, 1500]);
        let _ = write!(text, ", packet = {packet}");
    }
    if dice.once_in(3) {
        let window = dice.one_of(&["3 KiB", "16 KiB", "128 KiB"]);
        let _ = write!(text, ", window = \"{window}\"");
    }
    repair_options(dice, text, corrupt);
    if dice.once_in(3) {
        let kind = dice.one_of(&["newreno", "ledbat", "bbr"]);
        let _ = write!(text, ", congestion = \"{kind}\"");
    }
    if dice.once_in(5) {
        let rate = dice.one_of(&["500 kbit/s", "5 Mbit/s"]);
        let _ = write!(text, ", rate = \"{rate}\"");
    }
    if dice.once_in(3) {
        text.push_str(", explicit = false");
    }
    if dice.once_in(4) {
        text.push_str(", status_every = \"4 KiB\"");
    }
}

/// How XTP finds and repairs what is lost or, unless frames are corrupted, damaged.
pub(super) fn repair_options(dice: &mut Dice, text: &mut String, corrupt: bool) {
    if dice.once_in(3) {
        text.push_str(", error = \"go-back-n\"");
    }
    if !corrupt && dice.once_in(4) {
        text.push_str(", checksum = false");
    }
    if dice.once_in(3) {
        text.push_str(", fastnak = true");
    }
}
