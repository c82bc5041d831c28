//! Seeds and options of SCTP.

use super::{Dice, RETRIES};
use engine::SplitMix64;
use std::fmt::Write;
use std::ops::Range;

/// Seeds whose scenarios have SCTP with streams, schedulers, interleaving and lives, over one path or several.
pub const SCTP_STREAMS: Range<u64> = 8 << 32..9 << 32;

/// Seeds whose scenarios have SCTP with streams that begin anew, and with authentication.
pub const SCTP_RESETS: Range<u64> = 9 << 32..10 << 32;

/// Seeds whose scenarios have SCTP that probes the path MTU of links that carry no more than some length. No
/// others have such links.
pub const SCTP_MTU: Range<u64> = 10 << 32..11 << 32;

/// Seeds whose scenarios have SCTP over several paths, at addresses that come and go. No others have those.
pub const SCTP_ADDRESSES: Range<u64> = 19 << 32..20 << 32;

/// Seeds whose scenarios have SCTP over several paths. No others have more than one path.
pub const SCTP_PATHS: Range<u64> = 5 << 32..6 << 32;

pub(super) fn options(dice: &mut Dice, text: &mut String, (corrupt, many_retries): (bool, bool)) {
    if many_retries {
        let _ = write!(text, ", retries = {RETRIES}");
    }
    if dice.once_in(4) {
        let packet = dice.one_of(&[512, 576, 1400]);
        let _ = write!(text, ", packet = {packet}");
    }
    if dice.once_in(3) {
        let window = dice.one_of(&["1500 B", "4 KiB", "16 KiB", "1 MiB"]);
        let _ = write!(text, ", window = \"{window}\"");
    }
    if dice.once_in(3) {
        let kind = dice.one_of(&["newreno", "ledbat", "bbr", "off"]);
        let _ = write!(text, ", congestion = \"{kind}\"");
    }
    if !corrupt && dice.once_in(4) {
        text.push_str(", checksum = false");
    }
    if dice.once_in(4) {
        text.push_str(", bundle = false");
    }
    if dice.once_in(3) {
        let delay = dice.one_of(&["0 us", "1 ms", "200 ms"]);
        let _ = write!(text, ", sack_delay = \"{delay}\"");
    }
    if dice.once_in(3) {
        let least = dice.one_of(&["1 ms", "50 ms", "1 s"]);
        let _ = write!(text, ", wait_min = \"{least}\"");
    }
    if dice.once_in(3) {
        let silence = dice.one_of(&["0 us", "100 ms", "2 s"]);
        let _ = write!(text, ", keep_alive = \"{silence}\"");
    }
}

/// Streams, schedulers and lives.
pub(super) fn stream_options(dice: &mut Dice, text: &mut String) {
    let _ = write!(text, ", streams = {}", dice.one_of(&[1, 2, 3, 17]));
    let scheduler = dice.one_of(&["fcfs", "rr", "rr-packet", "priority", "fair", "wfq"]);
    let _ = write!(text, ", scheduler = \"{scheduler}\"");
    if dice.once_in(2) {
        text.push_str(", interleave = true");
    }
    if dice.once_in(3) {
        text.push_str(", unordered = true");
    }
    if dice.once_in(2) {
        let life = dice.one_of(&["5 ms", "100 ms", "2 s"]);
        let _ = write!(text, ", life = \"{life}\"");
    }
}

/// Streams that begin anew, and authentication.
pub(super) fn reset_options(dice: &mut Dice, text: &mut String) {
    if !dice.once_in(3) {
        let interval = dice.one_of(&["2 ms", "30 ms", "500 ms"]);
        let _ = write!(text, ", reset = \"{interval}\"");
    }
    if dice.once_in(2) {
        text.push_str(", auth = true");
    }
}

/// `text`; if `changes`, with stations whose own addresses come and go. A random stream of its own, as of
/// [`narrow`].
pub(super) fn change_addresses(seed: u64, text: String, changes: bool) -> String {
    if !changes {
        return text;
    }
    let mut dice = Dice(SplitMix64::new(SplitMix64::at(0x6164_6472, seed)));
    let interval = dice.one_of(&["5 ms", "50 ms", "400 ms"]);
    let words = format!("protocol = \"sctp\", address_changes = \"{interval}\"");
    text.replace("protocol = \"sctp\"", &words)
}

/// `text` over links of some MTU, whose stations find out what it is. A random stream of its own: the rest is
/// drawn as without it.
pub(super) fn narrow(seed: u64, text: String) -> String {
    let mut dice = Dice(SplitMix64::new(SplitMix64::at(0x6d74_7500, seed)));
    let text = text.replace(
        "protocol = \"sctp\"",
        "protocol = \"sctp\", path_mtu = \"probe\"",
    );
    // An ether carries all packets of the stations.
    if text.contains("kind = \"ether") {
        return text;
    }
    let mtu = dice.among(548, 1500);
    text.replacen("[medium]\n", &format!("[medium]\nmtu = {mtu}\n"), 1)
}
