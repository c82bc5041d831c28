//! Draws scenarios with transactions.

use super::{
    Below, Dice, Protocol, RETRIES, disturbances, faults, given_medium, head,
    senders_and_receivers, station,
};
use engine::SplitMix64;
use std::fmt::Write;

/// The scenario of `seed`, by the given dice; with services and clients, by dice of their own, or
/// without.
///
/// `call` has no congestion control and sends a message whole: over a link whose queue is shorter
/// than a message it never gets through, so no queue has a limit here.
/// `given` is what is below; drawn if None.
pub(super) fn draw(
    dice: &mut Dice,
    seed: u64,
    protocol: Protocol,
    given: Option<Below<'_>>,
    mut services: Option<&mut Dice>,
) -> String {
    let stations = dice.among(2, 6);
    let mut text = network(dice, seed, (protocol, stations), given, 3);
    for _ in 0..dice.among(1, 3) {
        traffic(dice, &mut text, protocol, stations, services.as_deref_mut());
    }
    text
}

/// Stations, what is below them and disturbs them: what is given, or as drawn, once in `layered` a layer.
pub(super) fn network(
    dice: &mut Dice,
    seed: u64,
    (protocol, stations): (Protocol, u64),
    given: Option<Below<'_>>,
    layered: u64,
) -> String {
    let mut text = head(seed);
    let is_ether = match given.and_then(|below| below.medium) {
        Some(medium) => given_medium(&mut text, medium),
        None => medium(dice, &mut text, stations),
    };
    let below = given.unwrap_or_else(|| match dice.once_in(layered) {
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
    text
}

/// Draws the medium; whether it is an ether.
pub(super) fn medium(dice: &mut Dice, text: &mut String, stations: u64) -> bool {
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

fn traffic(
    dice: &mut Dice,
    text: &mut String,
    protocol: Protocol,
    stations: u64,
    services: Option<&mut Dice>,
) {
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
    let service = services.map(|services| service(services, reply, protocol));
    let has_clients = service
        .as_ref()
        .is_some_and(|text| text.contains("clients"));
    let service = service.unwrap_or(format!("reply = \"{reply}\"\n"));
    let _ = write!(
        text,
        "[[traffic]]\nfrom = {from:?}\nto = {to:?}\nlength = {length}\n\
         interarrival = {{ exponential = \"{between}\" }}\nmessages = {}\n{service}",
        dice.among(1, 30)
    );
    if dice.once_in(3) {
        let most = dice.among(1, 3);
        // A client has one message outstanding.
        if !has_clients {
            let _ = writeln!(text, "outstanding = {most}");
        }
    }
    let _ = writeln!(text, "start = \"{} ms\"\n", dice.among(0, 6000));
}

/// How calls are answered, and who calls. A service may take longer than it takes a caller to ask again.
///
/// `call` sends a lost message whole again, without congestion control: what its callers have
/// outstanding is less than what VMTP's have.
fn service(dice: &mut Dice, reply: &str, protocol: Protocol) -> String {
    let (longest, most) = match protocol {
        Protocol::Vmtp => ("\"40000 B\"", 40),
        _ => ("\"4000 B\"", 5),
    };
    let reply = match dice.among(0, 3) {
        0 => "\"20 B\"",
        1 => "\"700 B\"",
        2 => longest,
        _ if reply == "same" => "\"same\"",
        _ => "\"empty\"",
    };
    let mut text = format!("reply = {reply}\n");
    if dice.once_in(2) {
        let time = dice.one_of(&["10 us", "3 ms", "250 ms", "3 s"]);
        let _ = writeln!(text, "service = \"{time}\"");
    }
    if dice.once_in(2) {
        let clients = dice.one_of(&[1, 2, 5, most]);
        let _ = writeln!(text, "clients = {clients}");
    }
    text
}

/// Transactions of one protocol or the other. What services and clients are is a stream of draws of its
/// own: the rest is drawn as without them.
pub(super) fn clients(seed: u64) -> String {
    let mut dice = Dice(SplitMix64::new(SplitMix64::at(0x0063_616c_6c65_7273, seed)));
    let mut services = Dice(SplitMix64::new(SplitMix64::at(0x7365_7276, seed)));
    let protocol = services.one_of(&[Protocol::Call, Protocol::Vmtp]);
    draw(&mut dice, seed, protocol, None, Some(&mut services))
}
