//! A wire that fails for one peer of a hundred: the other 99 notice nothing.

use driver::Pump;
use driver::sys::{Producer, ring};
use engine::{Address, AssociationId, Associations, AssociationsExt, Instant, Path, Protocol};
use engine_bare::{Bare, BareConfig};
use rustix::io::Errno;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex};
use wire::{Capabilities, MemoryMedium, MemoryWire};

const PEERS: u32 = 100;

/// The peer that cannot be reached.
const BAD: u32 = 17;

/// Bytes for each peer.
const LEN: usize = 20_000;

/// Packets on their way, by the station they are for.
type Mail = Arc<Mutex<BTreeMap<u32, VecDeque<(u32, Vec<u8>, usize)>>>>;

/// A wire in memory whose sends to one station fail.
struct FailingMedium {
    own: u32,
    mail: Mail,
    fails_for: Option<(u32, Errno)>,
}

impl MemoryMedium for FailingMedium {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            packet_max: 1472,
            segments_max: 8,
            batch_bytes_max: 65_507,
            receive_len: 65_536,
        }
    }

    fn send(&mut self, path: Path, slices: &[IoSlice<'_>], size: usize) -> io::Result<()> {
        let Address::Station(to) = path.remote else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        if let Some((bad, errno)) = self.fails_for
            && bad == to
        {
            return Err(errno.into());
        }
        let octets = slices.iter().flat_map(|slice| slice.iter().copied());
        let mut mail = self.mail.lock().expect("no panic");
        let queue = mail.entry(to).or_default();
        queue.push_back((self.own, octets.collect(), size));
        Ok(())
    }

    fn take(&mut self) -> Option<(Path, Vec<u8>, usize)> {
        let mut mail = self.mail.lock().expect("no panic");
        let arrived = mail.get_mut(&self.own).and_then(VecDeque::pop_front);
        let (from, octets, segment_size) = arrived?;
        Some((Path::to(Address::Station(from)), octets, segment_size))
    }

    fn set_fragmentation(&mut self, _: engine::Fragmentation) {}
}

/// What a peer saw: the sizes of the arrivals in their order, and the bytes.
type Seen = (Vec<(u64, u64)>, Vec<u8>);

struct Peer {
    pump: Pump<Bare, MemoryWire<FailingMedium>>,
    circuit: Option<AssociationId>,
    seen: Seen,
}

fn pump(
    own: u32,
    mail: &Mail,
    fails_for: Option<(u32, Errno)>,
) -> Pump<Bare, MemoryWire<FailingMedium>> {
    let config = BareConfig {
        seed: u64::from(own),
        ..BareConfig::default()
    };
    let wire = MemoryWire(FailingMedium {
        own,
        mail: Arc::clone(mail),
        fails_for,
    });
    Pump::new(Bare::new(config), wire)
}

/// Sends to all peers; returns what each saw, and the sender.
fn run(fails_for: Option<(u32, Errno)>) -> (Vec<Seen>, Pump<Bare, MemoryWire<FailingMedium>>) {
    let mail = Mail::default();
    let mut sender = pump(0, &mail, fails_for);
    let mut peers: Vec<Peer> = (1..=PEERS)
        .map(|own| {
            let mut pump = pump(own, &mail, None);
            pump.engine().listen(true);
            Peer {
                pump,
                circuit: None,
                seen: Seen::default(),
            }
        })
        .collect();
    let start = Instant::from_nanos(0);
    let _stores: Vec<Producer> = (1..=PEERS)
        .map(|to| {
            let engine = sender.engine();
            let id = engine.open(start, Address::Station(to)).expect("room");
            let (mut producer, consumer) = ring(engine.layout(None), 64 << 10);
            sender.attach(id, consumer);
            assert!(producer.append_bytes(&vec![to as u8; LEN]));
            producer
        })
        .collect();
    for millisecond in 0..200 {
        let now = Instant::from_nanos(millisecond * 1_000_000);
        sender.handle_timeout(now);
        while sender.receive(now).expect("the wire lives") {}
        let flushed = sender.submit_all_and_flush(now, true);
        flushed.expect("an error of a path is none of the endpoint");
        for peer in &mut peers {
            peer.take(now);
        }
    }
    (peers.into_iter().map(|peer| peer.seen).collect(), sender)
}

impl Peer {
    fn take(&mut self, now: Instant) {
        while self.pump.receive(now).expect("the wire lives") {
            let counters = self.pump.engine().counters();
            self.seen.0.push((now.as_nanos(), counters.packets_parsed));
        }
        if let Some((id, _)) = self.pump.accept() {
            self.circuit = Some(id);
        }
        if let Some(id) = self.circuit {
            while let Some(chunk) = self.pump.pop_chunk(id) {
                for span in &chunk.spans {
                    let range = span.range.start as usize..span.range.end as usize;
                    self.seen.1.extend_from_slice(&chunk.octets[range]);
                }
                self.pump.consume(now, id, chunk);
            }
        }
        self.pump.handle_timeout(now);
        self.pump.flush(now).expect("the wire lives");
    }
}

#[test]
fn failing_peer_of_a_hundred_disturbs_no_other() {
    let (undisturbed, sender) = run(None);
    assert!(sender.path_errors().by_errno.is_empty());
    for errno in [
        Errno::NETUNREACH,
        Errno::HOSTUNREACH,
        Errno::PERM,
        Errno::MSGSIZE,
        Errno::NOBUFS,
        Errno::INVAL,
    ] {
        let (seen, sender) = run(Some((BAD, errno)));
        for (at, (seen, before)) in seen.iter().zip(&undisturbed).enumerate() {
            let station = at as u32 + 1;
            if station == BAD {
                assert!(seen.0.is_empty(), "nothing reaches it");
                continue;
            }
            assert_eq!(before.1, vec![station as u8; LEN], "all came");
            assert!(seen == before, "station {station} noticed {errno}");
        }
        let errors = sender.path_errors();
        let counted: Vec<i32> = errors.by_errno.keys().copied().collect();
        assert_eq!(counted, [errno.raw_os_error()]);
        assert!(errors.packets_lost >= 1);
    }
}

#[test]
fn error_of_the_socket_ends_the_flush() {
    let mail = Mail::default();
    let mut sender = pump(0, &mail, Some((1, Errno::BADF)));
    let start = Instant::from_nanos(0);
    let opened = sender.engine().open(start, Address::Station(1));
    opened.expect("room for one");
    let error = sender.flush(start).expect_err("there is no socket");
    assert_eq!(error.raw_os_error(), Some(Errno::BADF.raw_os_error()));
}
