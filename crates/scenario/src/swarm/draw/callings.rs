//! Draws scenarios of VMTP with streams, requests that are passed on, and groups.

use super::{Below, Dice, Protocol, calls};
use engine::SplitMix64;
use std::fmt::Write;

/// The scenario of `seed`: each pattern has calls of one of these kinds, from one station.
pub(super) fn draw(seed: u64) -> String {
    let mut dice = Dice(SplitMix64::new(SplitMix64::at(0x6361_6c6c_696e_6773, seed)));
    draw_over(&mut dice, seed, None)
}

/// The same by the given dice over what is given; then some groups are given by the number of their members.
pub(super) fn draw_over(dice: &mut Dice, seed: u64, given: Option<Below<'_>>) -> String {
    let stations = dice.among(3, 6);
    let mut text = calls::network(dice, seed, (Protocol::Vmtp, stations), given, 4);
    for _ in 0..dice.among(1, 3) {
        traffic(dice, &mut text, stations, given.is_some());
    }
    text
}

fn traffic(dice: &mut Dice, text: &mut String, stations: u64, may_count: bool) {
    let from = dice.among(0, stations - 1);
    let to = (from + dice.among(1, stations - 1)) % stations;
    let (to, lengths, more) = match dice.among(0, 2) {
        0 => (format!("[{to}]"), &LENGTHS, stream(dice)),
        1 => (format!("[{to}]"), &LENGTHS, forward(dice, from, stations)),
        _ => {
            let more = collect(dice);
            let members = may_count && dice.once_in(3);
            let to = match members {
                true => format!("{{ members = {} }}", dice.among(1, stations - 1)),
                false => group(dice, from, stations),
            };
            (to, &GROUP_LENGTHS, more)
        }
    };
    let length = dice.one_of(lengths);
    let between = dice.one_of(&["10 us", "1 ms", "50 ms"]);
    let _ = write!(
        text,
        "[[traffic]]\nfrom = [{from}]\nto = {to}\nlength = {length}\n\
         interarrival = {{ exponential = \"{between}\" }}\nmessages = {}\n{more}",
        dice.among(1, 30)
    );
    let reply = dice.one_of(&[
        "\"empty\"",
        "\"same\"",
        "\"20 B\"",
        "\"700 B\"",
        "\"16 KiB\"",
    ]);
    let _ = writeln!(text, "reply = {reply}");
    if dice.once_in(3) {
        let time = dice.one_of(&["10 us", "3 ms", "250 ms", "3 s"]);
        let _ = writeln!(text, "service = \"{time}\"");
    }
    let _ = writeln!(text, "start = \"{} ms\"\n", dice.among(0, 6000));
}

const LENGTHS: [&str; 5] = [
    "{ fixed = 1 }",
    "{ fixed = 1460 }",
    "{ uniform = [1, 4000] }",
    "{ exponential = 500 }",
    "{ uniform = [1, 60000] }",
];

/// No message to a group is longer than a packet group.
const GROUP_LENGTHS: [&str; 5] = [
    "{ fixed = 1 }",
    "{ fixed = 1460 }",
    "{ uniform = [1, 4000] }",
    "{ exponential = 500 }",
    "{ uniform = [1, 16384] }",
];

fn stream(dice: &mut Dice) -> String {
    let run = dice.one_of(&[1, 2, 5, 64]);
    let most = dice.one_of(&[2, 5, 30]);
    let limit = dice.one_of(&["outstanding", "clients"]);
    format!("stream = {run}\n{limit} = {most}\n")
}

/// To a station that does not call: often the called one, which then answers itself. Few calls at a
/// time: packets that wait in a queue for longer than one may live are executed again.
fn forward(dice: &mut Dice, from: u64, stations: u64) -> String {
    let to = (from + dice.among(1, stations - 1)) % stations;
    let limit = dice.one_of(&["outstanding", "clients"]);
    format!("forward = {to}\n{limit} = {}\n", dice.among(1, 3))
}

/// All others, or some.
fn group(dice: &mut Dice, from: u64, stations: u64) -> String {
    let others: Vec<u64> = (0..stations).filter(|&other| other != from).collect();
    if dice.once_in(2) {
        return "\"all\"".to_owned();
    }
    let members = dice.among(1, others.len() as u64) as usize;
    format!("{{ group = {:?} }}", &others[..members])
}

fn collect(dice: &mut Dice) -> String {
    let mut text = limit(dice);
    if dice.once_in(3) {
        return text;
    }
    let time = dice.one_of(&["10 ms", "500 ms", "4 s"]);
    let _ = writeln!(text, "collect = \"{time}\"");
    if dice.once_in(2) {
        let _ = writeln!(text, "replies = {}", dice.among(1, 4));
    }
    text
}

fn limit(dice: &mut Dice) -> String {
    let most = dice.among(1, 5);
    match dice.among(0, 2) {
        0 => String::new(),
        1 => format!("outstanding = {most}\n"),
        _ => format!("clients = {most}\n"),
    }
}
