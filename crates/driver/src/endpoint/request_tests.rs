//! A wire that fails ends the calls of transactions with its error, and what is dropped is left.

use super::Endpoint;
use engine::{Address, Path};
use engine_xtp::pdu::Service;
use engine_xtp::{Config, Xtp};
use std::io::{self, ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use wire::Wire;
use wire_udp::UdpWire;

/// Longest wait of a test.
const LIMIT: Duration = Duration::from_secs(10);

/// A wire that takes no packet once it is broken.
struct BreakableWire {
    wire: UdpWire,
    is_broken: Arc<AtomicBool>,
}

impl Wire for BreakableWire {
    fn send(&mut self, path: Path, slices: &[IoSlice<'_>], segment_size: usize) -> io::Result<()> {
        match self.is_broken.load(Ordering::Relaxed) {
            true => Err(io::Error::other("the wire is broken")),
            false => self.wire.send(path, slices, segment_size),
        }
    }

    wire::lacks! { references }
    wire::forward! { self => self.wire;
        capabilities receive poll_path_error set_fragmentation path_mtu unanswerable receive_drops set_packet_len
        descriptor has_buffered may_wait join leave receiver
    }
}

type End = Endpoint<Xtp, BreakableWire>;

/// An endpoint, its address, and what breaks its wire.
fn endpoint() -> (End, Address, Arc<AtomicBool>) {
    let wire = UdpWire::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
    let own = wire.local_addr().expect("bound");
    let is_broken = Arc::<AtomicBool>::default();
    let wire = BreakableWire {
        wire,
        is_broken: Arc::clone(&is_broken),
    };
    let end = Endpoint::new(Xtp::new(Config::default()), wire, 128 << 10).expect("a thread");
    end.listen(true);
    (end, Address::Socket(own), is_broken)
}

fn transact(end: &End, to: Address, limit: Duration) -> io::Result<usize> {
    let open = |engine: &mut Xtp, now| engine.open(now, to, Service::Transaction);
    end.exchange(to, open, (&[7; 64], &mut [0; 64]), limit)
}

/// Runs `run` in a thread of its own, so that one that never ends is found.
fn in_time<R: Send + 'static>(run: impl FnOnce() -> R + Send + 'static) -> R {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(run()));
    receiver.recv_timeout(LIMIT).expect("it ends")
}

#[test]
fn a_wire_that_fails_ends_a_transaction() {
    let [(near, ..), (_far, to, is_silent)] = [endpoint(), endpoint()];
    is_silent.store(true, Ordering::Relaxed);
    let (broken, _, is_broken) = endpoint();
    is_broken.store(true, Ordering::Relaxed);
    let error = in_time(move || transact(&broken, to, LIMIT)).expect_err("no packet left");
    assert_eq!(error.to_string(), "the wire is broken");
    let error = in_time(move || transact(&near, to, Duration::from_millis(20)));
    let kind = error.expect_err("nobody answers").kind();
    assert_eq!(kind, ErrorKind::TimedOut);
}

#[test]
fn a_wire_that_fails_ends_a_reply() {
    let [(near, ..), (far, to, is_broken)] = [endpoint(), endpoint()];
    std::thread::spawn(move || transact(&near, to, LIMIT));
    let answered = in_time(move || {
        let (request, len) = far.accept_request(&mut [0; 64], LIMIT)?;
        is_broken.store(true, Ordering::Relaxed);
        let replied = request.reply(&[7; 64], LIMIT);
        Ok::<_, io::Error>((len, replied.expect_err("no packet left").to_string()))
    });
    let expected = (64, "the wire is broken".to_owned());
    assert_eq!(answered.expect("a request"), expected);
}

#[test]
fn a_request_without_a_reply_ends_its_circuit() {
    let [(near, ..), (far, to, _)] = [endpoint(), endpoint()];
    let asking = std::thread::spawn(move || transact(&near, to, LIMIT));
    let (request, len) = far.accept_request(&mut [0; 64], LIMIT).expect("one");
    assert_eq!(len, 64);
    drop(request);
    let len = asking.join().expect("no panic").expect("an end");
    assert_eq!(len, 0, "a reply of nothing");
    let end = Instant::now() + LIMIT;
    while far.has_dropped_circuits() {
        assert!(Instant::now() < end, "the circuit stays");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_request_may_be_answered_in_several_messages() {
    let [(near, ..), (far, to, _)] = [endpoint(), endpoint()];
    let asking = std::thread::spawn(move || {
        let open = |engine: &mut Xtp, now| engine.open(now, to, Service::Stream);
        let mut reply = [0; 64];
        let len = near.exchange(to, open, (&[7; 64], &mut reply), LIMIT)?;
        Ok::<_, io::Error>(reply[..len].to_vec())
    });
    let (request, len) = far.accept_request(&mut [0; 64], LIMIT).expect("one");
    assert_eq!((len, request.peer() != to), (64, true));
    let mut circuit = request.into_circuit().expect("it is open");
    for part in [1, 2] {
        circuit.send(&[part; 10], LIMIT).expect("room");
        circuit.flush().expect("a packet");
    }
    circuit.finish().expect("a packet");
    let reply = asking.join().expect("no panic").expect("a reply");
    assert_eq!(reply, [[1; 10], [2; 10]].concat());
    circuit.drain(LIMIT).expect("it has all");
}
