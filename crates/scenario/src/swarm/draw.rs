//! Draws a scenario from a seed.

mod callings;
mod calls;
mod cells;
mod datagrams;
mod groups;
mod retries;
mod sctp;
mod shortcut;
mod xtp;

use super::{GRACE_S, HEALED_S};
pub use cells::CALLS_OVER_CELLS;
pub use datagrams::DATAGRAMS;
use engine::SplitMix64;
pub use groups::XTP_GROUPS;
pub use retries::VMTP_RETRIES;
pub use sctp::{SCTP_ADDRESSES, SCTP_MTU, SCTP_PATHS, SCTP_RESETS, SCTP_STREAMS};
pub use shortcut::SHORTCUTS;
use std::fmt::Write;
use std::ops::Range;

/// The random choices.
struct Dice(SplitMix64);

impl Dice {
    /// From `low` to `high`, both included.
    fn among(&mut self, low: u64, high: u64) -> u64 {
        low + self.0.below(high - low + 1)
    }

    /// True once in `n`.
    fn once_in(&mut self, n: u64) -> bool {
        self.0.below(n) == 0
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.0.below(choices.len() as u64) as usize]
    }
}

/// The protocol of a scenario; only faults it can recover from are drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Bare,
    Xtp,
    Xtp3,
    Call,
    Sctp,
    /// With streams, schedulers and lives.
    SctpStreams,
    /// The same, with streams that begin anew and chunks that are authenticated.
    SctpResets,
    Vmtp,
    /// Nothing that is lost comes again, and nothing orders what arrives.
    Udp,
}

/// Seeds whose scenarios have transactions or layers. All others have neither, as before these were
/// drawn.
pub const CALLS_AND_LAYERS: Range<u64> = 1 << 32..1 << 33;

/// Seeds whose scenarios have SCTP. No others do.
pub const SCTP: Range<u64> = 1 << 33..1 << 34;

/// Seeds whose scenarios have transactions of VMTP.
pub const VMTP: Range<u64> = 1 << 34..5 << 32;

/// Seeds whose scenarios have ATM cells below any protocol.
pub const CELLS: Range<u64> = 6 << 32..7 << 32;

/// What is below the protocols of a scenario.
#[derive(Clone, Copy)]
struct Below<'a> {
    /// An option of all stations: a layer.
    layer: &'a str,
    /// The medium; a drawn one if not given.
    medium: Option<&'a str>,
    /// Frames may be damaged.
    is_damaging: bool,
    /// Media side by side.
    paths: u64,
}

impl Below<'_> {
    const NOTHING: Below<'static> = Below {
        layer: "",
        medium: None,
        is_damaging: true,
        paths: 1,
    };

    /// A layer has no check of its own: an error in both halves of a packet may escape the check of 16
    /// bits that the packet has, so frames are damaged only without one.
    const HALVES: Below<'static> = Below {
        layer: LAYER,
        medium: None,
        is_damaging: false,
        paths: 1,
    };
}

/// Seeds whose scenarios have transactions, of `call` or of VMTP, with services, replies of any length
/// and clients.
pub const CLIENTS: Range<u64> = 7 << 32..8 << 32;

/// Seeds whose scenarios have VMTP with streams, requests that are passed on and groups. No others do.
pub const VMTP_CALLINGS: Range<u64> = 11 << 32..12 << 32;

