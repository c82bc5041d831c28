//! Draws scenarios with transactions.

use super::{
    Below, Dice, GRACE_S, HEALED_S, Protocol, RETRIES, disturbances, faults, given_medium,
    senders_and_receivers, station,
};
use std::fmt::Write;

/// The scenario of `seed`, by the given dice.
///
/// `call` has no congestion control and sends a message whole: over a link whose queue is shorter
/// than a message it never gets through, so no queue has a limit here.
/// `given` is what is below; drawn if None.
pub(super) fn draw(
    dice: &mut Dice,
    seed: u64,
    protocol: Protocol,
    given: Option<Below<'_>>,
) -> String {
    let stations = dice.among(2, 6);
    let mut text = format!(
        "name = \"swarm {seed}\"\nseed = {seed}\ntime_limit = \"{} s\"\n\n",
        HEALED_S + GRACE_S
    );
    let is_ether = match given.and_then(|below| below.medium) {
        Some(medium) => given_medium(&mut text, medium),
        None => medium(dice, &mut text, stations),
    };
    let below = given.unwrap_or_else(|| match dice.once_in(3) {
        true => Below::HALVES,
        false => Below::NOTHING,
    });
    let corrupt = faults(dice, &mut text, protocol, is_ether, below);
    disturbances(dice, &mut text, protocol, (stations, 1));
    let many_retries = !dice.once_in(4);
    for _ in 0..stations {
        let options = (corrupt, false, many_retries);
        station(dice, &mut text, protocol, options, (below.layer, ""));
    }
    for _ in 0..dice.among(1, 3) {
        traffic(dice, &mut text, protocol, stations);
    }
    text
}

/// Draws the medium; whether it is an ether.
fn medium(dice: &mut Dice, text: &mut String, stations: u64) -> bool {
    let kind = match dice.among(0, 7) {
        0 => "ether3",
        1..=3 => "ether10",
        4 | 5 if stations == 2 => "direct",
        _ => "switch",
    };
    let _ = writeln!(text, "[medium]\nkind = \"{kind}\"");
    let is_ether = kind.starts_with("ether");
    if !is_ether {
        let rate = dice.one_of(&["1 Mbit/s", "10 Mbit/s", "100 Mbit/s"]);
        let delay = dice.one_of(&["0 us", "10 us", "1 ms", "20 ms"]);
        let _ = writeln!(text, "rate = \"{rate}\"\ndelay = \"{delay}\"");
    }
    text.push('\n');
    is_ether
}

/// Without `retries` a message of `call` is sent again for 102 s and longer, and one of `vmtp` with so
/// many for as long: far beyond the last fault.
pub(super) fn options(dice: &mut Dice, text: &mut String, protocol: Protocol, many_retries: bool) {
    if !many_retries {
        let _ = write!(text, ", retries = {}", dice.among(1, 6));
    } else if protocol == Protocol::Vmtp {
        let _ = write!(text, ", retries = {RETRIES}");
    }
    if dice.once_in(3) {
        text.push_str(", wait_initial = \"400 ms\"");
    }
    if dice.once_in(3) {
        let packet = dice.one_of(match protocol {
            Protocol::Vmtp => &[580, 1100, 1500],
            _ => &[128, 576, 1500],
        });
        let _ = write!(text, ", packet = {packet}");
    }
}

fn traffic(dice: &mut Dice, text: &mut String, protocol: Protocol, stations: u64) {
    let (from, to) = senders_and_receivers(dice, stations);
    // A message of several packet groups of VMTP among them.
    let longest = match protocol {
        Protocol::Vmtp => "{ uniform = [1, 60000] }",
        _ => "{ uniform = [1, 20000] }",
    };
    let length = dice.one_of(&[
        "{ fixed = 1 }",
        "{ fixed = 1460 }",
        "{ uniform = [1, 4000] }",
        "{ exponential = 500 }",
        longest,
    ]);
    let between = dice.one_of(&["10 us", "1 ms", "50 ms"]);
    let reply = dice.one_of(&["empty", "same"]);
    let _ = writeln!(
        text,
        "[[traffic]]\nfrom = {from:?}\nto = {to:?}\nlength = {length}\n\
         interarrival = {{ exponential = \"{between}\" }}\nmessages = {}\nreply = \"{reply}\"",
        dice.among(1, 30)
    );
    if dice.once_in(3) {
        let _ = writeln!(text, "outstanding = {}", dice.among(1, 3));
    }
    let _ = writeln!(text, "start = \"{} ms\"\n", dice.among(0, 6000));
}
