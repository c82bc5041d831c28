//! A wire around another that shows its packets to an observer: a trace, a capture file.

use crate::discard::{DiscardMeter, Discarding};
use crate::{Arrival, Receiver, Taken, Wire};
use engine::Path;
use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Sees the packets of a wire. The packets of a call lie one behind the other, all but the last of
/// `segment_size` octets.
pub trait PacketObserver: Clone + Send + Sync + 'static {
    /// What is known of packets before the medium took them.
    type Offer;

    /// The packets are about to be offered to the medium.
    fn offer(&self, path: Path, octets: &[u8], segment_size: usize) -> Self::Offer;

    /// The medium took the packets of an offer, or refused them: they will be offered again.
    fn settle(&self, offer: Self::Offer, sent: SentPackets<'_>);

    /// Packets arrived.
    fn arrive(&self, arrival: &Arrival, octets: &[u8]);
}

/// Packets that were offered.
#[derive(Clone, Copy, Debug)]
pub struct SentPackets<'a> {
    /// Where they went.
    pub path: Path,
    /// The packets.
    pub octets: &'a [u8],
    /// Octets of each but the last.
    pub segment_size: usize,
    /// Whether the medium took them.
    pub taken: bool,
}

/// A wire that shows its packets to an observer. Without one it only forwards calls.
pub struct Observed<W, O> {
    wire: W,
    observer: ObserverSwitch<O>,
    /// What takes what is sent, in place of the wire.
    discarding: Option<Discarding>,
}

/// The observer of a wire and its receivers, which comes and goes while they are used.
pub struct ObserverSwitch<O>(Arc<SwitchedObserver<O>>);

struct SwitchedObserver<O> {
    /// Whether there is one: all that a packet costs without.
    is_on: AtomicBool,
    observer: Mutex<Option<O>>,
}

impl<O> Clone for ObserverSwitch<O> {
    fn clone(&self) -> ObserverSwitch<O> {
        ObserverSwitch(Arc::clone(&self.0))
    }
}

impl<O> ObserverSwitch<O> {
    fn new(observer: Option<O>) -> ObserverSwitch<O> {
        ObserverSwitch(Arc::new(SwitchedObserver {
            is_on: AtomicBool::new(observer.is_some()),
            observer: Mutex::new(observer),
        }))
    }

    /// Shows the packets from now on to this one, or to none.
    pub fn set(&self, observer: Option<O>) {
        let mut held = self.lock();
        self.0.is_on.store(observer.is_some(), Ordering::Relaxed);
        *held = observer;
    }

    fn lock(&self) -> MutexGuard<'_, Option<O>> {
        // It is replaced whole, so it is good after a panic too.
        self.0
            .observer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl<O: Clone> ObserverSwitch<O> {
    fn current(&self) -> Option<O> {
        match self.0.is_on.load(Ordering::Relaxed) {
            true => self.lock().clone(),
            false => None,
        }
    }
}

impl<W, O> Observed<W, O> {
    /// Shows the packets of `wire` to `observer`.
    pub fn by(wire: W, observer: Option<O>) -> Observed<W, O> {
        Observed {
            wire,
            observer: ObserverSwitch::new(observer),
            discarding: None,
        }
    }

    /// The same, but with a meter packets are copied, counted there and discarded, and none is sent.
    #[must_use]
    pub fn discarding_into(self, meter: Option<DiscardMeter>) -> Observed<W, O> {
        Observed {
            discarding: meter.map(Discarding::new),
            ..self
        }
    }

    /// What sets another observer, or takes it away.
    pub fn switch(&self) -> &ObserverSwitch<O> {
        &self.observer
    }

    /// The wire underneath.
    pub fn wire(&self) -> &W {
        &self.wire
    }

    /// The same, to change it. Its descriptor must stay the same.
    pub fn wire_mut(&mut self) -> &mut W {
        &mut self.wire
    }
}

impl<W: Wire, O: PacketObserver> Observed<W, O> {
    /// Sends packets by `send`, or discards them, which has the outcome `discarded`, and shows them to the observer if there is
    /// one.
    #[inline]
    fn observe_sent<R>(
        &mut self,
        path: Path,
        slices: &[IoSlice<'_>],
        segment_size: usize,
        discarded: R,
        send: impl FnOnce(&mut W) -> io::Result<R>,
    ) -> io::Result<R> {
        let wire = &mut self.wire;
        let discarding = self.discarding.as_mut();
        let send = || match discarding {
            Some(discarding) => {
                discarding.take(slices, segment_size);
                Ok(discarded)
            }
            None => send(wire),
        };
        let Some(observer) = self.observer.current() else {
            return send();
        };
        let parts = slices.iter().flat_map(|part| part.iter().copied());
        let octets: Vec<u8> = parts.collect();
        let offer = observer.offer(path, &octets, segment_size);
        let sent = send();
        let packets = SentPackets {
            path,
            octets: &octets,
            segment_size,
            taken: sent.is_ok(),
        };
        observer.settle(offer, packets);
        sent
    }
}

/// The octets of an arrival in the buffer it came into.
fn arrived<'a>(arrival: &Arrival, buffer: &'a [u8]) -> &'a [u8] {
    &buffer[..arrival.len.min(buffer.len())]
}

impl<W: Wire, O: PacketObserver> Wire for Observed<W, O> {
    fn send(&mut self, path: Path, slices: &[IoSlice<'_>], segment_size: usize) -> io::Result<()> {
        self.observe_sent(path, slices, segment_size, (), |wire| {
            wire.send(path, slices, segment_size)
        })
    }

    fn send_by_reference(
        &mut self,
        path: Path,
        slices: &[IoSlice<'_>],
        segment_size: usize,
    ) -> io::Result<Taken> {
        self.observe_sent(path, slices, segment_size, Taken::Copied, |wire| {
            wire.send_by_reference(path, slices, segment_size)
        })
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Arrival> {
        let arrival = self.wire.receive(buffer)?;
        if let Some(observer) = self.observer.current() {
            observer.arrive(&arrival, arrived(&arrival, buffer));
        }
        Ok(arrival)
    }

    fn receiver(&self) -> Option<Box<dyn Receiver>> {
        Some(Box::new(ObservedReceiver {
            receiver: self.wire.receiver()?,
            observer: self.observer.clone(),
        }))
    }

    crate::forward! { self => self.wire;
        capabilities poll_path_error set_fragmentation path_mtu unanswerable receive_drops set_packet_len
        descriptor has_buffered may_wait join leave
    }
}

struct ObservedReceiver<O> {
    receiver: Box<dyn Receiver>,
    observer: ObserverSwitch<O>,
}

impl<O: PacketObserver> Receiver for ObservedReceiver<O> {
    fn max_wait(&self) -> Duration {
        self.receiver.max_wait()
    }

    fn receive(&self, buffer: &mut [u8]) -> io::Result<Arrival> {
        let arrival = self.receiver.receive(buffer)?;
        if let Some(observer) = self.observer.current() {
            observer.arrive(&arrival, arrived(&arrival, buffer));
        }
        Ok(arrival)
    }

    fn interrupt(&self) -> io::Result<()> {
        self.receiver.interrupt()
    }

    fn hint_busy_poll(&self) {
        self.receiver.hint_busy_poll();
    }

    fn is_interruptible(&self) -> bool {
        self.receiver.is_interruptible()
    }
}
