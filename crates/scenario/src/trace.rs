//! A run as lines, one for each packet event, and where two runs differ.

use sim::{Observation, PacketEvent};
use wire::trace::TraceEntry;

pub use wire::trace::{HASH_START, hash};

/// The line of an observation: time in ps, event, station, sender, length, a hash of the packet and
/// its first octets.
pub fn line(observation: &Observation<'_>) -> String {
    let what = match (observation.event, observation.by_ring) {
        (PacketEvent::Offered, false) => "offered",
        (PacketEvent::Offered, true) => "offered-to-ring",
        (PacketEvent::Arrived, false) => "arrived",
        (PacketEvent::Arrived, true) => "arrived-by-ring",
        (PacketEvent::Lost, false) => "lost",
        (PacketEvent::Lost, true) => "lost-in-ring",
        (PacketEvent::Dropped, _) => "dropped",
        (PacketEvent::Filtered, _) => "filtered",
        (PacketEvent::Collided, _) => "collided",
        (PacketEvent::RingsBegan, _) => "rings-began",
        (PacketEvent::RingsEnded, _) => "rings-ended",
    };
    let line = TraceEntry {
        at_ps: observation.at_ps,
        event: what,
        station: observation.station as u64,
        from: observation.from as u64,
        path: observation.path,
        packet: observation.packet,
    };
    line.to_string()
}

/// A line without what differs between live runs with equal packets: the time, and the octets, in
/// which keys are random. None for a line that is no event.
pub fn outline(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split(' ').take(5).collect();
    let event = !line.starts_with('#') && words.len() == 5;
    event.then(|| words[1..].join(" "))
}

/// The first line at which two traces differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceDifference {
    /// Its number, from 1.
    pub line: usize,
    /// The line of the first trace; None after its end.
    pub first: Option<String>,
    /// The line of the second.
    pub second: Option<String>,
}

/// Compares two traces; None when they are equal.
pub fn difference(
    first: impl Iterator<Item = String>,
    second: impl Iterator<Item = String>,
) -> Option<TraceDifference> {
    let (mut first, mut second) = (first, second);
    let mut line = 0;
    loop {
        line += 1;
        let pair = (first.next(), second.next());
        match pair {
            (None, None) => return None,
            (a, b) if a == b => {}
            (first, second) => {
                return Some(TraceDifference {
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
    fn outline_keeps_event_stations_and_length() {
        let event = "1250 offered at=0 from=0 len=52 hash=91c0cf2b0a7d4ce1 0000";
        assert_eq!(
            outline(event).as_deref(),
            Some("offered at=0 from=0 len=52")
        );
        assert_eq!(outline("# station 0 is 127.0.0.1:9"), None);
        assert_eq!(outline(""), None);
    }

    #[test]
    fn difference_is_the_first_unequal_line() {
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
