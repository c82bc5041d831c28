//! Packets that cross the rings of a shortcut, in pcapng files: no interface shows them.
//!
//! The packets have headers of IP and UDP, as they would have had without the ring, so what reads a capture of the loopback
//! reads them too. Their interface in the file says that they did not cross one: `ring of` and the address of the
//! endpoint. They are in the file of their process (`process_capture`).

use crate::process_capture::{self, Writer, locked, nanoseconds};
use capture::{Direction, InterfaceId, LinkType, PacketBlock, ip};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;
use wire_shortcut::RingObserver;

/// Octets of a packet that are written, with its headers.
const SNAP_LEN: usize = 256;

/// What an endpoint at `own` tells of its rings, if they are captured.
/// Errors: a file that cannot be written, or exists; the text names it.
pub(super) fn process_observer(own: SocketAddr) -> io::Result<Option<Arc<dyn RingObserver>>> {
    let Some(writer) = process_capture::writer()? else {
        return Ok(None);
    };
    RingCapture::new(writer, own).map(|made| Some(Arc::new(made) as Arc<dyn RingObserver>))
}

/// Writes what crosses the rings of one endpoint.
#[derive(Debug)]
struct RingCapture {
    writer: Writer,
    interface: InterfaceId,
    own: SocketAddr,
}

impl RingCapture {
    fn new(writer: Writer, own: SocketAddr) -> io::Result<RingCapture> {
        let name = format!("ring of {own}");
        let interface = locked(&writer).interface(&name, LinkType::Ip, SNAP_LEN as u32, "")?;
        Ok(RingCapture {
            writer,
            interface,
            own,
        })
    }

    fn write(
        &self,
        at: SystemTime,
        direction: Direction,
        peer: SocketAddr,
        octets: &[u8],
        packet_len: usize,
    ) {
        // To an address of this host packets go from the same one, unless another is bound.
        let own = match self.own.ip().is_unspecified() {
            true => SocketAddr::new(peer.ip(), self.own.port()),
            false => self.own,
        };
        let (from, to) = match direction {
            Direction::Sent => (own, peer),
            Direction::Received => (peer, own),
        };
        let at_ns = nanoseconds(at);
        let mut writer = locked(&self.writer);
        for payload in octets.chunks(packet_len.max(1)) {
            let mut packet = ip::udp_headers(from, to, payload.len());
            let original_len = packet.len() + payload.len();
            let shown = payload.len().min(SNAP_LEN - packet.len());
            packet.extend_from_slice(&payload[..shown]);
            // A file that cannot be written ends the capture and not the traffic.
            let _ = writer.packet(&PacketBlock {
                interface: self.interface,
                at_ns,
                octets: &packet,
                original_len,
                direction: Some(direction),
                comment: "",
            });
        }
    }
}

impl RingObserver for RingCapture {
    fn on_sent(&self, at: SystemTime, peer: SocketAddr, slices: &[IoSlice<'_>], packet_len: usize) {
        let octets = slices.iter().flat_map(|slice| slice.iter().copied());
        let octets: Vec<u8> = octets.collect();
        self.write(at, Direction::Sent, peer, &octets, packet_len);
    }

    fn on_received(&self, peer: SocketAddr, octets: &[u8], packet_len: usize) {
        let now = SystemTime::now();
        self.write(now, Direction::Received, peer, octets, packet_len);
    }
}