/// The scenario of `seed`, as TOML. Equal seeds give equal texts.
pub fn draw(seed: u64) -> String {
    if VMTP_CALLINGS.contains(&seed) {
        return callings::draw(seed);
    }
    if VMTP_RETRIES.contains(&seed) {
        return retries::draw(seed);
    }
    if DATAGRAMS.contains(&seed) {
        return datagrams::draw(seed);
    }
    if XTP_GROUPS.contains(&seed) {
        return groups::draw(seed);
    }
    if CLIENTS.contains(&seed) {
        return calls::clients(seed);
    }
    if SHORTCUTS.contains(&seed) {
        return shortcut::draw(seed);
    }
    if SCTP.contains(&seed) {
        return circuits(seed, Below::NOTHING, Some(Protocol::Sctp));
    }
    if SCTP_PATHS.contains(&seed) || SCTP_ADDRESSES.contains(&seed) {
        let below = Below {
            paths: 2 + seed % 3,
            ..Below::NOTHING
        };
        let text = circuits(seed, below, Some(Protocol::Sctp));
        let changes = SCTP_ADDRESSES.contains(&seed);
        return sctp::change_addresses(seed, text, changes);
    }
    if SCTP_STREAMS.contains(&seed) || SCTP_RESETS.contains(&seed) {
        let paths = 1 + seed % 2;
        let below = Below {
            paths,
            ..Below::NOTHING
        };
        let protocol = match SCTP_RESETS.contains(&seed) {
            true => Protocol::SctpResets,
            false => Protocol::SctpStreams,
        };
        return circuits(seed, below, Some(protocol));
    }
    if SCTP_MTU.contains(&seed) {
        return sctp::narrow(seed, circuits(seed, Below::NOTHING, Some(Protocol::Sctp)));
    }
    if CELLS.contains(&seed) || CALLS_OVER_CELLS.contains(&seed) {
        return cells::draw(seed);
    }
    if VMTP.contains(&seed) {
        let mut dice = Dice(SplitMix64::new(SplitMix64::at(0x564d_5450, seed)));
        return calls::draw(&mut dice, seed, Protocol::Vmtp, None, None);
    }
    if !CALLS_AND_LAYERS.contains(&seed) {
        return circuits(seed, Below::NOTHING, None);
    }
    // A random stream of its own: circuits are drawn as they are without a layer.
    let mut dice = Dice(SplitMix64::new(SplitMix64::at(0xca11, seed)));
    match dice.once_in(2) {
        true => calls::draw(&mut dice, seed, Protocol::Call, None, None),
        false => circuits(seed, Below::HALVES, None),
    }
}

/// The option of a station with a layer.
const LAYER: &str = "layer = \"halves\"\n";

/// The first lines of the scenario of `seed`.
fn head(seed: u64) -> String {
    let limit = HEALED_S + GRACE_S;
    format!("name = \"swarm {seed}\"\nseed = {seed}\ntime_limit = \"{limit} s\"\n\n")
}

/// Stations with circuits of `only` or of a protocol that is drawn.
fn circuits(seed: u64, below: Below<'_>, only: Option<Protocol>) -> String {
    let mut dice = Dice(SplitMix64::new(SplitMix64::at(0x5eed, seed)));
    let protocol = dice.one_of(&[
        Protocol::Xtp,
        Protocol::Xtp,
        Protocol::Xtp,
        Protocol::Xtp,
        Protocol::Xtp3,
        Protocol::Bare,
    ]);
    let protocol = only.unwrap_or(protocol);
    let stations = dice.among(2, 6);
    let mut text = head(seed);
    let is_ether = match below.medium {
        Some(medium) => given_medium(&mut text, medium),
        None => medium(&mut dice, &mut text, stations, below.paths),
    };
    let corrupt = faults(&mut dice, &mut text, protocol, is_ether, below);
    disturbances(&mut dice, &mut text, protocol, (stations, below.paths));
    // Both ends must agree on the length of control packets, and use the same version.
    let resend_pairs = dice.once_in(2);
    let version = version_option(seed);
    let many_retries = !dice.once_in(4);
    for _ in 0..stations {
        station(
            &mut dice,
            &mut text,
            protocol,
            (corrupt, resend_pairs, many_retries),
            (below.layer, &version),
        );
    }
    if below.paths > 1 {
        // With a HEARTBEAT a path and association each 100 ms the media are never idle, so that no run
        // would end.
        text = text.replace("keep_alive = \"100 ms\"", "keep_alive = \"2 s\"");
    }
    for _ in 0..dice.among(1, 3) {
        traffic(&mut dice, &mut text, stations);
    }
    text
}

/// The version of all stations as an option: 4.0 half the time. A random stream of its own, so that
/// the rest of a seed's scenario does not depend on it.
fn version_option(seed: u64) -> String {
    let mut dice = Dice(SplitMix64::new(SplitMix64::at(0xd1a1, seed)));
    let version = dice.one_of(&["4.0", "4.0", "4.0", "3.6", "3.5", "3.3"]);
    let mut words = match version {
        "4.0" => return String::new(),
        v3 => format!(", dialect = \"{v3}\""),
    };
    if dice.once_in(4) {
        words.push_str(", fixed_pairs = true");
    }
    if version == "3.6" && dice.once_in(2) {
        words.push_str(", routes = true");
    }
    words
}

/// Writes a medium that is given; it is no ether.
fn given_medium(text: &mut String, medium: &str) -> bool {
    let _ = writeln!(text, "[medium]\n{medium}");
    false
}

