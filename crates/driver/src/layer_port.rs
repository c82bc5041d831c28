//! A layer between an engine and its wire: packets go in, frames come out, and back.

use crate::checked_wire::CheckedWire;
use engine::{Batch, Frames, Instant, Layer, Path, Received, Store, layer};
use std::io::{self, IoSlice};
use std::ops::Range;
use wire::{Arrival, Capabilities, Wire};

/// A layer, and the frames that the wire has not taken.
pub(crate) struct LayerPort {
    layer: Box<dyn Layer + Send>,
    frames: Frames,
    /// Frames of a call of the wire.
    frames_max: usize,
    /// Octets that the layer was given since its frames were sent, and how many it is given before
    /// they are: packets of several batches share a call of the wire.
    taken_octets: usize,
    round_octets: usize,
    /// The packet that is being written.
    packet: Vec<u8>,
    /// Packets that arrived; empty between arrivals.
    packets: Vec<(Path, Vec<u8>)>,
    calls: FrameCalls,
}

/// Calls of the wire, and the frames they carried.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FrameCalls {
    pub(crate) sends: u64,
    pub(crate) frames: u64,
}

impl LayerPort {
    /// Puts `layer` between packets of `packet_max` octets and a wire.
    pub(crate) fn new(
        layer: Box<dyn Layer + Send>,
        packet_max: usize,
        capabilities: &Capabilities,
    ) -> io::Result<LayerPort> {
        layer::check_fit(&*layer, packet_max, capabilities.packet_max)
            .map_err(|misfit| io::Error::new(io::ErrorKind::InvalidInput, misfit))?;
        Ok(LayerPort {
            frames: Frames::default(),
            frames_max: capabilities.segments(layer.frame_max()),
            taken_octets: 0,
            round_octets: capabilities.batch_bytes_max,
            packet: Vec::new(),
            packets: Vec::new(),
            calls: FrameCalls::default(),
            layer,
        })
    }

    /// Whether frames wait for the wire to have room.
    pub(crate) fn is_blocked(&self) -> bool {
        !self.frames.is_empty()
    }

    /// Calls of the wire so far.
    pub(crate) fn calls(&self) -> FrameCalls {
        self.calls
    }

    /// What the layer counts of its own.
    pub(crate) fn named_counts(&self) -> Vec<(&'static str, u64)> {
        self.layer.named_counts()
    }

    /// Drops the frames of a call that failed.
    pub(crate) fn drop_frames(&mut self) {
        self.frames.clear();
    }

    /// Hands the packets of `batch` to the layer; `copy` appends user bytes. True when its frames are
    /// to be sent before it gets more.
    pub(crate) fn send_batch(
        &mut self,
        now: Instant,
        batch: &Batch,
        copy: impl Fn(Store, &Range<u64>, &mut Vec<u8>),
    ) -> bool {
        let Some(path) = batch.path() else {
            return false;
        };
        for packet in batch.packets() {
            self.packet.clear();
            batch.write(packet, &mut self.packet, &copy);
            self.layer.send(now, path, &self.packet);
            self.taken_octets += packet.len();
        }
        self.taken_octets >= self.round_octets
    }

    /// Sends all frames of the layer.
    ///
    /// Errors are the wire's; after `WouldBlock` the frames of the failed call stay.
    pub(crate) fn send_frames<W: Wire>(
        &mut self,
        now: Instant,
        wire: &mut CheckedWire<W>,
    ) -> io::Result<()> {
        self.taken_octets = 0;
        loop {
            if self.frames.is_empty() {
                self.layer
                    .poll_transmit(now, self.frames_max, &mut self.frames);
            }
            let Some(path) = self.frames.path() else {
                return Ok(());
            };
            let (octets, frame_len) = (self.frames.octets(), self.frames.frame_len());
            if wire.send(path, &[IoSlice::new(octets)], frame_len)? {
                self.calls.sends += 1;
                self.calls.frames += octets.len().div_ceil(frame_len.max(1)) as u64;
            }
            self.frames.clear();
        }
    }

    /// Takes in the frames of an arrival; gives the packets that are whole now. The list goes back
    /// through [`recycle`](LayerPort::recycle).
    pub(crate) fn receive(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        octets: &[u8],
    ) -> Vec<(Path, Vec<u8>)> {
        let mut packets = std::mem::take(&mut self.packets);
        for frame in octets.chunks(arrival.segment_size.max(1)) {
            let frame = Received {
                path: arrival.path,
                ecn: arrival.ecn,
                octets: frame,
            };
            self.layer.handle_frame(now, frame, &mut packets);
        }
        packets
    }

    /// Keeps the memory of a list of packets, and gives the layer back that of those in it.
    pub(crate) fn recycle(&mut self, mut packets: Vec<(Path, Vec<u8>)>) {
        for (_, packet) in packets.drain(..) {
            self.layer.recycle(packet);
        }
        self.packets = packets;
    }

    /// Gives the layer back the memory of a packet.
    pub(crate) fn recycle_packet(&mut self, packet: Vec<u8>) {
        self.layer.recycle(packet);
    }

    /// When the layer's next timer expires.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.layer.poll_timeout()
    }

    /// Runs the layer's timers if its timeout is due.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.layer.poll_timeout().is_some_and(|at| at <= now) {
            self.layer.handle_timeout(now);
        }
    }
}

/// The earlier of an engine's and a layer's timeout.
pub(crate) fn earlier(engine: Option<Instant>, layer: Option<&LayerPort>) -> Option<Instant> {
    engine::time::earlier(engine, layer.and_then(LayerPort::poll_timeout))
}
