//! Packet traces as lines of text, and a wire that writes them.
//!
//! Simulated runs and live endpoints write the same lines, so the same tools read both:
//!
//! ```text
//! 1250000 offered at=0 from=0 len=52 hash=91c0cf2b0a7d4ce1 000000...
//! 1610000 arrived at=1 from=0 len=52 hash=91c0cf2b0a7d4ce1 000000...
//! ```
//!
//! A line has the time in picoseconds, the event, the station it happened at, the station that sent
//! the packet, its length, a hash of all its octets, `path=` and the number of the path unless it is
//! the first, and the first 48 octets. Lines that begin
//! with `#` are comments.

use crate::Arrival;
use crate::observed::{Observed, PacketObserver, SentPackets};
use engine::{Address, LocalAddress};
use std::collections::HashMap;
use std::fmt::{self, Display, Write as _};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Octets of a packet shown in a line, at most.
const SHOWN_LEN: usize = 48;

/// Longest log by default: 64 MiB, some 400,000 packets.
pub const LOG_MAX: u64 = 64 << 20;

/// Stations with a number of their own; all others share the last number.
const STATIONS_MAX: u32 = 65_536;

/// Mode of a new trace, which holds keys of associations.
const MODE: u32 = 0o600;

/// Files of one name, at most; see [`TraceLog::create_beside`].
const SIBLINGS_MAX: u32 = 64;

/// One event of a packet.
#[derive(Clone, Copy, Debug)]
pub struct TraceEntry<'a> {
    /// Time since the start, ps.
    pub at_ps: u64,
    /// `offered`, `arrived`, `refused`, `lost` or another event of the simulator.
    pub event: &'a str,
    /// The station it happened at.
    pub station: u64,
    /// The station that sent the packet.
    pub from: u64,
    /// The path it was sent by, by the number of the local address.
    pub path: u16,
    /// The packet.
    pub packet: &'a [u8],
}

impl Display for TraceEntry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let packet = self.packet;
        write!(
            f,
            "{} {} at={} from={} len={} hash={:016x} ",
            self.at_ps,
            self.event,
            self.station,
            self.from,
            packet.len(),
            hash(HASH_START, packet)
        )?;
        if self.path > 0 {
            write!(f, "path={} ", self.path)?;
        }
        packet
            .iter()
            .take(SHOWN_LEN)
            .try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

