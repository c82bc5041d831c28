//! An association of XTP whose sender's packets leave by reference, through a relay that drops, repeats and delays
//! them, as drawn from a seed: the bytes arrive whole and in order.
//!
//! The relay peeks at a datagram, forwards it, and forwards it again when it takes it from its socket later: by then
//! its pages may show what the sender wrote since. Senders of odd seeds lend pages, into which they write something else as
//! soon as they are theirs again. In half of the runs the receiver's socket has little room. Engines, pumps and sockets are the real ones in one thread, and
//! the clock stands still while packets move. TOWPATH_SEEDS is the number of seeds, TOWPATH_SEED the only one.

use crate::drawn::seeds;
use driver::Pump;
use driver::lend::{Buffer, PageBuffer};
use driver::receive_queue::{MessageReader, ReadOutcome};
use driver::sys::{Producer, ring};
use engine::{Address, AssociationId, Associations, Framing, Instant, Path, Protocol, SplitMix64};
use engine_xtp::{Config, Xtp};
use rustix::net::RecvFlags;
use std::cell::Cell;
use std::io::{self, IoSlice};
use std::net::{SocketAddr, UdpSocket};
use std::rc::Rc;
use std::sync::Arc;
use wire::{Taken, Wire};
use wire_udp::UdpWire;

/// Seeds of a usual run.
const SEEDS: u64 = 24;

/// Bytes of an association: the store is filled many times.
const SENT: u64 = 3 << 20;

/// Bytes of the send store: small, so that they are soon overwritten.
const STORE_LEN: usize = 128 << 10;

/// The same with long packets: eight of them.
const LONG_STORE_LEN: usize = 8 * LONG_PAYLOAD;

/// Pages of a packet of lent bytes, which with its header fill a call.
const LONG_PAYLOAD: usize = 15 * 4096;

/// Octets of the receiver's socket in half of the runs: what comes beyond them is dropped.
const SMALL_BUFFER_LEN: usize = 128 << 10;

/// Datagrams that the relay looks at before the ends are served again.
const RELAYED_MAX: u32 = 60;

/// Rounds of a run at most, and engine time.
const ROUNDS_MAX: u32 = 200_000;
const TIME_MAX: Instant = Instant::from_nanos(600_000_000_000);

