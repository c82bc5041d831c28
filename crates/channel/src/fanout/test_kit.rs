//! Rings of many receivers for tests and models.

use super::{Fanout, FanoutReceiver, FanoutSender};
use crate::geometry::Geometry;
use crate::wait::Signal;
use std::os::unix::net::UnixStream;
use std::time::Duration;

pub(crate) const LONG: Duration = Duration::from_secs(60);

/// The sender and `count` receivers of a ring of `slots`, whose memory loom knows.
#[cfg(feature = "loom")]
pub(crate) fn modelled<D: Fanout>(
    slots: u32,
    count: usize,
) -> (FanoutSender<D>, Vec<FanoutReceiver<D>>) {
    let geometry = Geometry::new(64, slots).unwrap();
    let [first, second, third] = crate::sys::Segment::shared(geometry);
    let mut sender = FanoutSender::new(first, geometry, None, Signal::Futex);
    let segments = (0..).zip([second, third]).take(count);
    let receivers = segments.map(|(number, segment)| {
        let (near, far) = UnixStream::pair().unwrap();
        sender.add(near);
        FanoutReceiver::new(segment, geometry, far, Signal::Futex, number)
    });
    let receivers = receivers.collect();
    (sender, receivers)
}

/// A sender without receivers.
#[cfg(not(feature = "loom"))]
pub(crate) fn sender<D: Fanout>(slots: u32, signal: Signal) -> FanoutSender<D> {
    FanoutSender::create(Geometry::new(64, slots).unwrap(), signal).unwrap()
}

/// One more receiver.
#[cfg(not(feature = "loom"))]
pub(crate) fn joined<D: Fanout>(sender: &mut FanoutSender<D>, signal: Signal) -> FanoutReceiver<D> {
    let (near, far) = UnixStream::pair().unwrap();
    sender.admit(near).unwrap();
    FanoutReceiver::join(far, signal).unwrap()
}

/// The sender and `receivers` receivers of a ring of `slots`.
#[cfg(not(feature = "loom"))]
pub(crate) fn ring<D: Fanout>(
    slots: u32,
    receivers: usize,
    signal: Signal,
) -> (FanoutSender<D>, Vec<FanoutReceiver<D>>) {
    let mut sender = sender(slots, signal);
    let receivers = (0..receivers).map(|_| joined(&mut sender, signal));
    let receivers = receivers.collect();
    (sender, receivers)
}

/// Octets that say their message's number, of lengths that begin and end anywhere in the ring.
#[cfg(not(feature = "loom"))]
pub(crate) fn message(number: u32) -> Vec<u8> {
    let len = 4 + number as usize * 37 % 300;
    let mut octets = vec![number as u8; len];
    octets[..4].copy_from_slice(&number.to_le_bytes());
    octets
}