/// Initial value of [`hash`] (FNV-1a offset basis).
pub const HASH_START: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a: adds `octets` to a hash. It distinguishes runs and is not cryptographic.
pub fn hash(start: u64, octets: &[u8]) -> u64 {
    octets.iter().fold(start, |hash, octet| {
        (hash ^ u64::from(*octet)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// A trace file that several endpoints may share. Its times count from its creation.
pub struct TraceLog {
    start: Instant,
    path: PathBuf,
    inner: Mutex<LogFile>,
}

struct LogFile {
    file: File,
    /// Octets that may still be written.
    left: u64,
    stations: HashMap<Address, u32>,
    /// The first write error; nothing is written after it.
    failed: Option<io::Error>,
    text: String,
}

impl fmt::Debug for TraceLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Log({})", self.path.display())
    }
}

impl TraceLog {
    /// Creates a file at `path`, replacing an existing one.
    pub fn create(path: &Path) -> io::Result<TraceLog> {
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(true);
        let file = options.mode(MODE).open(path)?;
        Ok(TraceLog::to_file(file, path, LOG_MAX))
    }

    /// Creates a file at `path`, where none may be.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` when there is one.
    pub fn create_new(path: &Path) -> io::Result<TraceLog> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(MODE).open(path)?;
        Ok(TraceLog::to_file(file, path, LOG_MAX))
    }

    /// Creates a file at `path`, or at `path.2`, `path.3` and so on when those before exist.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` when there are 64 already.
    pub fn create_beside(path: &Path) -> io::Result<TraceLog> {
        for number in 1..=SIBLINGS_MAX {
            let mut name = path.as_os_str().to_owned();
            if number > 1 {
                name.push(format!(".{number}"));
            }
            let name = PathBuf::from(name);
            match TraceLog::create_new(&name) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made,
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Writes to `file`, at most `octets_max` octets and one final comment.
    pub fn to_file(file: File, path: &Path, octets_max: u64) -> TraceLog {
        TraceLog {
            start: Instant::now(),
            path: path.to_owned(),
            inner: Mutex::new(LogFile {
                file,
                left: octets_max,
                stations: HashMap::new(),
                failed: None,
                text: String::new(),
            }),
        }
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The first write error, if there was one; nothing was written since.
    pub fn take_error(&self) -> Option<io::Error> {
        self.lock().failed.take()
    }

    /// The number of the station at `address`. The first use of an address writes a comment.
    pub fn station(&self, address: Address) -> u32 {
        let mut inner = self.lock();
        let number = inner.station(address);
        inner.write();
        number
    }

    /// Adds a line for each packet in `octets`; all but the last are `size` long.
    fn add(
        &self,
        what: &str,
        station: u32,
        (from, path): (PacketSource, LocalAddress),
        octets: &[u8],
        size: usize,
    ) {
        let at_ns = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut inner = self.lock();
        let from = match from {
            PacketSource::Local => station,
            PacketSource::Peer(address) => inner.station(address),
        };
        for packet in octets.chunks(size.max(1)) {
            let entry = TraceEntry {
                at_ps: at_ns.saturating_mul(1000),
                event: what,
                station: station.into(),
                from: from.into(),
                path: path.0,
                packet,
            };
            // Writing into a String cannot fail.
            let _ = writeln!(inner.text, "{entry}");
        }
        inner.write();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, LogFile> {
        // The lock is held for whole lines only, so the log is consistent after a panic.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum PacketSource {
    Local,
    Peer(Address),
}

impl LogFile {
    fn station(&mut self, address: Address) -> u32 {
        if let Some(number) = self.stations.get(&address) {
            return *number;
        }
        let number = self.stations.len() as u32;
        if number >= STATIONS_MAX {
            return STATIONS_MAX;
        }
        self.stations.insert(address, number);
        let _ = match address {
            Address::Socket(socket) => writeln!(self.text, "# station {number} is {socket}"),
            other => writeln!(self.text, "# station {number} is {other:?}"),
        };
        number
    }

    /// Writes the pending text to the file at once, so that a killed process loses no line.
    fn write(&mut self) {
        let text = std::mem::take(&mut self.text);
        let open = self.failed.is_none() && self.left > 0;
        if open && !text.is_empty() {
            let fits = text.len() as u64 <= self.left;
            let full = "# full: what follows is not written\n";
            let octets = if fits { text.as_str() } else { full };
            self.left = if fits {
                self.left - text.len() as u64
            } else {
                0
            };
            self.failed = self.file.write_all(octets.as_bytes()).err();
        }
        self.text = text;
        self.text.clear();
    }
}

/// A wire that logs its packets: `offered` before the medium takes them, `refused` when it did not
/// (they are offered again), `arrived` when they are received. Without a log it only forwards
/// calls.
pub type Traced<W> = Observed<W, TraceObserver>;

/// Writes the packets of one station to a log.
#[derive(Clone)]
pub struct TraceObserver {
    log: Arc<TraceLog>,
    station: u32,
}

impl TraceObserver {
    fn of(log: Arc<TraceLog>, own: Address) -> TraceObserver {
        TraceObserver {
            station: log.station(own),
            log,
        }
    }

    fn log_sent(&self, what: &str, path: engine::Path, octets: &[u8], size: usize) {
        let from = (PacketSource::Local, path.local);
        self.log.add(what, self.station, from, octets, size);
    }
}

impl PacketObserver for TraceObserver {
    type Offer = ();

    fn offer(&self, path: engine::Path, octets: &[u8], segment_size: usize) {
        self.log_sent("offered", path, octets, segment_size);
    }

    fn settle(&self, (): (), sent: SentPackets<'_>) {
        if !sent.taken {
            self.log_sent("refused", sent.path, sent.octets, sent.segment_size);
        }
    }

    fn arrive(&self, arrival: &Arrival, octets: &[u8]) {
        let from = (PacketSource::Peer(arrival.path.remote), arrival.path.local);
        let size = arrival.segment_size;
        self.log.add("arrived", self.station, from, octets, size);
    }
}

impl<W> Traced<W> {
    /// Logs the packets of `wire`, whose address is `own`, to `log`.
    pub fn new(wire: W, log: Option<Arc<TraceLog>>, own: Address) -> Traced<W> {
        Observed::by(wire, log.map(|log| TraceObserver::of(log, own)))
    }

    /// Logs its packets from now on to `log`, or no longer.
    pub fn trace_to(&self, log: Option<Arc<TraceLog>>, own: Address) {
        let observer = log.map(|log| TraceObserver::of(log, own));
        self.switch().set(observer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_trace_is_for_its_owner_only() {
        use std::os::unix::fs::PermissionsExt;
        let path = std::env::temp_dir().join(format!("towpath-trace-mode-{}", std::process::id()));
        for make in [TraceLog::create, TraceLog::create_beside] {
            // Left by an earlier process with this number.
            let _ = std::fs::remove_file(&path);
            make(&path).expect("a file");
            let about = std::fs::metadata(&path).expect("it is there");
            assert_eq!(about.permissions().mode() & 0o777, 0o600);
        }
        std::fs::remove_file(&path).expect("it is there");
    }

    #[test]
    fn stations_beyond_the_limit_share_a_number() {
        let path = std::env::temp_dir().join(format!("towpath-stations-{}", std::process::id()));
        let log = TraceLog::to_file(File::create(&path).expect("a file"), &path, 100);
        let last = (0..STATIONS_MAX + 10).map(|n| log.station(Address::Station(n)));
        assert_eq!(last.max(), Some(STATIONS_MAX));
        assert_eq!(log.lock().stations.len(), STATIONS_MAX as usize);
        assert_eq!(log.station(Address::Station(3)), 3);
        std::fs::remove_file(&path).expect("it is there");
    }

    #[test]
    fn full_log_ends_with_whole_line_and_remark() {
        let path = std::env::temp_dir().join(format!("towpath-log-{}", std::process::id()));
        let log = TraceLog::to_file(File::create(&path).expect("a file"), &path, 300);
        let station = log.station(Address::Station(7));
        for _ in 0..10 {
            let from = (PacketSource::Local, LocalAddress(0));
            log.add("offered", station, from, &[1; 20], 10);
        }
        let text = std::fs::read_to_string(&path).expect("it was written");
        let _ = std::fs::remove_file(&path);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "# station 0 is Station(7)");
        assert!(lines[1].ends_with("01010101010101010101"), "{}", lines[1]);
        assert!(lines[1].contains(" offered at=0 from=0 len=10 hash="));
        assert_eq!(lines.last(), Some(&"# full: what follows is not written"));
        assert_eq!(lines.len(), 4, "{text}");
        assert!(log.take_error().is_none());
    }
}
