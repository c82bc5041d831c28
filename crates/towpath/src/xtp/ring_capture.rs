//! Packets that cross the rings of a shortcut, in pcapng files: no interface shows them.
//!
//! The packets have headers of IP and UDP, as they would have had without the ring, so what reads a capture of the loopback
//! reads them too. Their interface in the file says that they did not cross one: `ring of` and the address of the
//! endpoint. A process writes one file, `PID.pcapng`, into the folder that [`capture_rings`] or the environment
//! variable [`VARIABLE`] names.

use super::environment_path;
use capture::{Direction, FileLimit, InterfaceId, LinkType, PacketBlock, PcapngWriter, ip};
use std::fs::File;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use wire_shortcut::RingObserver;

/// The environment variable with the folder of the captures of a process.
pub const VARIABLE: &str = "TOWPATH_CAPTURE_RINGS";

/// Octets of a packet that are written, with its headers.
const SNAP_LEN: usize = 256;

/// Octets of a file at most, some 50,000 packets. What follows is left out.
const FILE_MAX: u64 = 16 << 20;

/// Mode of a file, which holds keys of associations.
const MODE: u32 = 0o600;

/// The file of this process. Each block is written at once, so that a killed process leaves a whole file.
type Writer = Arc<Mutex<PcapngWriter<File>>>;

#[derive(Default)]
struct ProcessCapture {
    folder: Option<PathBuf>,
    writer: Option<Writer>,
}

static PROCESS_CAPTURE: Mutex<ProcessCapture> = Mutex::new(ProcessCapture {
    folder: None,
    writer: None,
});

/// Captures what crosses the rings of all endpoints created from now on, into a new file in `folder`.
pub fn capture_rings(folder: &Path) {
    let mut capture = locked(&PROCESS_CAPTURE);
    *capture = ProcessCapture {
        folder: Some(folder.to_owned()),
        writer: None,
    };
}

/// What an endpoint at `own` tells of its rings, if they are captured.
///
/// # Errors
///
/// A file that cannot be written, or exists; the text names it.
pub(super) fn process_observer(own: SocketAddr) -> io::Result<Option<Arc<dyn RingObserver>>> {
    let mut capture = locked(&PROCESS_CAPTURE);
    let folder = match &capture.folder {
        Some(folder) => Some(folder.clone()),
        None => environment_path(VARIABLE),
    };
    let Some(folder) = folder else {
        return Ok(None);
    };
    let writer = match &capture.writer {
        Some(writer) => Arc::clone(writer),
        None => Arc::clone(capture.writer.insert(create(&folder)?)),
    };
    RingCapture::new(writer, own).map(|made| Some(Arc::new(made) as Arc<dyn RingObserver>))
}

/// A new file: in a folder of everybody's another user may have put one there.
fn create(folder: &Path) -> io::Result<Writer> {
    let path = folder.join(format!("{}.pcapng", std::process::id()));
    let mut options = File::options();
    let file = options.write(true).create_new(true).mode(MODE);
    let limit = FileLimit {
        packets: None,
        octets: Some(FILE_MAX),
    };
    let comment = "packets that crossed rings of shared memory, and no interface";
    let written = file.open(&path);
    let written = written.and_then(|file| PcapngWriter::new(file, comment, limit));
    let writer = written.map_err(|error| {
        let text = format!("cannot write the capture {}: {error}", path.display());
        io::Error::new(error.kind(), text)
    })?;
    Ok(Arc::new(Mutex::new(writer)))
}

/// A writer is consistent between its calls, also after a panic.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
        let since = at.duration_since(UNIX_EPOCH);
        let at_ns = since.map_or(0, |since| since.as_nanos() as u64);
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
