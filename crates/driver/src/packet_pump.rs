//! A pump for engines whose users keep no send stores: routers, and engines of transactions.

use crate::checked_wire::{CheckedWire, PathErrors};
use crate::coalesce::CoalesceBuffer;
use crate::layer_port::{self, LayerPort};
use crate::messages::Messages;
use engine::{
    Batch, Block, Deliveries, Event, Fragmentation, Instant, Layer, Part, Path, Protocol, Received,
    Store,
};
use std::io::{self, IoSlice};
use wire::{Arrival, Wire};

/// An engine and the wire it speaks over. It reads no clock.
pub(crate) struct PacketPump<P, W> {
    pub(crate) engine: P,
    /// Between the engine's packets and the wire's frames, if they differ.
    layer: Option<Box<LayerPort>>,
    wire: CheckedWire<W>,
    batch: Batch,
    /// Small packets on their way into one call of the wire.
    coalesced: CoalesceBuffer,
    deliveries: Deliveries,
    /// Where arrivals go, and where packets are built that are sent in one piece.
    buffer: Vec<u8>,
    built: Vec<u8>,
    /// Messages on their way out, until the engine releases them.
    pub(crate) messages: Messages,
    counts: WireCalls,
}

/// Calls of a wire, and the packets they carried; the frames, where there is a layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WireCalls {
    /// Calls that sent something.
    pub sends: u64,
    /// Packets they carried.
    pub packets_sent: u64,
    /// Calls that received something.
    pub receives: u64,
}

impl<P: Protocol, W: Wire> PacketPump<P, W> {
    pub(crate) fn new(engine: P, mut wire: W) -> Self {
        if let Some(packet_len) = engine.properties().packet_len {
            wire.set_packet_len(packet_len);
        }
        PacketPump::over(engine, wire, None)
    }

    /// A pump whose packets pass through `layer`.
    /// Fails with `InvalidInput` when the engine's packets do not fit the layer, or its frames the wire.
    pub(crate) fn with_layer(engine: P, wire: W, layer: Box<dyn Layer + Send>) -> io::Result<Self> {
        let packet_max = engine.properties().packet_max;
        let port = LayerPort::new(layer, packet_max, &wire.capabilities())?;
        Ok(PacketPump::over(engine, wire, Some(Box::new(port))))
    }

    fn over(engine: P, wire: W, layer: Option<Box<LayerPort>>) -> Self {
        let capabilities = wire.capabilities();
        PacketPump {
            engine,
            layer,
            wire: CheckedWire::new(wire),
            batch: Batch::limited(capabilities.segments_max, capabilities.batch_bytes_max),
            coalesced: CoalesceBuffer::new(&capabilities),
            deliveries: Deliveries::default(),
            buffer: vec![0; capabilities.receive_len],
            built: Vec::new(),
            messages: Messages::default(),
            counts: WireCalls::default(),
        }
    }

    pub(crate) fn wire(&self) -> &W {
        self.wire.wire()
    }

    pub(crate) fn wire_mut(&mut self) -> &mut W {
        self.wire.wire_mut()
    }

    pub(crate) fn path_errors(&self) -> &PathErrors {
        self.wire.errors()
    }

    pub(crate) fn wire_calls(&self) -> WireCalls {
        let through_layer = self.layer.as_ref().map(|port| port.calls());
        let through_layer = through_layer.unwrap_or_default();
        WireCalls {
            sends: self.counts.sends + through_layer.sends,
            packets_sent: self.counts.packets_sent + through_layer.frames,
            ..self.counts
        }
    }

    pub(crate) fn layer_counts(&self) -> Vec<(&'static str, u64)> {
        let layer = self.layer.as_ref();
        layer.map_or_else(Vec::new, |port| port.named_counts())
    }

    /// Whether packets wait for the wire to have room.
    pub(crate) fn is_blocked(&self) -> bool {
        let layer = self.layer.as_ref();
        !self.batch.is_empty()
            || !self.coalesced.is_empty()
            || layer.is_some_and(|port| port.is_blocked())
    }

