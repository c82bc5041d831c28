//! Wires joined to one: room, ends of members, refusals.

use engine::{Address, Ecn, LocalAddress, PacketLen, Path, PathError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;
use wire::{Arrival, Capabilities, Many, PathReport, Wire};

const PEER: Address = Address::Station(9);

/// One end of a pair of sockets as a wire; `broken` is the error of all its calls.
struct PairWire {
    socket: UnixDatagram,
    packet_max: usize,
    broken: Option<Errno>,
    reports: Vec<PathReport>,
}

impl PairWire {
    fn check(&self) -> io::Result<()> {
        self.broken.map_or(Ok(()), |errno| Err(errno.into()))
    }
}

impl Wire for PairWire {
    fn capabilities(&self) -> Capabilities {
        Capabilities::one_packet(self.packet_max)
    }

    fn send(&mut self, path: Path, slices: &[IoSlice<'_>], _: usize) -> io::Result<()> {
        assert_eq!(path, Path::to(PEER), "a member has one local address");
        self.check()?;
        self.socket.send(&slices[0]).map(|_| ())
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Arrival> {
        self.check()?;
        let len = self.socket.recv(buffer)?;
        Ok(Arrival {
            path: Path::to(PEER),
            ecn: Ecn::Ce,
            len,
            segment_size: len,
        })
    }

    fn poll_path_error(&mut self) -> Option<PathReport> {
        self.reports.pop()
    }

    fn set_fragmentation(&mut self, _: engine::Fragmentation) {}

    fn path_mtu(&mut self, _: engine::Path) -> usize {
        self.capabilities().packet_max
    }

    fn unanswerable(&self) -> u64 {
        3
    }

    fn set_packet_len(&mut self, _: PacketLen) {}

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    wire::lacks! { references groups buffer drops receiver }
}

/// A wire for packets of up to `packet_max` octets, and its other end.
fn pair(packet_max: usize) -> (PairWire, UnixDatagram) {
    let (socket, other) = UnixDatagram::pair().expect("two sockets");
    socket.set_nonblocking(true).expect("a socket");
    other.set_nonblocking(true).expect("a socket");
    let wire = PairWire {
        socket,
        packet_max,
        broken: None,
        reports: Vec::new(),
    };
    (wire, other)
}

fn by(local: u16) -> Path {
    Path {
        local: LocalAddress(local),
        remote: PEER,
    }
}

fn is_readable(many: &Many<PairWire>) -> bool {
    let descriptor = many.descriptor().expect("it has one");
    let mut ready = [PollFd::new(&descriptor, PollFlags::IN)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut ready, Some(&now)).expect("a poll") > 0
}

#[test]
fn room_after_none_makes_the_descriptor_readable_until_the_next_receive() {
    let ((one, _one_end), (two, two_end)) = (pair(1000), pair(1000));
    let mut many = Many::new(vec![one, two]).expect("two wires");
    let octets = [7; 1000];
    let error = loop {
        if let Err(error) = many.send(by(1), &[IoSlice::new(&octets)], 1000) {
            break error;
        }
    };
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    assert!(!is_readable(&many), "there is no room");
    many.send(by(0), &[IoSlice::new(&octets)], 1000)
        .expect("the other has room");
    while two_end.recv(&mut [0; 1000]).is_ok() {}
    assert!(is_readable(&many), "there is room again");
    let mut buffer = [0; 1000];
    let error = many.receive(&mut buffer).expect_err("nothing comes");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    assert!(!is_readable(&many), "nobody waits for room");
    two_end.send(b"x").expect("room");
    assert!(is_readable(&many));
    let arrival = many.receive(&mut buffer).expect("it came");
    assert_eq!((arrival.path, arrival.ecn), (by(1), Ecn::Ce));
}

#[test]
fn member_that_ends_takes_its_path_and_no_other() {
    let ((one, one_end), (two, _two_end)) = (pair(1000), pair(1000));
    let broken = PairWire {
        broken: Some(Errno::NODEV),
        ..two
    };
    let mut many = Many::new(vec![one, broken]).expect("two wires");
    let slices = [IoSlice::new(b"x")];
    for _ in 0..2 {
        let error = many.send(by(1), &slices, 1).expect_err("it is gone");
        let gone = PathError::Local(Errno::ADDRNOTAVAIL.raw_os_error());
        assert_eq!(wire::path_error(&error), Some(gone), "{error}");
        many.send(by(0), &slices, 1).expect("the other is not");
    }
    one_end.send(b"y").expect("room");
    let mut buffer = [0; 1000];
    assert_eq!(many.receive(&mut buffer).expect("it came").path, by(0));
}

#[test]
fn last_member_that_ends_ends_the_whole() {
    let broken = [Errno::NODEV, Errno::BADF].map(|errno| PairWire {
        broken: Some(errno),
        ..pair(1000).0
    });
    let mut many = Many::new(broken.into()).expect("two wires");
    let first = many.receive(&mut [0; 1000]).expect_err("the first is gone");
    assert!(wire::path_error(&first).is_some(), "{first}");
    let last = many.receive(&mut [0; 1000]).expect_err("both are gone");
    assert_eq!(last.raw_os_error(), Some(Errno::BADF.raw_os_error()));
    let after = many.receive(&mut [0; 1000]).expect_err("both are gone");
    assert!(wire::path_error(&after).is_none(), "{after}");
    assert_ne!(after.kind(), ErrorKind::WouldBlock);
}

#[test]
fn capabilities_are_what_all_can_and_reports_name_the_path() {
    let (one, mut two) = (pair(1000).0, pair(1200).0);
    two.reports.push(PathReport {
        path: Path::to(PEER),
        error: PathError::TooBig(900),
        quoted: vec![1],
    });
    let mut many = Many::new(vec![one, two]).expect("two wires");
    let can = many.capabilities();
    assert_eq!((can.packet_max, can.receive_len), (1000, 1200));
    assert_eq!(many.poll_path_error().expect("one").path, by(1));
    assert_eq!(many.poll_path_error(), None);
    assert_eq!(many.unanswerable(), 6);
}

#[test]
fn no_wire_and_too_many_are_refused() {
    let many = |count: usize| Many::new((0..count).map(|_| pair(100).0).collect());
    assert!(many(64).is_ok());
    for count in [0, 65] {
        let error = many(count).map(|_| ()).expect_err("too few or too many");
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("1 to 64"), "{error}");
    }
}

#[test]
fn wires_join_and_leave_while_others_go_on() {
    let ((one, one_end), (two, two_end)) = (pair(1000), pair(1000));
    let mut many = Many::new(vec![one]).expect("a wire");
    let slices = [IoSlice::new(b"x")];
    assert!(many.send(by(1), &slices, 1).is_err(), "nobody has it yet");
    many.put(LocalAddress(1), two).expect("it joins");
    many.send(by(1), &slices, 1).expect("it is there");
    two_end.send(b"y").expect("room");
    assert!(is_readable(&many), "it is watched");
    let mut buffer = [0; 1000];
    assert_eq!(many.receive(&mut buffer).expect("it came").path, by(1));
    drop(many.remove(LocalAddress(1)).expect("it was there"));
    assert!(two_end.send(b"y").is_err(), "its socket is closed");
    let gone = many.send(by(1), &slices, 1).expect_err("it left");
    assert!(wire::path_error(&gone).is_some(), "{gone}");
    one_end.send(b"z").expect("room");
    assert_eq!(many.receive(&mut buffer).expect("it came").path, by(0));
    assert_eq!(many.unanswerable(), 6, "what it counted stays");
    let (again, _again_end) = pair(1000);
    many.put(LocalAddress(1), again).expect("it comes back");
    many.send(by(1), &slices, 1).expect("it is there again");
}

#[test]
fn wires_that_cannot_join_or_leave_are_refused() {
    let mut many = Many::new(vec![pair(1000).0]).expect("a wire");
    let mut refusal = |at, packet_max| {
        let joined = many.put(LocalAddress(at), pair(packet_max).0);
        joined.expect_err("it cannot").kind()
    };
    assert_eq!(refusal(0, 1000), ErrorKind::AlreadyExists);
    assert_eq!(refusal(2, 1000), ErrorKind::InvalidInput);
    assert_eq!(refusal(1, 900), ErrorKind::InvalidInput);
    for at in [1, 64] {
        let left = many.remove(LocalAddress(at)).map(|_| ());
        assert_eq!(
            left.expect_err("nobody is there").kind(),
            ErrorKind::NotFound
        );
    }
}