/// Draws the medium; whether it is an ether.
fn medium(dice: &mut Dice, text: &mut String, stations: u64, paths: u64) -> bool {
    text.push_str("[medium]\n");
    if paths > 1 {
        let _ = writeln!(text, "paths = {paths}");
    }
    let kind = match dice.among(0, 7) {
        0 => "ether3",
        1..=3 => "ether10",
        4 | 5 if stations == 2 => "direct",
        _ => "switch",
    };
    let _ = writeln!(text, "kind = \"{kind}\"");
    if kind.starts_with("ether") {
        if dice.once_in(2) {
            let position_us = dice.among(0, 25);
            let _ = writeln!(
                text,
                "positions = [\"0 us\", \"{position_us} us\", \"3 us\"]"
            );
        }
        text.push('\n');
        return true;
    }
    let rate = dice.one_of(&["1 Mbit/s", "10 Mbit/s", "100 Mbit/s"]);
    let delay = dice.one_of(&["0 us", "10 us", "1 ms", "20 ms"]);
    let _ = writeln!(text, "rate = \"{rate}\"\ndelay = \"{delay}\"");
    if dice.once_in(2) {
        let queue = dice.one_of(&["8 KiB", "32 KiB", "256 KiB"]);
        let _ = writeln!(text, "queue = \"{queue}\"");
    }
    if kind == "switch" && dice.once_in(3) {
        text.push_str("cut_through = 22\n");
    }
    text.push('\n');
    false
}

/// Draws the faults; whether frames are damaged.
fn faults(
    dice: &mut Dice,
    text: &mut String,
    protocol: Protocol,
    is_ether: bool,
    below: Below<'_>,
) -> bool {
    if protocol == Protocol::Bare || dice.once_in(3) {
        return false;
    }
    let _ = writeln!(text, "[faults]\nuntil = \"{HEALED_S} s\"");
    if dice.once_in(2) {
        let _ = writeln!(text, "loss = \"{}%\"", dice.among(1, 10));
        if dice.once_in(3) {
            let _ = writeln!(text, "loss_run = {}.0", dice.among(2, 8));
        }
    }
    if dice.once_in(3) && !is_ether {
        let _ = writeln!(text, "duplicate = \"{}%\"", dice.among(1, 20));
    }
    // The one medium that is given, a line of cells, keeps their order.
    if dice.once_in(3) && below.medium.is_none() {
        let by = dice.one_of(&["100 us", "3 ms", "40 ms"]);
        let share = dice.among(1, 20);
        let _ = writeln!(text, "reorder = \"{share}%\"\nreorder_by = \"{by}\"");
    }
    // The study's data packets have no checksum over their data.
    let corrupt = protocol != Protocol::Xtp3 && dice.once_in(3) && below.is_damaging;
    if corrupt {
        let _ = writeln!(text, "corrupt = \"{}%\"", dice.among(1, 10));
    }
    text.push('\n');
    corrupt
}

fn disturbances(
    dice: &mut Dice,
    text: &mut String,
    protocol: Protocol,
    (stations, paths): (u64, u64),
) {
    if protocol == Protocol::Bare || paths == 1 && dice.once_in(2) {
        return;
    }
    for _ in 0..dice.among(1, 3) {
        let kind = dice.one_of(&["crash", "partition", "flap", "loss"]);
        let at = dice.among(0, 4000);
        // Four times of 1200 ms from 4000 ms on end before all faults do.
        let lasts = dice.among(1, 1000);
        let _ = writeln!(
            text,
            "[[disturbance]]\nkind = \"{kind}\"\nat = \"{at} ms\"\nlasts = \"{lasts} ms\""
        );
        match kind {
            "loss" => {
                let _ = writeln!(text, "loss = \"{}%\"", dice.among(10, 90));
            }
            _ => {
                let station = dice.among(0, stations - 1);
                let _ = writeln!(text, "stations = [{station}]");
            }
        }
        if paths > 1 && kind != "crash" && !dice.once_in(4) {
            let _ = writeln!(text, "path = {}", dice.among(0, paths - 1));
        }
        if kind == "flap" || dice.once_in(3) {
            let times = dice.among(2, 4);
            let _ = writeln!(text, "every = \"1200 ms\"\ntimes = {times}");
        }
        text.push('\n');
    }
}