fn on_loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// The byte at a position of the stream.
fn byte(position: u64) -> u8 {
    (position.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// What happened in runs, so that none is without what it is for.
#[derive(Debug, Default)]
struct Tally {
    by_reference: u64,
    dropped: u32,
    repeated: u32,
    /// Repeated ones that had changed meanwhile.
    changed: u32,
    retransmitted: u64,
    lent: u32,
    /// Calls by reference of senders that lend.
    lent_by_reference: u64,
}

/// Pages that a sender lends, and has again.
#[derive(Default)]
struct LentPages {
    /// Of runs that lend.
    is_on: bool,
    own: Vec<PageBuffer>,
    lent: u32,
}

impl LentPages {
    /// Lends `bytes`; false when the store has no room.
    fn lend(&mut self, producer: &mut Producer, bytes: &[u8]) -> bool {
        self.reclaim(producer);
        let known = self.own.iter().position(|pages| pages.len() == bytes.len());
        let mut pages = match known {
            Some(at) => self.own.swap_remove(at),
            None => PageBuffer::new(bytes.len()).expect("memory"),
        };
        pages.make_mut().expect("memory").copy_from_slice(bytes);
        let taken = producer.append_lent(pages.into(), false);
        let is_taken = taken.is_ok();
        self.lent += u32::from(is_taken);
        self.own.extend(taken.err().map(owned));
        is_taken
    }

    /// Takes back what was acknowledged, and writes into it.
    fn reclaim(&mut self, producer: &mut Producer) {
        while let Some(returned) = producer.reclaim() {
            let mut pages = owned(returned.buffer);
            pages.make_mut().expect("memory").fill(0xee);
            self.own.push(pages);
        }
    }
}

fn owned(buffer: Buffer) -> PageBuffer {
    match buffer {
        Buffer::Pages(pages) => Arc::into_inner(pages).expect("it has one owner"),
        other => panic!("{other:?} was not lent"),
    }
}

/// A wire that counts its calls by reference.
struct CountingWire {
    udp: UdpWire,
    by_reference: Rc<Cell<u64>>,
}

impl Wire for CountingWire {
    fn send_by_reference(
        &mut self,
        path: Path,
        slices: &[IoSlice<'_>],
        segment_size: usize,
    ) -> io::Result<Taken> {
        let taken = self.udp.send_by_reference(path, slices, segment_size)?;
        let count = u64::from(taken == Taken::ByReference);
        self.by_reference.set(self.by_reference.get() + count);
        Ok(taken)
    }

    wire::forward! { self => self.udp;
        capabilities send receive poll_path_error set_fragmentation path_mtu unanswerable receive_drops
        set_packet_len descriptor has_buffered may_wait join leave receiver
    }
}

/// A datagram that was forwarded and is still in its socket.
struct Peeked(Vec<u8>);

/// One direction of the relay.
struct Direction {
    from: UdpSocket,
    peeked: Option<Peeked>,
    pause: u64,
}

impl Direction {
    fn new() -> Direction {
        let from = UdpSocket::bind(on_loopback()).expect("a free port");
        wire_udp::sys::set_buffers(std::os::fd::AsFd::as_fd(&from), 4 << 20);
        Direction {
            from,
            peeked: None,
            pause: 0,
        }
    }

    fn address(&self) -> SocketAddr {
        self.from.local_addr().expect("it is bound")
    }

    fn receive(&self, flags: RecvFlags) -> Option<Vec<u8>> {
        let mut buffer = vec![0; 65_536];
        let flags = flags | RecvFlags::DONTWAIT;
        let (_, len) = rustix::net::recv(&self.from, &mut buffer[..], flags).ok()?;
        buffer.truncate(len);
        Some(buffer)
    }

    /// Relays up to [`RELAYED_MAX`] datagrams; whether there was one.
    fn relay(
        &mut self,
        by: &UdpSocket,
        to: SocketAddr,
        random: &mut SplitMix64,
        tally: &mut Tally,
    ) -> bool {
        if self.pause > 0 {
            self.pause -= 1;
            return true;
        }
        let forward = |octets: &[u8]| {
            by.send_to(octets, to).expect("the loopback has room");
        };
        for count in 0..RELAYED_MAX {
            if let Some(Peeked(before)) = self.peeked.take() {
                let now = self.receive(RecvFlags::empty()).expect("it was peeked at");
                forward(&now);
                tally.repeated += 1;
                tally.changed += u32::from(now != before);
                continue;
            }
            let repeats = random.below(40) == 0;
            let flags = if repeats {
                RecvFlags::PEEK
            } else {
                RecvFlags::empty()
            };
            let Some(octets) = self.receive(flags) else {
                return count > 0;
            };
            if repeats {
                forward(&octets);
                self.peeked = Some(Peeked(octets));
                // Acknowledgements come back meanwhile.
                self.pause = random.below(30);
                return true;
            }
            match random.below(100) {
                0 => tally.dropped += 1,
                1 => {
                    forward(&octets);
                    forward(&octets);
                }
                _ => forward(&octets),
            }
        }
        true
    }
}

/// An association and its two ends.
struct Run {
    random: SplitMix64,
    near: Pump<Xtp, CountingWire>,
    far: Pump<Xtp, UdpWire>,
    far_address: SocketAddr,
    near_address: SocketAddr,
    /// To the far end, and back.
    relay: [Direction; 2],
    sender: Option<(AssociationId, Producer)>,
    pages: LentPages,
    receiver: Option<AssociationId>,
    reader: MessageReader,
    received: u64,
    now: Instant,
    by_reference: Rc<Cell<u64>>,
}

impl Run {
    fn new(seed: u64) -> Run {
        let relay = [Direction::new(), Direction::new()];
        let lends = seed % 2 == 1;
        let usual = Config::default();
        let packet_len = match lends {
            true => engine_xtp::pdu::HEADER_LEN + LONG_PAYLOAD,
            false => usual.packet_len,
        };
        let config = |seed| Config {
            seed,
            checksum: seed & 4 == 0,
            packet_len,
            ..usual.clone()
        };
        let mut udp = UdpWire::bind(on_loopback()).expect("a free port");
        udp.connect(relay[0].address()).expect("a route");
        assert!(udp.enable_references().expect("an option"));
        let near_address = udp.local_addr().expect("it is bound");
        let far = UdpWire::bind(on_loopback()).expect("a free port");
        if seed % 4 >= 2 {
            let socket = far.descriptor().expect("a socket");
            wire_udp::sys::set_buffers(socket, SMALL_BUFFER_LEN);
        }
        let far_address = far.local_addr().expect("it is bound");
        let by_reference = Rc::default();
        let wire = CountingWire {
            udp,
            by_reference: Rc::clone(&by_reference),
        };
        Run {
            random: SplitMix64::new(seed),
            near: Pump::new(Xtp::new(config(2 * seed)), wire),
            far: Pump::new(Xtp::new(config(2 * seed + 1)), far),
            far_address,
            near_address,
            relay,
            sender: None,
            pages: LentPages {
                is_on: lends,
                ..LentPages::default()
            },
            receiver: None,
            reader: MessageReader::new(Framing::Stream),
            received: 0,
            now: Instant::ZERO,
            by_reference,
        }
    }

    fn finish(&mut self, tally: &mut Tally) {
        self.far.engine().listen(true);
        let to = Address::Socket(self.relay[0].address());
        let opened = self.near.engine().connect(self.now, &[to]);
        let id = opened.expect("room for one");
        let store_len = match self.pages.is_on {
            true => LONG_STORE_LEN,
            false => STORE_LEN,
        };
        let (producer, consumer) = ring(self.near.engine().layout(Some(id)), store_len);
        self.near.attach(id, consumer);
        self.sender = Some((id, producer));
        for _ in 0..ROUNDS_MAX {
            if self.received == SENT {
                tally.by_reference += self.by_reference.get();
                tally.lent += self.pages.lent;
                tally.lent_by_reference += match self.pages.is_on {
                    true => self.by_reference.get(),
                    false => 0,
                };
                tally.retransmitted += self.near.engine().counters().retransmissions;
                return;
            }
            let mut has_moved = self.serve_near() | self.serve_far();
            has_moved |= self.relay_all(tally);
            if !has_moved {
                self.advance();
            }
        }
        panic!("{ROUNDS_MAX} rounds, and {} bytes came", self.received);
    }

    fn relay_all(&mut self, tally: &mut Tally) -> bool {
        let [out, back] = &mut self.relay;
        let forward = out.relay(&back.from, self.far_address, &mut self.random, tally);
        let backward = back.relay(&out.from, self.near_address, &mut self.random, tally);
        forward | backward
    }

    fn serve_near(&mut self) -> bool {
        let before = self.near.wire_calls();
        self.near.receive(self.now).expect("the loopback receives");
        let Some((_, producer)) = &mut self.sender else {
            return false;
        };
        let mut has_moved = false;
        loop {
            let from = producer.position();
            let len = match self.pages.is_on {
                true => 4096 * (1 + self.random.below(6)),
                false => 1 + self.random.below(20_000),
            };
            let len = len.min(SENT - from);
            let bytes: Vec<u8> = (from..from + len).map(byte).collect();
            let is_lent = self.pages.is_on && self.random.below(8) != 0;
            let is_taken = match is_lent {
                _ if bytes.is_empty() => false,
                true => self.pages.lend(producer, &bytes),
                false => producer.append_bytes(&bytes),
            };
            if !is_taken {
                break;
            }
            has_moved = true;
        }
        let push = self.random.below(4) == 0 || !has_moved;
        let flushed = self.near.submit_all_and_flush(self.now, push);
        flushed.expect("the loopback sends");
        has_moved || self.near.wire_calls() != before
    }

    fn serve_far(&mut self) -> bool {
        let before = (self.far.wire_calls(), self.received);
        for _ in 0..RELAYED_MAX {
            self.far.receive(self.now).expect("the loopback receives");
        }
        if let Some((id, _)) = self.far.accept() {
            let (_, consumer) = ring(self.far.engine().layout(Some(id)), STORE_LEN);
            self.far.attach(id, consumer);
            self.receiver = Some(id);
        }
        if let Some(id) = self.receiver {
            self.read(id);
        }
        self.far.flush(self.now).expect("the loopback sends");
        (self.far.wire_calls(), self.received) != before
    }

    fn read(&mut self, id: AssociationId) {
        let mut buffer = [0; 4096];
        while let Some(chunk) = self.far.pop_chunk(id) {
            self.reader.put(chunk);
            while let ReadOutcome::Message(len) = self.reader.next(&mut buffer) {
                let expected = (self.received..).map(byte);
                let is_right = buffer[..len].iter().copied().eq(expected.take(len));
                assert!(is_right, "bytes from {} on are wrong", self.received);
                self.received += len as u64;
            }
            let chunk = self.reader.take_consumed().expect("it was put");
            self.far.consume(self.now, id, chunk);
        }
    }

    /// To the next timeout of an engine.
    fn advance(&mut self) {
        let deadlines = [self.near.poll_timeout(), self.far.poll_timeout()];
        let next = deadlines.into_iter().flatten().min();
        self.now = self
            .now
            .max(next.expect("an association that is not over has a timer"));
        assert!(self.now < TIME_MAX, "it does not end");
        self.near.handle_timeout(self.now);
        self.far.handle_timeout(self.now);
    }
}

#[test]
fn stream_by_reference_outlives_loss_duplicates_and_pages_that_changed() {
    let seeds = seeds(SEEDS);
    let (mut tally, count) = (Tally::default(), seeds.end - seeds.start);
    for seed in seeds {
        eprintln!("seed {seed}");
        Run::new(seed).finish(&mut tally);
    }
    println!("{count} seeds: {tally:?}");
    if count >= SEEDS {
        assert!(tally.by_reference >= 10 * SEEDS, "{tally:?}");
        let others = [tally.dropped, tally.repeated, tally.changed, tally.lent];
        assert!(others.iter().all(|&count| count >= 20), "{tally:?}");
        assert!(tally.retransmitted >= 20, "{tally:?}");
        assert!(tally.lent_by_reference >= 5 * SEEDS, "{tally:?}");
    }
}
