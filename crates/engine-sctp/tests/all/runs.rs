//! Messages that are submitted together, and those that arrive whole and in order, take short ways: with them the same
//! packets leave, and the user gets the same, as when each message is submitted and delivered by itself.

use crate::drawn::seeds;
use crate::support::PUSHED;
use core::time::Duration;
use engine::test_kit::{InFlight, written};
use engine::{
    Address, AssociationId, Associations, Batch, Bytes, Close, Deliveries, Instant, Note, Protocol,
    Received, Secret, SplitMix64, submit_each,
};
use engine_sctp::{Sctp, SctpConfig};

/// A message, or a part of one, at the user: its note, its bytes, and whether it ends.
type Got = (Note, Vec<u8>, bool);

/// Both ends, and a link that loses, doubles and delays packets.
struct World {
    /// It takes the short ways.
    is_short: bool,
    ends: [Sctp; 2],
    id: AssociationId,
    now: Instant,
    faults: SplitMix64,
    in_flight: InFlight<(usize, Vec<u8>)>,
    sent: Vec<Vec<u8>>,
    got: Vec<Got>,
    /// Messages that took the short way to the user.
    whole: usize,
    submitted: u64,
}

impl World {
    fn new(config: &SctpConfig, seed: u64, is_short: bool) -> World {
        let ends = [0, 1].map(|end| {
            Sctp::new(SctpConfig {
                seed: 2 * seed + end,
                secret: Secret::from_seed(2 * seed + end),
                ..config.clone()
            })
        });
        let mut world = World {
            is_short,
            ends,
            id: AssociationId(0),
            now: Instant::from_nanos(1_000_000),
            faults: SplitMix64::new(seed),
            in_flight: InFlight::default(),
            sent: Vec::new(),
            got: Vec::new(),
            whole: 0,
            submitted: 0,
        };
        world.ends[1].listen(true);
        let opened = world.ends[0].connect(world.now, &[Address::Station(1)]);
        world.id = opened.expect("room for one");
        world.run(100);
        world
    }

    /// Submits messages of these lengths without notes, and one with `note` behind them.
    fn submit(&mut self, lengths: &[u64], note: &Note) {
        let mut end = self.submitted;
        let ends = lengths.iter().map(|len| {
            end += len;
            end
        });
        let ends: Vec<u64> = ends.collect();
        self.submitted = end + 5;
        match self.is_short {
            true => self.ends[0].submit_all(self.now, self.id, &ends),
            false => submit_each(&mut self.ends[0], self.now, self.id, &ends),
        }
        self.ends[0].submit(self.now, self.id, end + 5, PUSHED, note);
    }

    fn run(&mut self, for_ms: u64) {
        let until = self.now + Duration::from_millis(for_ms);
        loop {
            (0..2).for_each(|from| self.depart(from));
            let arrival = self.in_flight.next_at();
            let timers = self.ends.iter().filter_map(Sctp::poll_timeout);
            let Some(next) = timers.chain(arrival).min().filter(|at| *at <= until) else {
                self.now = until;
                return;
            };
            self.now = self.now.max(next);
            while let Some((from, packet)) = self.in_flight.arrived(self.now) {
                self.arrive(1 - from, &packet);
            }
            for end in &mut self.ends {
                end.handle_timeout(self.now);
            }
        }
    }

    fn depart(&mut self, from: usize) {
        let mut batch = Batch::limited(16, 20_000);
        loop {
            batch.clear();
            self.ends[from].poll_transmit(self.now, &mut batch);
            if batch.is_empty() {
                break;
            }
            let sent = written(&batch, |_, range, out| {
                out.extend(range.clone().map(|at| (at * 31 + at / 251) as u8));
            });
            for octets in sent {
                self.sent.push(octets.clone());
                let copies = [1, 1, 1, 1, 1, 1, 1, 1, 0, 2][self.faults.below(10) as usize];
                for _ in 0..copies {
                    let late_ms = [0, 0, 0, 7][self.faults.below(4) as usize];
                    let at = self.now + Duration::from_millis(5 + late_ms);
                    self.in_flight.send(at, (from, octets.clone()));
                }
            }
        }
        while self.ends[from].poll_event().is_some() {}
    }

    fn arrive(&mut self, to: usize, packet: &[u8]) {
        let mut deliveries = match self.is_short {
            true => Deliveries::with_whole_messages(),
            false => Deliveries::default(),
        };
        let received = Received::new(Address::Station(1 - to as u32), packet);
        self.ends[to].handle_packet(self.now, received, &mut deliveries);
        let mut read = 0;
        for range in deliveries.whole.iter().flat_map(|whole| &whole.ranges) {
            let bytes = packet[range.start as usize..range.end as usize].to_vec();
            read += bytes.len() as u64;
            self.got.push((Note::default(), bytes, true));
            self.whole += 1;
        }
        for delivery in deliveries.bytes {
            let bytes = match delivery.bytes {
                Bytes::Packet(range) => packet[range].to_vec(),
                Bytes::Reassembled(bytes) => bytes,
            };
            read += bytes.len() as u64;
            self.got
                .push((delivery.note, bytes, delivery.end_of_message));
        }
        if read > 0 {
            self.ends[to].consume(self.now, self.id, read);
        }
    }
}

/// Notes of a few messages: none, another stream, unordered, with a payload protocol identifier.
fn draw_note(random: &mut SplitMix64) -> Note {
    let mut note = Note::default();
    match random.below(6) {
        0 => note.stream = 1,
        1 => note.unordered = true,
        2 => note.tag = Some(9),
        _ => {}
    }
    note
}

fn draw_config(random: &mut SplitMix64) -> SctpConfig {
    SctpConfig {
        packet_len: [1472, 9000][random.below(2) as usize],
        bundle: random.below(8) > 0,
        unordered: random.below(6) == 0,
        interleave: random.below(8) == 0,
        outbound_streams: 4,
        inbound_streams: 4,
        receive_buffer: [20_000, 200_000][random.below(2) as usize],
        ..SctpConfig::default()
    }
}

#[test]
fn short_ways_change_nothing_that_can_be_seen() {
    let mut whole = 0;
    for seed in seeds(60) {
        let mut random = SplitMix64::new(seed);
        let config = draw_config(&mut random);
        let [mut one, mut other] =
            [false, true].map(|is_short| World::new(&config, seed, is_short));
        for _ in 0..12 {
            let lengths: Vec<u64> = (0..random.below(120))
                .map(|_| match random.below(40) {
                    0 => 1 + random.below(4000),
                    _ => 1 + random.below(90),
                })
                .collect();
            let note = draw_note(&mut random);
            let for_ms = random.below(60);
            for world in [&mut one, &mut other] {
                world.submit(&lengths, &note);
                world.run(for_ms);
            }
        }
        for world in [&mut one, &mut other] {
            let (now, id) = (world.now, world.id);
            world.ends[0].close(now, id, Close::Graceful);
            world.run(120_000);
        }
        assert_eq!(one.sent, other.sent, "seed {seed}");
        assert_eq!(one.got, other.got, "seed {seed}");
        let bytes: usize = other.got.iter().map(|(_, bytes, _)| bytes.len()).sum();
        assert_eq!(bytes as u64, other.submitted, "all arrives, seed {seed}");
        whole += other.whole;
    }
    assert!(whole > 1000, "the short way was taken");
}
