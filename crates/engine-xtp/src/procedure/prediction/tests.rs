//! Two endpoints that predict, and two that do not, do the same.

use super::*;
use crate::config::{Config, ErrorControl, StatusRequestKind};
use congestion::Congestion;
use core::time::Duration;
use engine::test_kit::{Twin, TwoQueues, assert_twins};
use engine::{
    AssociationId, Associations, Close, Ecn, Event, Path, Protocol, SendFlags, SplitMix64,
};

/// Two endpoints and what is on its way between them.
struct Pair {
    ends: [Xtp; 2],
    ids: [Option<AssociationId>; 2],
    packets: TwoQueues,
    /// Bytes submitted at each end, and delivered there that its user has not taken.
    submitted: [u64; 2],
    unread: [u64; 2],
}

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
            11 => Service::Transaction,
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

impl Pair {
    fn open(&mut self, now: Instant) {
        let id = self.ends[0].connect(now, &[Address::Station(1)]);
        self.ids = [Some(id.expect("there is room")), None];
        (self.submitted, self.unread) = ([0; 2], [0; 2]);
    }

    fn submit(&mut self, now: Instant, end: usize, len: u64, flags: SendFlags) {
        let Some(id) = self.ids[end] else {
            return;
        };
        self.submitted[end] += len;
        let position = self.submitted[end];
        self.ends[end].submit(now, id, position, flags, &Note::default());
    }

    fn consume(&mut self, now: Instant, end: usize) {
        let all = core::mem::take(&mut self.unread[end]);
        if let Some(id) = self.ids[end] {
            self.ends[end].consume(now, id, all);
        }
    }

    fn transmit(&mut self, now: Instant, end: usize) {
        self.packets.transmit(&mut self.ends[end], now, end);
    }

    fn receive(&mut self, now: Instant, end: usize, packet: &[u8]) {
        let mut deliveries = Deliveries::with_whole_messages();
        let received = Received {
            path: Path::to(Address::Station(1 - end as u32)),
            ecn: Ecn::NotEct,
            octets: packet,
        };
        self.ends[end].handle_packet(now, received, &mut deliveries);
        for delivery in &deliveries.bytes {
            self.unread[end] += match &delivery.bytes {
                Bytes::Packet(range) => range.len() as u64,
                Bytes::Reassembled(bytes) => bytes.len() as u64,
            };
        }
        self.packets.log += &format!("{deliveries:?}\n");
        self.take_events(end);
    }

    fn take_events(&mut self, end: usize) {
        while let Some(event) = self.ends[end].poll_event() {
            match event {
                Event::Accepted(id, _) => {
                    self.ids[end] = Some(id);
                    (self.submitted[end], self.unread[end]) = (0, 0);
                }
                Event::Closed(id, _) if self.ids[end] == Some(id) => self.ids[end] = None,
                _ => {}
            }
            self.packets.log += &format!("{event:?}\n");
        }
    }

    fn time_out(&mut self, now: Instant) {
        for end in 0..2 {
            self.ends[end].handle_timeout(now);
            self.take_events(end);
        }
    }
}

/// A message of `end`, which may be lost, and whatever it brings about.
fn exchange(pair: &mut Pair, random: &mut SplitMix64, now: &mut Instant, end: usize) {
    *now = *now + Duration::from_micros(random.below(40));
    let len = if random.below(16) == 0 { 300 } else { 64 };
    let flags = match config_frames_messages(pair) {
        true => SendFlags::END_OF_MESSAGE,
        false => SendFlags::NONE,
    };
    pair.submit(
        *now,
        end,
        len,
        SendFlags {
            push: true,
            ..flags
        },
    );
    pair.transmit(*now, end);
    for packet in core::mem::take(&mut pair.packets.queues[1 - end]) {
        if random.below(60) > 0 {
            pair.receive(*now, 1 - end, &packet);
        }
    }
    pair.consume(*now, 1 - end);
    pair.transmit(*now, 1 - end);
    if random.below(20) == 0 {
        *now = *now + Duration::from_millis(25);
        pair.time_out(*now);
    }
}

fn config_frames_messages(pair: &Pair) -> bool {
    pair.ends[0].state.config.framing == Framing::Messages
}

/// What a user may ask for with a submission, and how long it is.
fn submission(pair: &Pair, random: &mut SplitMix64) -> (u64, SendFlags) {
    let len = match random.below(8) {
        0 => 1 + random.below(4000),
        _ => 64,
    };
    let flags = SendFlags {
        push: random.below(4) > 0,
        end_of_message: config_frames_messages(pair) || random.below(40) == 0,
        request_ack: random.below(20) == 0,
        fin: match pair.ends[0].state.config.service {
            Service::Stream => random.below(300) == 0,
            _ => random.below(10) == 0,
        },
        ..SendFlags::NONE
    };
    (len, flags)
}

/// One step of both, by the same numbers.
fn step(pair: &mut Pair, random: &mut SplitMix64, now: &mut Instant) {
    let end = random.below(2) as usize;
    match random.below(16) {
        0..4 => {
            for _ in 0..1 + random.below(8).saturating_sub(5) {
                let (len, flags) = submission(pair, random);
                pair.submit(*now, end, len, flags);
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
            let ms = match random.below(40) {
                0 => 1500,
                1 => 250,
                _ => random.below(8),
            };
            *now = *now + Duration::from_millis(ms);
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
            end.listen(true);
            end
        });
        let mut pair = Pair {
            ends,
            ids: [None; 2],
            packets: TwoQueues::default(),
            submitted: [0; 2],
            unread: [0; 2],
        };
        pair.open(Instant::from_nanos(1_000_000));
        pair
    }

    fn step(&mut self, random: &mut SplitMix64, now: &mut Instant) {
        step(self, random, now);
    }

    fn exchange(&mut self, random: &mut SplitMix64, now: &mut Instant, count: usize) {
        exchange(self, random, now, count % 2);
    }

    /// All that it is, but for memory that is used anew each time.
    fn text(&mut self) -> String {
        let state = |end: &Xtp| (end.state.predicts, end.state.predictions);
        let kept = self.ends.each_ref().map(state);
        for end in &mut self.ends {
            (end.state.predicts, end.state.predictions) = (true, Predictions::default());
            end.state.scratch.clear();
        }
        let text = format!("{:?} {:?}", self.ends, self.packets);
        for (end, kept) in self.ends.iter_mut().zip(kept) {
            (end.state.predicts, end.state.predictions) = kept;
        }
        self.packets.log.clear();
        text
    }

    fn tested(&self) -> [u64; 2] {
        let sums = self.ends.each_ref().map(|end| end.state.predictions);
        [
            sums[0].received + sums[1].received,
            sums[0].sent + sums[1].sent,
        ]
    }
}

#[test]
fn predicted_packets_are_those_of_the_general_way() {
    assert_twins::<Pair>(0..40, 20, 2000);
}
