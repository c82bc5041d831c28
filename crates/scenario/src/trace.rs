//! A run as lines, one for each thing that happens to a packet, and where two runs part.

use sim::{Happening, Observation};
use std::fmt::Write;

/// Octets of a packet shown in a line.
const SHOWN: usize = 48;

/// The line of an observation: time in ps, what, at which station, from which, length, a hash of
/// the packet and its first octets.
pub fn line(observation: &Observation<'_>) -> String {
    let what = match observation.what {
        Happening::Offered => "offered",
        Happening::Arrived => "arrived",
        Happening::Lost => "lost",
        Happening::Dropped => "dropped",
        Happening::Collided => "collided",
    };
    let packet = observation.packet;
    let mut line = format!(
        "{} {what} at={} from={} len={} hash={:016x} ",
        observation.at_ps,
        observation.station,
        observation.from,
        packet.len(),
        hash(HASH_START, packet)
    );
    for octet in packet.iter().take(SHOWN) {
        let _ = write!(line, "{octet:02x}");
    }
    line
}

/// Where [`hash`] begins.
pub const HASH_START: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a: adds `octets` to a hash. Tells runs apart; not for secrets.
pub fn hash(start: u64, octets: &[u8]) -> u64 {
    octets.iter().fold(start, |hash, octet| {
        (hash ^ u64::from(*octet)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The first line at which two traces part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parting {
    /// Its number, from 1.
    pub line: usize,
    /// What stands in the first trace; None behind its end.
    pub first: Option<String>,
    /// What stands in the second.
    pub second: Option<String>,
}

/// Compares two traces; None when they are equal.
pub fn difference(
    first: impl Iterator<Item = String>,
    second: impl Iterator<Item = String>,
) -> Option<Parting> {
    let (mut first, mut second) = (first, second);
    let mut line = 0;
    loop {
        line += 1;
        let pair = (first.next(), second.next());
        match pair {
            (None, None) => return None,
            (a, b) if a == b => {}
            (first, second) => {
                return Some(Parting {
                    line,
                    first,
                    second,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_part_at_the_first_line_that_differs() {
        let lines = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let difference = |a, b| difference(lines(a).into_iter(), lines(b).into_iter());
        assert_eq!(difference("a b c", "a b c"), None);
        assert_eq!(
            difference("a b c", "a x c").map(|found| found.line),
            Some(2)
        );
        let longer = difference("a b", "a b c");
        assert_eq!(longer.and_then(|found| found.second), Some("c".to_owned()));
    }
}
