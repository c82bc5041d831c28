//! A wire that notes its calls, and the check that a wrapper of it forwards all of them.

use engine::{Address, Ecn, LocalAddress, PacketLen, Path, PathError};
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wire::{Arrival, Capabilities, PathReport, Receiver, Wire};

/// A wrapper of the mock forwards every call of a wire.
pub fn assert_wire_forwards(wire: &mut impl Wire, calls: &Calls) {
    assert_eq!(wire.capabilities(), CAPABILITIES);
    wire.send(PATH, &[IoSlice::new(b"abc")], 3)
        .expect("it sends");
    let taken = wire.send_by_reference(PATH, &[IoSlice::new(b"abc")], 3);
    assert_eq!(taken.expect("it sends"), wire::Taken::ByReference);
    assert_eq!(wire.receive(&mut [0; 14]).expect("it receives"), ARRIVAL);
    wire.set_packet_len(|_| None);
    assert!(wire.descriptor().is_none());
    assert!(wire.has_buffered());
    wire.join(PEER).expect("it joins");
    wire.leave(PEER).expect("it leaves");
    assert_eq!(wire.poll_path_error(), Some(report()));
    assert_eq!(wire.path_mtu(PATH), 10);
    assert_eq!(wire.unanswerable(), 29);
    assert_eq!(wire.receive_drops(), Some(31));
    let expected = [
        "send",
        "send_by_reference",
        "receive",
        "set_packet_len",
        "descriptor",
        "has_buffered",
        "join",
        "leave",
        "poll_path_error",
        "path_mtu",
    ];
    assert_eq!(calls.take(), expected);
}

/// The receiver of a wrapper of the mock forwards every call.
pub fn assert_receiver_forwards(wire: &impl Wire, calls: &Calls) {
    let receiver = wire.receiver().expect("the mock has one");
    assert_eq!(receiver.max_wait(), Duration::from_millis(5));
    assert!(receiver.is_interruptible());
    receiver.hint_busy_poll();
    assert_eq!(
        receiver.receive(&mut [0; 14]).expect("it receives"),
        ARRIVAL
    );
    receiver.interrupt().expect("it interrupts");
    assert_eq!(calls.take(), ["hint_busy_poll", "receive", "interrupt"]);
}

const PEER: Address = Address::Station(7);

const PATH: Path = Path {
    local: LocalAddress(3),
    remote: PEER,
};

const ARRIVAL: Arrival = Arrival {
    path: PATH,
    ecn: Ecn::Ect0,
    len: 3,
    segment_size: 3,
};

const CAPABILITIES: Capabilities = Capabilities {
    packet_max: 11,
    segments_max: 12,
    batch_bytes_max: 13,
    receive_len: 14,
};

/// Names of the calls made.
#[derive(Clone, Default)]
pub struct Calls(Arc<Mutex<Vec<&'static str>>>);

impl Calls {
    fn add(&self, call: &'static str) {
        self.0.lock().expect("no panic").push(call);
    }

    pub fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.lock().expect("no panic"))
    }
}

fn report() -> PathReport {
    PathReport {
        path: PATH,
        error: PathError::TooBig(1280),
        quoted: vec![4, 5],
    }
}

/// A wire whose answers all differ from the usual ones.
pub struct MockWire(pub Calls);

impl Wire for MockWire {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn send(&mut self, path: Path, _: &[IoSlice<'_>], _: usize) -> io::Result<()> {
        assert_eq!(path, PATH);
        self.0.add("send");
        Ok(())
    }

    fn send_by_reference(
        &mut self,
        path: Path,
        _: &[IoSlice<'_>],
        _: usize,
    ) -> io::Result<wire::Taken> {
        assert_eq!(path, PATH);
        self.0.add("send_by_reference");
        Ok(wire::Taken::ByReference)
    }

    fn receive(&mut self, _: &mut [u8]) -> io::Result<Arrival> {
        self.0.add("receive");
        Ok(ARRIVAL)
    }

    fn poll_path_error(&mut self) -> Option<PathReport> {
        self.0.add("poll_path_error");
        Some(report())
    }

    fn set_fragmentation(&mut self, _: engine::Fragmentation) {
        self.0.add("set_fragmentation");
    }

    fn path_mtu(&mut self, path: Path) -> usize {
        assert_eq!(path, PATH);
        self.0.add("path_mtu");
        10
    }

    fn unanswerable(&self) -> u64 {
        29
    }

    fn receive_drops(&self) -> Option<u64> {
        Some(31)
    }

    fn set_packet_len(&mut self, _: PacketLen) {
        self.0.add("set_packet_len");
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.0.add("descriptor");
        None
    }

    fn has_buffered(&self) -> bool {
        self.0.add("has_buffered");
        true
    }

    fn may_wait(&mut self) -> bool {
        self.0.add("may_wait");
        false
    }

    fn join(&mut self, _: Address) -> io::Result<()> {
        self.0.add("join");
        Ok(())
    }

    fn leave(&mut self, _: Address) -> io::Result<()> {
        self.0.add("leave");
        Ok(())
    }

    fn receiver(&self) -> Option<Box<dyn Receiver>> {
        Some(Box::new(MockReceiver(self.0.clone())))
    }
}

struct MockReceiver(Calls);

impl Receiver for MockReceiver {
    fn max_wait(&self) -> Duration {
        Duration::from_millis(5)
    }

    fn receive(&self, _: &mut [u8]) -> io::Result<Arrival> {
        self.0.add("receive");
        Ok(ARRIVAL)
    }

    fn interrupt(&self) -> io::Result<()> {
        self.0.add("interrupt");
        Ok(())
    }

    fn hint_busy_poll(&self) {
        self.0.add("hint_busy_poll");
    }

    fn is_interruptible(&self) -> bool {
        true
    }
}
