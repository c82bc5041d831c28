//! Two endpoints that predict, and two that do not, do the same.

use super::*;
use crate::config::{Config, ErrorControl, StatusRequestKind};
use congestion::Congestion;
use core::time::Duration;
use engine::test_kit::{AssociationTwins, Twin, assert_twins, pause};
use engine::{AssociationId, Associations, Close, SendFlags, SplitMix64};

/// Two endpoints and what is on its way between them.
struct Pair(AssociationTwins<Xtp>);

fn config(seed: u64) -> Config {
    Config {
        checksum: seed % 4 == 3,
        framing: match seed % 5 {
            4 => Framing::Messages,
            _ => Framing::Stream,
        },
        error: match seed % 7 {
            5 => ErrorControl::GoBackN,
            6 => ErrorControl::None,
            _ => ErrorControl::Selective,
        },
        flow: match seed % 11 {
            10 => FlowControl::Off,
            _ => FlowControl::Allocation,
        },
        status_request_kind: match seed % 9 {
            8 => StatusRequestKind::Delivered,
            _ => StatusRequestKind::Received,
        },
        congestion: match seed % 6 {
            5 => Congestion::NewReno,
            _ => Congestion::Off,
        },
        service: match seed % 13 {
            9..=11 => Service::Transaction,
            12 => Service::AckedDatagram,
            _ => Service::Stream,
        },
        explicit: seed.is_multiple_of(2),
        early_accept: seed % 8 != 7,
        sort: (seed % 10 == 9).then_some(3),
        window: if seed % 3 == 2 { 8000 } else { 1 << 20 },
        ..Config::default()
    }
}

fn frames_messages(twins: &AssociationTwins<Xtp>) -> bool {
    twins.ends[0].state.config.framing == Framing::Messages
}

/// What a user may ask for with a submission, and how long it is.
fn submission(pair: &AssociationTwins<Xtp>, random: &mut SplitMix64) -> (u64, SendFlags) {
    let len = match random.below(8) {
        0 => 1 + random.below(4000),
        _ => 64,
    };
    let flags = SendFlags {
        push: random.below(4) > 0,
        end_of_message: frames_messages(pair) || random.below(40) == 0,
        request_ack: random.below(20) == 0,
        fin: match pair.ends[0].state.config.service {
            Service::Stream => random.below(300) == 0,
            _ => random.below(10) == 0,
        },
        ..SendFlags::NONE
    };
    (len, flags)
}

/// Another header than was sent, as a peer of another make may send it, with a right check.
fn change_header(packet: &mut [u8], random: &mut SplitMix64) {
    let at = random.below(HEADER_LEN as u64) as usize;
    packet[at] ^= 1 << random.below(8);
    let covered = if packet[8] & 0x40 != 0 {
        HEADER_LEN
    } else {
        packet.len()
    };
    packet[16..18].fill(0);
    let check = engine::checksum::checksum(&packet[..covered]);
    packet[16..18].copy_from_slice(&check.to_be_bytes());
}

impl Twin for Pair {
    fn new(seed: u64, predicts: bool) -> Pair {
        let ends = [1, 2].map(|own| {
            let mut end = Xtp::new(Config {
                seed: 100 * seed + own,
                ..config(seed)
            });
            end.state.predicts = predicts;
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
                for _ in 0..1 + random.below(8).saturating_sub(5) {
                    let (len, flags) = submission(pair, random);
                    pair.submit(*now, end, len, (flags, &Note::default()));
                }
            }
            4..8 => {
                if let Some((mut packet, fate)) = pair.packets.next(end, random) {
                    if fate == 3 {
                        change_header(&mut packet, random);
                    }
                    pair.receive(*now, end, &packet);
                }
            }
            8..10 => pair.consume(*now, end),
            10 => pair.ends[end].set_receive_full(
                pair.ids[end].unwrap_or(AssociationId(0)),
                random.below(3) == 0,
            ),
            11 => {
                *now = *now + pause(random, [1500, 250]);
                pair.time_out(*now);
            }
            12 => match pair.ids[end] {
                Some(id) if random.below(200) == 0 => {
                    pair.ends[end].close(*now, id, Close::Abort);
                    pair.take_events(end);
                }
                Some(_) => {}
                None if end == 0 => pair.open(*now),
                None => {}
            },
            _ => pair.transmit(*now, end),
        }
    }

    fn exchange(&mut self, random: &mut SplitMix64, now: &mut Instant, count: usize) {
        let (pair, end) = (&mut self.0, count % 2);
        let flags = match frames_messages(pair) {
            true => SendFlags::END_OF_MESSAGE,
            false => SendFlags::NONE,
        };
        pair.send_message(random, now, end, flags);
        pair.transmit(*now, 1 - end);
        if random.below(20) == 0 {
            *now = *now + Duration::from_millis(25);
            pair.time_out(*now);
        }
    }

    /// All that it is, but for memory that is used anew each time.
    fn text(&mut self) -> String {
        let take = |end: &mut Xtp| {
            end.state.scratch.clear();
            let predicts = core::mem::replace(&mut end.state.predicts, true);
            (predicts, core::mem::take(&mut end.state.predictions))
        };
        self.0.packets.text(&mut self.0.ends, take, |end, kept| {
            (end.state.predicts, end.state.predictions) = kept;
        })
    }

    fn tested(&self) -> [u64; 2] {
        let sums = self.0.ends.each_ref().map(|end| end.state.predictions);
        let of = |count: fn(&Predictions) -> u64| sums.iter().map(count).sum();
        [of(|sum| sum.received + sum.opened), of(|sum| sum.sent)]
    }
}

#[test]
fn predicted_packets_are_those_of_the_general_way() {
    assert_twins::<Pair>(0..80, 20, 2000);
    // A damaged FIRST whose key is known.
    assert_twins::<Pair>(553..554, 20, 0);
}

/// What `end` sends arrives at the other, whose user takes it.
fn pass(pair: &mut AssociationTwins<Xtp>, now: Instant, end: usize) {
    pair.transmit(now, end);
    pair.take_events(end);
    for packet in core::mem::take(&mut pair.packets.queues[1 - end]) {
        pair.receive(now, 1 - end, &packet);
    }
    pair.consume(now, 1 - end);
}

#[test]
fn transactions_of_two_packets_are_predicted() {
    let ends = [1, 2].map(|seed| {
        Xtp::new(Config {
            seed,
            service: Service::Transaction,
            ..Config::default()
        })
    });
    let now = Instant::from_nanos(1_000_000);
    let mut pair = AssociationTwins::new(ends, now);
    let last = SendFlags {
        fin: true,
        ..SendFlags::NONE
    };
    for count in 0..10 {
        if count > 0 {
            pair.open(now);
        }
        for end in [0, 1] {
            pair.submit(now, end, 64, (last, &Note::default()));
            pass(&mut pair, now, end);
        }
        // The last acknowledgement ends both.
        pass(&mut pair, now, 0);
        assert_eq!(pair.ids, [None; 2]);
    }
    let [caller, service] = pair.ends.map(|end| end.state.predictions);
    // The first opening shows what the others ask for.
    assert_eq!((caller.opened, caller.received, caller.sent), (0, 10, 9));
    assert_eq!((service.opened, service.received, service.sent), (9, 0, 10));
}
