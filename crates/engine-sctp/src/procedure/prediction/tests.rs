//! Two endpoints that predict, and two that do not, do the same.

use super::*;
use crate::Sctp;
use crate::config::{CongestionChoice, SctpConfig};
use congestion::Congestion;
use core::time::Duration;
use engine::test_kit::{AssociationTwins, Twin, assert_twins, pause};
use engine::{Note, SendFlags, SplitMix64};

/// Two endpoints and what is on its way between them.
struct Pair(AssociationTwins<Sctp>);

fn config(seed: u64) -> SctpConfig {
    SctpConfig {
        checksum: seed % 4 != 3,
        max_burst: if seed.is_multiple_of(3) { 4 } else { 0 },
        spread: seed % 5 == 4,
        unordered: seed % 7 == 6,
        receive_buffer: if seed % 6 == 5 { 6000 } else { 512 << 10 },
        probes_path_mtu: seed.is_multiple_of(2),
        congestion: match seed % 8 {
            6 => CongestionChoice::Other(Congestion::NewReno),
            7 => CongestionChoice::Other(Congestion::Off),
            _ => CongestionChoice::Rfc9260,
        },
        ..SctpConfig::default()
    }
}

impl Twin for Pair {
    fn new(seed: u64, predicts: bool) -> Pair {
        let ends = [1, 2].map(|own| {
            let mut end = Sctp::new(SctpConfig {
                seed: 100 * seed + own,
                ..config(seed)
            });
            end.shared.predictions.is_off = !predicts;
            end
        });
        Pair(AssociationTwins::new(ends, Instant::from_nanos(1_000_000)))
    }

    /// One step of both, by the same numbers.
    fn step(&mut self, random: &mut SplitMix64, now: &mut Instant) {
        let pair = &mut self.0;
        let end = random.below(2) as usize;
        match random.below(16) {
            0..4 => {
                // Requests and replies of one length, and now and then another pattern.
                let count = 1 + random.below(8).saturating_sub(5);
                for _ in 0..count {
                    let len = match random.below(8) {
                        0 => 1 + random.below(4000),
                        _ => 64,
                    };
                    let note = match random.below(24) {
                        0 => Note {
                            stream: 3,
                            ..Note::default()
                        },
                        1 => Note {
                            tag: Some(9),
                            unordered: true,
                            ..Note::default()
                        },
                        _ => Note::default(),
                    };
                    let flags = SendFlags {
                        push: random.below(4) > 0,
                        ..SendFlags::END_OF_MESSAGE
                    };
                    pair.submit(*now, end, len, (flags, &note));
                }
            }
            4..8 => {
                if let Some((packet, _)) = pair.packets.next(end, random) {
                    pair.receive(*now, end, &packet);
                }
            }
            8..11 => pair.consume(*now, end),
            11 => {
                *now = *now + pause(random, [1500, 250]);
                pair.time_out(*now);
            }
            _ => pair.transmit(*now, end),
        }
    }

    fn exchange(&mut self, random: &mut SplitMix64, now: &mut Instant, count: usize) {
        let (pair, end) = (&mut self.0, count % 2);
        pair.send_message(random, now, end, SendFlags::END_OF_MESSAGE);
        pair.take_events(end);
        if random.below(20) == 0 {
            *now = *now + Duration::from_millis(250);
            pair.time_out(*now);
        }
    }

    /// All that it is, but for memory that is used anew each time.
    fn text(&mut self) -> String {
        let take = |end: &mut Sctp| {
            end.shared.prefix.clear();
            end.shared.scratch.clear();
            core::mem::take(&mut end.shared.predictions)
        };
        self.0.packets.text(&mut self.0.ends, take, |end, kept| {
            end.shared.predictions = kept;
        })
    }

    fn tested(&self) -> [u64; 2] {
        let sums = self.0.ends.each_ref().map(|end| end.shared.predictions);
        let of = |count: fn(&Predictions) -> u64| sums.iter().map(count).sum();
        [of(|sum| sum.received), of(|sum| sum.sent)]
    }
}

#[test]
fn predicted_packets_are_those_of_the_general_way() {
    assert_twins::<Pair>(0..24, 20, 500);
}
