//! What an engine sends and receives, written down between its pump and its wire.

use crate::ip;
use crate::pcapng::{Direction, InterfaceId, LinkType, Packet, PcapngWriter};
use engine::{Address, PacketLen};
use std::io::{self, IoSlice, Write};
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use wire::{Arrival, Capabilities, Receiver, Wire};

/// A file that several taps write to.
#[derive(Clone)]
pub struct Recorder {
    writer: Arc<Mutex<PcapngWriter<Box<dyn Write + Send>>>>,
}

/// One or more packets seen together.
#[derive(Clone, Copy, Debug)]
pub struct CapturedPackets {
    /// Where.
    pub interface: InterfaceId,
    /// When, ns.
    pub at_ns: u64,
    /// Which way they went, where that is known.
    pub direction: Option<Direction>,
    /// Who sent them.
    pub from: IpAddr,
    /// Who is to receive them.
    pub to: IpAddr,
    /// Their protocol's number over IP, see [`ip`].
    pub protocol: u8,
    /// Octets of each packet but the last.
    pub segment_size: usize,
}

/// What time it is: ns since 1970-01-01 UTC, or of virtual time.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The time of day of this host.
pub fn time_of_day() -> Clock {
    Arc::new(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| since.as_nanos() as u64)
    })
}

/// A wire that writes down each packet that goes over it.
///
/// A segmented send is as many packets as it has segments, and so is a coalesced arrival. Each
/// stands behind an IP header made here, whatever carried it. A packet is stamped before the call
/// that sends it, and after the call that receives it.
pub struct Tap<W> {
    wire: W,
    log: TapLog,
}

/// How packets of one wire are written down.
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

    /// Writes out what is buffered and tells how many packets are in the file. Packets that come
    /// later are lost.
    ///
    /// # Errors
    ///
    /// The first one met, since when nothing was written.
    pub fn finish(self) -> io::Result<u64> {
        self.with(|writer| {
            let empty: Box<dyn Write + Send> = Box::new(io::sink());
            let empty = PcapngWriter::new(empty, "", Default::default())?;
            let packets = writer.packets();
            std::mem::replace(writer, empty).finish()?;
            Ok(packets)
        })
    }

    /// Describes one more interface, whose packets begin with an IP header.
    ///
    /// # Errors
    ///
    /// Those of the file.
    pub fn interface(&self, name: &str) -> io::Result<InterfaceId> {
        self.with(|writer| writer.interface(name, LinkType::Ip, 0, ""))
    }

    /// Writes packets behind IP headers made for them; false when the file is full or broken.
    pub fn write(&self, captured: &CapturedPackets, octets: &[u8]) -> bool {
        let CapturedPackets { from, to, .. } = *captured;
        self.with(|writer| {
            octets.chunks(captured.segment_size.max(1)).all(|payload| {
                let mut packet = ip::header(from, to, captured.protocol, payload.len());
                packet.extend_from_slice(payload);
                let written = writer.packet(&Packet {
                    interface: captured.interface,
                    at_ns: captured.at_ns,
                    octets: &packet,
                    original_len: packet.len(),
                    direction: captured.direction,
                    comment: "",
                });
                // The writer keeps its error for the end.
                written.unwrap_or(false)
            })
        })
    }

    fn with<T>(&self, act: impl FnOnce(&mut PcapngWriter<Box<dyn Write + Send>>) -> T) -> T {
        // A writer is whole between its calls, so one that a panic left is good.
        act(&mut self.writer.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<W: Wire> Tap<W> {
    /// Writes what goes over `wire` to `recorder`, as interface `name` with address `own` and
    /// packets of `protocol` (see [`ip`]).
    ///
    /// # Errors
    ///
    /// Those of the file.
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
        self.write(at_ns, Direction::Received, arrival.from, octets, size);
    }
}

impl<W: Wire> Wire for Tap<W> {
    fn capabilities(&self) -> Capabilities {
        self.wire.capabilities()
    }

    fn send(&mut self, to: Address, slices: &[IoSlice<'_>], segment_size: usize) -> io::Result<()> {
        let at_ns = (self.log.clock)();
        self.wire.send(to, slices, segment_size)?;
        let octets: Vec<u8> = slices
            .iter()
            .flat_map(|slice| slice.iter().copied())
            .collect();
        self.log
            .write(at_ns, Direction::Sent, to, &octets, segment_size);
        Ok(())
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

    fn is_interruptible(&self) -> bool {
        self.receiver.is_interruptible()
    }
}