    /// Takes in one arrival, and calls `each` for every block of a message in it, with the block's
    /// octets; the time, by `clock`, which is asked only when something was there.
    /// Errors are those of the wire itself; those of a path are counted.
    pub(crate) fn receive(
        &mut self,
        clock: impl FnOnce() -> Instant,
        each: impl FnMut(&Block, &[u8]),
    ) -> io::Result<Option<Instant>> {
        let received = self.wire.wire_mut().receive(&mut self.buffer);
        self.handle_received(clock, received, each)
    }

    /// The buffer for an arrival that is received without the pump, by a receiver of its wire.
    pub(crate) fn take_receive_buffer(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    /// As [`receive`](PacketPump::receive), for what the wire's receiver put into the buffer.
    /// Errors are those of [`receive`](PacketPump::receive).
    pub(crate) fn handle_arrival(
        &mut self,
        now: Instant,
        buffer: Vec<u8>,
        received: io::Result<Arrival>,
        each: impl FnMut(&Block, &[u8]),
    ) -> io::Result<Option<Instant>> {
        self.buffer = buffer;
        self.handle_received(|| now, received, each)
    }

    fn handle_received(
        &mut self,
        clock: impl FnOnce() -> Instant,
        received: io::Result<Arrival>,
        mut each: impl FnMut(&Block, &[u8]),
    ) -> io::Result<Option<Instant>> {
        let Some(arrival) = self.wire.check(received)? else {
            return Ok(None);
        };
        let now = clock();
        self.counts.receives += 1;
        let octets = &self.buffer[..arrival.len.min(self.buffer.len())];
        let (engine, deliveries) = (&mut self.engine, &mut self.deliveries);
        let mut handle = |path: Path, packet: &[u8]| {
            let received = Received {
                path,
                ecn: arrival.ecn,
                octets: packet,
            };
            engine.handle_packet(now, received, deliveries);
            for block in &deliveries.blocks {
                each(block, &packet[block.range.clone()]);
            }
            deliveries.clear();
        };
        let Some(port) = &mut self.layer else {
            for packet in octets.chunks(arrival.segment_size.max(1)) {
                handle(arrival.path, packet);
            }
            return Ok(Some(now));
        };
        let packets = port.receive(now, &arrival, octets);
        for (path, packet) in &packets {
            handle(*path, packet);
        }
        port.recycle(packets);
        Ok(Some(now))
    }

    /// When the next timer expires.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        layer_port::earlier(self.engine.poll_timeout(), self.layer.as_deref())
    }

