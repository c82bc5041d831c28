//! A wire that captures the packets of an engine.

use crate::ip;
use crate::pcapng::{Direction, InterfaceId, LinkType, PacketBlock, PcapngWriter};
use engine::{Address, Path};
use std::io::{self, Write};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use wire::observed::{Observed, PacketObserver, SentPackets};
use wire::{Arrival, Wire};

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
pub type Tap<W> = Observed<W, TapLog>;

/// Writes the packets of one wire to its recorder.
#[derive(Clone)]
pub struct TapLog {
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

/// Captures the packets of `wire` to `recorder`, as interface `name` with address `own` and IP
/// protocol number `protocol` (see [`ip`]).
///
/// # Errors
///
/// The file cannot be written.
pub fn tap<W: Wire>(
    wire: W,
    recorder: &Recorder,
    name: &str,
    own: Address,
    protocol: u8,
    clock: Clock,
) -> io::Result<Tap<W>> {
    let log = TapLog {
        recorder: recorder.clone(),
        interface: recorder.interface(name)?,
        own: ip::ip_of(own),
        protocol,
        clock,
    };
    Ok(Observed::by(wire, Some(log)))
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
}

impl PacketObserver for TapLog {
    /// When they were offered, ns.
    type Offer = u64;

    fn offer(&self, _path: Path, _octets: &[u8], _segment_size: usize) -> u64 {
        (self.clock)()
    }

    fn settle(&self, at_ns: u64, sent: SentPackets<'_>) {
        if sent.taken {
            let peer = sent.path.remote;
            self.write(at_ns, Direction::Sent, peer, sent.octets, sent.segment_size);
        }
    }

    fn arrive(&self, arrival: &Arrival, octets: &[u8]) {
        let (at_ns, peer) = ((self.clock)(), arrival.path.remote);
        self.write(
            at_ns,
            Direction::Received,
            peer,
            octets,
            arrival.segment_size,
        );
    }
}
