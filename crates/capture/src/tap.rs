//! A wire that captures the packets of an engine.

use crate::ip;
use crate::pcapng::{Direction, InterfaceId, LinkType, PacketBlock, PcapngWriter};
use engine::{Address, PacketLen, Path};
use std::io::{self, IoSlice, Write};
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use wire::{Arrival, Capabilities, PathReport, Receiver, Wire};

/// A capture file that several taps write to.
#[derive(Clone)]
pub struct Recorder {
    writer: Arc<Mutex<PcapngWriter<Box<dyn Write + Send>>>>,
}

/// One or more packets captured together.
#[derive(Clone, Copy, Debug)]
pub struct CapturedPackets {
    /// Interface of the file.
    pub interface: InterfaceId,
    /// Timestamp, ns.
    pub at_ns: u64,
    /// Direction, where known.
    pub direction: Option<Direction>,
    /// Source address.
    pub from: IpAddr,
    /// Destination address.
    pub to: IpAddr,
    /// IP protocol number, see [`ip`].
    pub protocol: u8,
    /// Octets of each packet but the last.
    pub segment_size: usize,
}

/// The current time: ns since 1970-01-01 UTC, or of virtual time.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The time of day of this host.
pub fn time_of_day() -> Clock {
    Arc::new(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| since.as_nanos() as u64)
    })
}

/// A wire that captures its packets.
///
/// Each segment of a segmented send or a coalesced arrival is written as a packet, behind a
/// synthetic IP header whatever the medium. Timestamps are taken before the call that sends, and
/// after the call that receives.
pub struct Tap<W> {
    wire: W,
    log: TapLog,
}

/// Writes the packets of one wire to its recorder.
#[derive(Clone)]
struct TapLog {
    recorder: Recorder,
    interface: InterfaceId,
    own: IpAddr,
    protocol: u8,
    clock: Clock,
}

impl Recorder {
    /// Writes to `writer`.
    pub fn new(writer: PcapngWriter<Box<dyn Write + Send>>) -> Recorder {
        Recorder {
            writer: Arc::new(Mutex::new(writer)),
        }
    }

    /// Flushes the file and returns the number of its packets. Packets written later are lost.
    ///
    /// # Errors
    ///
    /// The first write error; nothing was written after it.
    pub fn finish(self) -> io::Result<u64> {
        self.with(|writer| {
            let empty: Box<dyn Write + Send> = Box::new(io::sink());
            let empty = PcapngWriter::new(empty, "", Default::default())?;
            let packets = writer.packets();
            std::mem::replace(writer, empty).finish()?;
            Ok(packets)
        })
    }

    /// Adds an interface, whose packets begin with an IP header.
    pub fn interface(&self, name: &str) -> io::Result<InterfaceId> {
        self.with(|writer| writer.interface(name, LinkType::Ip, 0, ""))
    }

    /// Writes packets behind synthetic IP headers; false when the file is full or failed.
    pub fn write(&self, captured: &CapturedPackets, octets: &[u8]) -> bool {
        let CapturedPackets { from, to, .. } = *captured;
        self.with(|writer| {
            octets.chunks(captured.segment_size.max(1)).all(|payload| {
                let mut packet = ip::header(from, to, captured.protocol, payload.len());
                packet.extend_from_slice(payload);
                let written = writer.packet(&PacketBlock {
                    interface: captured.interface,
                    at_ns: captured.at_ns,
                    octets: &packet,
                    original_len: packet.len(),
                    direction: captured.direction,
                    comment: "",
                });
                // The writer keeps its error for `finish`.
                written.unwrap_or(false)
            })
        })
    }

