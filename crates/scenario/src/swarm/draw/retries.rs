//! Draws scenarios of VMTP with tries of requests, times between them, and requests that nobody repairs.

use super::{Dice, Protocol, calls};
use engine::SplitMix64;
use std::fmt::Write;
use std::ops::Range;

/// Seeds whose scenarios have VMTP with tries, times between them, and requests that are sent again whole. No
/// others do.
pub const VMTP_RETRIES: Range<u64> = 21 << 32..22 << 32;

/// The scenario of `seed`: each pattern has calls from one station to another.
pub(super) fn draw(seed: u64) -> String {
    let mut dice = Dice(SplitMix64::new(SplitMix64::at(0x7472_6965_7300, seed)));
    let stations = dice.among(2, 5);
    let mut text = calls::network(&mut dice, seed, (Protocol::Vmtp, stations), None, 4);
    for _ in 0..dice.among(1, 3) {
        traffic(&mut dice, &mut text, stations);
    }
    text
}

/// Few calls at a time, of a packet group at most: a request that is sent again whole while it waits in a queue makes
/// the queue longer.
fn traffic(dice: &mut Dice, text: &mut String, stations: u64) {
    let from = dice.among(0, stations - 1);
    let to = (from + dice.among(1, stations - 1)) % stations;
    let length = dice.one_of(&[
        "{ fixed = 1 }",
        "{ fixed = 1460 }",
        "{ uniform = [1, 4000] }",
        "{ exponential = 500 }",
        "{ uniform = [1, 16384] }",
    ]);
    let between = dice.one_of(&["10 us", "1 ms", "50 ms"]);
    let retries = retries(dice);
    let limit = dice.one_of(&["outstanding", "clients"]);
    let reply = dice.one_of(&["\"empty\"", "\"same\"", "\"20 B\"", "\"16 KiB\""]);
    let _ = write!(
        text,
        "[[traffic]]\nfrom = [{from}]\nto = [{to}]\nlength = {length}\n\
         interarrival = {{ exponential = \"{between}\" }}\nmessages = {}\n{retries}{limit} = {}\n\
         reply = {reply}\n",
        dice.among(1, 30),
        dice.among(1, 3),
    );
    if dice.once_in(3) {
        let time = dice.one_of(&["10 us", "3 ms", "250 ms", "3 s"]);
        let _ = writeln!(text, "service = \"{time}\"");
    }
    let _ = writeln!(text, "start = \"{} ms\"\n", dice.among(0, 6000));
}

fn retries(dice: &mut Dice) -> String {
    let is_timed = dice.once_in(2);
    let mut text = match is_timed {
        true => "repair = \"timeout\"\n".to_owned(),
        false => String::new(),
    };
    if !is_timed || dice.once_in(2) {
        let _ = writeln!(text, "tries = {}", dice.among(1, 6));
        if dice.once_in(2) {
            let spacing = dice.one_of(&["20 ms", "300 ms", "2 s"]);
            let _ = writeln!(text, "spacing = \"{spacing}\"");
        }
    }
    text
}
