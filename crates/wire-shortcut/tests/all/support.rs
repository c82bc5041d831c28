//! Wires on the loopback, and how tests send and receive by them.

use engine::{Address, Path};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use wire::{Arrival, Wire};
use wire_shortcut::{BootId, MeetingPlace, ShortcutWire};
use wire_udp::UdpWire;

/// The host of the tests: not this one, so that no other process answers.
pub const HERE: BootId = BootId::new([5; 16]);

/// How long a test waits for what must come.
pub const LIMIT: Duration = Duration::from_secs(20);

pub fn wire() -> UdpWire {
    UdpWire::bind(([127, 0, 0, 1], 0).into()).expect("the loopback has a free port")
}

pub fn on(place: MeetingPlace) -> ShortcutWire {
    ShortcutWire::on(wire(), place, HERE).expect("an epoll")
}

pub fn address(wire: &ShortcutWire) -> SocketAddr {
    wire.udp().local_addr().expect("it is bound")
}

pub fn send(wire: &mut ShortcutWire, to: SocketAddr, octets: &[u8], packet_len: usize) {
    let path = Path::to(Address::Socket(to));
    wire.send(path, &[IoSlice::new(octets)], packet_len)
        .expect("the loopback takes it");
}

/// What the wire has now, or None.
pub fn try_receive(wire: &mut ShortcutWire) -> Option<(Vec<u8>, Arrival)> {
    let mut buffer = vec![0; wire.capabilities().receive_len];
    match wire.receive(&mut buffer) {
        Ok(arrival) => {
            buffer.truncate(arrival.len);
            Some((buffer, arrival))
        }
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            None
        }
        Err(error) => panic!("{error}"),
    }
}

pub fn receive_one(wire: &mut ShortcutWire) -> (Vec<u8>, Arrival) {
    let end = Instant::now() + LIMIT;
    loop {
        if let Some(received) = try_receive(wire) {
            return received;
        }
        assert!(Instant::now() < end, "nothing came");
        std::thread::yield_now();
    }
}

/// The octets of arrivals until `enough` of them are there.
pub fn receive_all(wire: &mut ShortcutWire, enough: impl Fn(&[Vec<u8>]) -> bool) -> Vec<Vec<u8>> {
    let mut arrivals = Vec::new();
    while !enough(&arrivals) {
        let (octets, arrival) = receive_one(wire);
        // The packets of a spilled batch arrive together or one by one.
        match arrival.segment_size {
            len if len < octets.len() => arrivals.extend(octets.chunks(len).map(<[u8]>::to_vec)),
            _ => arrivals.push(octets),
        }
    }
    arrivals
}

/// Waits for the descriptor of `wire`, which nothing makes readable before `cause`.
pub fn wait_for(wire: &mut ShortcutWire, cause: impl FnOnce()) {
    let end = Instant::now() + LIMIT;
    while !wire.may_wait() || is_readable(wire, Duration::ZERO) {
        assert!(try_receive(wire).is_none(), "nothing is left");
        assert!(Instant::now() < end, "the descriptor stays readable");
    }
    cause();
    assert!(is_readable(wire, LIMIT), "a wake");
}

fn is_readable(wire: &ShortcutWire, limit: Duration) -> bool {
    let descriptor = wire.descriptor().expect("an epoll");
    let limit = Timespec::try_from(limit).ok();
    let mut ready = [PollFd::new(&descriptor, PollFlags::IN)];
    poll(&mut ready, limit.as_ref()).expect("a poll") > 0
}

/// Two wires on one host.
pub struct Pair {
    pub near: ShortcutWire,
    pub far: ShortcutWire,
}

impl Pair {
    pub fn new(near: ShortcutWire, far: ShortcutWire) -> Pair {
        Pair { near, far }
    }

    /// Two wires with rings that both use.
    pub fn met() -> Pair {
        Pair::new(on(MeetingPlace::Namespace), on(MeetingPlace::Namespace)).meet()
    }

    /// Lets the near end make an offer, and sends until packets of both go through rings.
    pub fn meet(mut self) -> Pair {
        let (near, far) = (address(&self.near), address(&self.far));
        self.near.handle().expect("it is on").offer_to(far);
        let end = Instant::now() + LIMIT;
        while !(uses_ring(&self.near) && uses_ring(&self.far)) {
            send(&mut self.near, far, b"hello", 5);
            send(&mut self.far, near, b"hello", 5);
            while try_receive(&mut self.far).is_some() {}
            while try_receive(&mut self.near).is_some() {}
            assert!(Instant::now() < end, "they do not meet");
        }
        self.settle();
        self
    }

    /// Takes in what is on its way.
    fn settle(&mut self) {
        for end in [&mut self.near, &mut self.far] {
            while !end.may_wait() || is_readable(end, Duration::ZERO) {
                try_receive(end);
            }
        }
    }
}

fn uses_ring(wire: &ShortcutWire) -> bool {
    let rings = wire.handle().expect("it is on").rings();
    rings.iter().any(|one| one.sends > 0 && one.receives > 0)
}