fn station(
    dice: &mut Dice,
    text: &mut String,
    protocol: Protocol,
    (corrupt, resend_pairs, many_retries): (bool, bool, bool),
    (layer, version): (&str, &str),
) {
    let _ = write!(text, "[[station]]\n{layer}engine = {{ protocol = ");
    text.push_str(match protocol {
        Protocol::Bare => "\"bare\"",
        Protocol::Xtp => "\"xtp\"",
        Protocol::Xtp3 => "\"xtp3\", wtimer = \"200 ms\", ctimer = \"8 s\"",
        Protocol::Call => "\"call\"",
        // Pauses grow no longer than the time left after the faults.
        Protocol::Sctp | Protocol::SctpStreams | Protocol::SctpResets => {
            "\"sctp\", wait_max = \"2 s\""
        }
        Protocol::Vmtp => "\"vmtp\"",
        Protocol::Udp => "\"udp\"",
    });
    match protocol {
        Protocol::Xtp => {
            text.push_str(version);
            xtp::options(dice, text, (corrupt, many_retries));
        }
        Protocol::Xtp3 => {
            let _ = write!(text, ", resend_pairs = {resend_pairs}");
            if dice.once_in(3) {
                text.push_str(", alloc = \"16 KiB\"");
            }
            if dice.once_in(4) {
                text.push_str(", credit = \"8 KiB\"");
            }
        }
        Protocol::Call | Protocol::Vmtp => calls::options(dice, text, protocol, many_retries),
        Protocol::Sctp => sctp::options(dice, text, (corrupt, many_retries)),
        Protocol::SctpStreams => {
            sctp::options(dice, text, (corrupt, many_retries));
            sctp::stream_options(dice, text);
        }
        Protocol::SctpResets => {
            sctp::options(dice, text, (corrupt, many_retries));
            sctp::stream_options(dice, text);
            sctp::reset_options(dice, text);
        }
        Protocol::Udp => datagrams::options(dice, text, corrupt),
        Protocol::Bare => {}
    }
    text.push_str(" }\n");
    chips(dice, text);
    text.push('\n');
}

fn chips(dice: &mut Dice, text: &mut String) {
    if dice.once_in(2) {
        let copy = dice.one_of(&["0 us", "1 us"]);
        let packet = dice.one_of(&["0 us", "20 us", "300 us"]);
        let clock = dice.among(0, 100_000) as i64 - 50_000;
        let _ = writeln!(
            text,
            "chips = {{ copy_delay = \"{copy}\", packet = \"{packet}\", interrupt = \"5 us\", \
             clock_ppm = {clock} }}"
        );
    }
}

/// Retries with which loss alone closes no circuit: with half of all frames lost, one in 10^12.
pub(super) const RETRIES: u32 = 40;

fn traffic(dice: &mut Dice, text: &mut String, stations: u64) {
    let (from, to) = senders_and_receivers(dice, stations);
    messages(
        dice,
        text,
        (&format!("{from:?}"), &format!("{to:?}")),
        "{ fixed = 1460 }",
    );
    if dice.once_in(3) {
        let _ = writeln!(text, "outstanding = {}", dice.among(1, 3));
    }
    let _ = writeln!(text, "start = \"{} ms\"\n", dice.among(0, 6000));
}

/// Messages from the stations `from` to those of `to`, of which some have the length that fills a packet.
fn messages(dice: &mut Dice, text: &mut String, (from, to): (&str, &str), full: &str) {
    let length = dice.one_of(&[
        "{ fixed = 1 }",
        full,
        "{ uniform = [1, 4000] }",
        "{ exponential = 500 }",
        "{ uniform = [1, 30000] }",
    ]);
    let between = dice.one_of(&["10 us", "1 ms", "50 ms"]);
    let _ = writeln!(
        text,
        "[[traffic]]\nfrom = {from}\nto = {to}\nlength = {length}\n\
         interarrival = {{ exponential = \"{between}\" }}\nmessages = {}",
        dice.among(1, 40)
    );
}

/// All to two, one to all, or one to one.
fn senders_and_receivers(dice: &mut Dice, stations: u64) -> (Vec<u64>, Vec<u64>) {
    let from = dice.among(0, stations - 1);
    let to = (from + dice.among(1, stations - 1)) % stations;
    let all_stations: Vec<u64> = (0..stations).collect();
    match dice.among(0, 3) {
        0 => (all_stations, vec![from, to]),
        1 => (vec![from], all_stations),
        _ => (vec![from], vec![to]),
    }
}