    /// Runs the timers that are due.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if let Some(port) = &mut self.layer {
            port.handle_timeout(now);
        }
        if self.engine.poll_timeout().is_some_and(|at| at <= now) {
            self.engine.handle_timeout(now);
        }
    }

    /// The next event of the engine; None as long as a batch waits, of which a released message may
    /// be a part.
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        match self.batch.is_empty() {
            true => self.engine.poll_event(),
            false => None,
        }
    }

    /// Sends what the engine has to send, as far as the wire has room.
    /// Errors are those of the wire itself, except `WouldBlock`; what was to be sent is lost then, as on a path.
    pub(crate) fn flush(&mut self, now: Instant) -> io::Result<()> {
        self.flush_while(now, |_| true)
    }

    /// As [`flush`](PacketPump::flush), of an engine that says whether it has packets.
    /// Errors are those of [`flush`](PacketPump::flush).
    #[inline]
    pub(crate) fn flush_while(
        &mut self,
        now: Instant,
        has_packets: impl Fn(&P) -> bool + Copy,
    ) -> io::Result<()> {
        let result = self.send_all(now, has_packets);
        if self.wire.report_to(&mut self.engine, now) && result.is_ok() {
            // Once: an engine whose answer fails too hears of it at the next flush.
            return self.send_all(now, has_packets);
        }
        result
    }

    fn send_all(
        &mut self,
        now: Instant,
        has_packets: impl Fn(&P) -> bool + Copy,
    ) -> io::Result<()> {
        match self.send_until_blocked(now, has_packets) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => {
                self.batch.clear();
                self.coalesced.clear();
                if let Some(port) = &mut self.layer {
                    port.drop_frames();
                }
                Err(error)
            }
            Ok(()) => Ok(()),
        }
    }

    fn send_until_blocked(
        &mut self,
        now: Instant,
        has_packets: impl Fn(&P) -> bool,
    ) -> io::Result<()> {
        if let Some(port) = &mut self.layer {
            let (engine, batch) = (&mut self.engine, &mut self.batch);
            return send_through_layer(now, engine, batch, port, &mut self.wire, &self.messages);
        }
        loop {
            if self.batch.is_empty() && has_packets(&self.engine) {
                self.engine.poll_transmit(now, &mut self.batch);
            }
            if self.batch.is_empty() {
                return self.send_coalesced();
            }
            // With nothing before it and nothing behind it a batch leaves as it is.
            let is_alone = self.coalesced.is_empty() && !has_packets(&self.engine);
            if !is_alone && !self.coalesced.fits(&self.batch) {
                self.send_coalesced()?;
            }
            if !is_alone && self.coalesced.fits(&self.batch) {
                let messages = &self.messages;
                self.coalesced.append(&self.batch, |store, range, octets| {
                    octets.extend_from_slice(message_part(messages, store, range));
                });
            } else {
                self.wire.set_fragmentation(self.batch.fragmentation());
                let sent = self.send_batch();
                self.wire.set_fragmentation(Fragmentation::Usual);
                sent?;
            }
            self.batch.clear();
        }
    }

    fn send_batch(&mut self) -> io::Result<()> {
        let Some(path) = self.batch.path() else {
            return Ok(());
        };
        let (messages, built) = (&self.messages, &mut self.built);
        let mut slices = Vec::new();
        let sent = if self.batch.needs_copy() {
            built.clear();
            for packet in self.batch.packets() {
                self.batch.write(packet, built, |store, range, octets| {
                    octets.extend_from_slice(message_part(messages, store, range));
                });
            }
            let slice = IoSlice::new(built);
            self.wire.send(path, &[slice], self.batch.packet_len())?
        } else {
            self.batch
                .complete_checks(|store, range, take| take(message_part(messages, store, range)));
            for packet in self.batch.packets() {
                slices.extend(self.batch.parts(packet).iter().map(|part| match part {
                    Part::Own(octets) => IoSlice::new(self.batch.own(octets)),
                    Part::User(store, range) => IoSlice::new(message_part(messages, *store, range)),
                }));
            }
            self.wire.send(path, &slices, self.batch.packet_len())?
        };
        if sent {
            self.counts.sends += 1;
            self.counts.packets_sent += self.batch.packets().len() as u64;
        }
        Ok(())
    }

    fn send_coalesced(&mut self) -> io::Result<()> {
        let Some(path) = self.coalesced.path() else {
            return Ok(());
        };
        let slice = IoSlice::new(self.coalesced.octets());
        let packet_len = self.coalesced.packet_len();
        if self.wire.send(path, &[slice], packet_len)? {
            self.counts.sends += 1;
            self.counts.packets_sent += self.coalesced.packets() as u64;
        }
        self.coalesced.clear();
        Ok(())
    }
}

/// Sends packets as frames of the layer. It is given more only when the wire has taken its frames, so
/// that it holds little.
fn send_through_layer<P: Protocol, W: Wire>(
    now: Instant,
    engine: &mut P,
    batch: &mut Batch,
    port: &mut LayerPort,
    wire: &mut CheckedWire<W>,
    messages: &Messages,
) -> io::Result<()> {
    loop {
        port.send_frames(now, wire)?;
        let mut is_full = false;
        while !is_full {
            engine.poll_transmit(now, batch);
            if batch.is_empty() {
                // The frames of the last packets.
                return port.send_frames(now, wire);
            }
            is_full = port.send_batch(now, batch, |store, range, octets| {
                octets.extend_from_slice(message_part(messages, store, range));
            });
            batch.clear();
        }
    }
}

/// Octets of a message.
///
/// # Panics
///
/// When the engine names a message that it released, or octets outside of one.
fn message_part<'a>(
    messages: &'a Messages,
    store: Store,
    range: &std::ops::Range<u64>,
) -> &'a [u8] {
    let message = match store {
        Store::Message(id) => messages.get(id),
        Store::Association(_) => None,
    };
    let message = message.expect("the engine names a message that the host keeps");
    &message[range.start as usize..range.end as usize]
}