    fn with<T>(&self, act: impl FnOnce(&mut PcapngWriter<Box<dyn Write + Send>>) -> T) -> T {
        // A writer is consistent between its calls, also after a panic.
        act(&mut self.writer.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<W: Wire> Tap<W> {
    /// Captures the packets of `wire` to `recorder`, as interface `name` with address `own` and IP
    /// protocol number `protocol` (see [`ip`]).
    pub fn new(
        wire: W,
        recorder: &Recorder,
        name: &str,
        own: Address,
        protocol: u8,
        clock: Clock,
    ) -> io::Result<Tap<W>> {
        let interface = recorder.interface(name)?;
        Ok(Tap {
            wire,
            log: TapLog {
                recorder: recorder.clone(),
                interface,
                own: ip::ip_of(own),
                protocol,
                clock,
            },
        })
    }

    /// The wire underneath.
    pub fn wire(&self) -> &W {
        &self.wire
    }
}

impl TapLog {
    fn write(&self, at_ns: u64, direction: Direction, peer: Address, octets: &[u8], size: usize) {
        let peer = ip::ip_of(peer);
        let (from, to) = match direction {
            Direction::Sent => (self.own, peer),
            Direction::Received => (peer, self.own),
        };
        let captured = CapturedPackets {
            interface: self.interface,
            at_ns,
            direction: Some(direction),
            from,
            to,
            protocol: self.protocol,
            segment_size: size,
        };
        self.recorder.write(&captured, octets);
    }

    fn write_arrival(&self, arrival: &Arrival, buffer: &[u8]) {
        let octets = &buffer[..arrival.len.min(buffer.len())];
        let at_ns = (self.clock)();
        let size = arrival.segment_size;
        self.write(
            at_ns,
            Direction::Received,
            arrival.path.remote,
            octets,
            size,
        );
    }
}

impl<W: Wire> Wire for Tap<W> {
    fn capabilities(&self) -> Capabilities {
        self.wire.capabilities()
    }

    fn send(&mut self, path: Path, slices: &[IoSlice<'_>], segment_size: usize) -> io::Result<()> {
        let at_ns = (self.log.clock)();
        self.wire.send(path, slices, segment_size)?;
        let octets: Vec<u8> = slices
            .iter()
            .flat_map(|slice| slice.iter().copied())
            .collect();
        self.log
            .write(at_ns, Direction::Sent, path.remote, &octets, segment_size);
        Ok(())
    }

    fn poll_path_error(&mut self) -> Option<PathReport> {
        self.wire.poll_path_error()
    }

    fn set_fragmentation(&mut self, fragmentation: engine::Fragmentation) {
        self.wire.set_fragmentation(fragmentation);
    }

    fn path_mtu(&mut self, path: engine::Path) -> usize {
        self.wire.path_mtu(path)
    }

    fn unanswerable(&self) -> u64 {
        self.wire.unanswerable()
    }

    fn set_packet_len(&mut self, packet_len: PacketLen) {
        self.wire.set_packet_len(packet_len);
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Arrival> {
        let arrival = self.wire.receive(buffer)?;
        self.log.write_arrival(&arrival, buffer);
        Ok(arrival)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.wire.descriptor()
    }

    fn has_buffered(&self) -> bool {
        self.wire.has_buffered()
    }

    fn may_wait(&mut self) -> bool {
        self.wire.may_wait()
    }

    fn join(&mut self, group: Address) -> io::Result<()> {
        self.wire.join(group)
    }

    fn leave(&mut self, group: Address) -> io::Result<()> {
        self.wire.leave(group)
    }

    fn receiver(&self) -> Option<Box<dyn Receiver>> {
        let receiver = self.wire.receiver()?;
        let log = self.log.clone();
        Some(Box::new(TappedReceiver { receiver, log }))
    }
}

struct TappedReceiver {
    receiver: Box<dyn Receiver>,
    log: TapLog,
}

impl Receiver for TappedReceiver {
    fn max_wait(&self) -> Duration {
        self.receiver.max_wait()
    }

    fn receive(&self, buffer: &mut [u8]) -> io::Result<Arrival> {
        let arrival = self.receiver.receive(buffer)?;
        self.log.write_arrival(&arrival, buffer);
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
