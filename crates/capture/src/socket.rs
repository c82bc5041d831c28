//! Captures the interfaces of a host into a file.

use crate::pcapng::{
    Direction, FileLimit, InterfaceId, LinkType, PacketBlock, PcapngWriter, Statistics,
};
use crate::sys::{CapturedFrame, FrameBatch};
use crate::tap;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io::{self, BufWriter, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use wire_ether::Interface;
use wire_ether::packet::{self, HardwareType, OutgoingFrames, PacketSocketOptions};

/// Largest error of a timestamp. The kernel starts to timestamp arrivals some time after the option
/// is set; packets before that get the time at which they are read.
const TIMESTAMP_SLACK_NS: u64 = 50_000_000;

/// Longest sleep of the thread between two checks of the stop flag.
const STOP_POLL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};

/// Octets buffered before a write: 256 KiB are 170 full Ethernet frames.
const FILE_BUFFER_LEN: usize = 256 << 10;

/// Configuration of a capture.
#[derive(Clone, Copy, Debug)]
pub struct CaptureConfig {
    /// Octets kept of each packet; 0 for all of them.
    pub snap_len: u32,
    /// Kernel buffer of each interface in octets, the kernel's bookkeeping included. Packets beyond
    /// are dropped and counted.
    ///
    /// 32 MiB is a quarter of a second at 1 Gbit/s.
    pub backlog: usize,
    /// Limit of the file.
    pub limit: FileLimit,
}

impl Default for CaptureConfig {
    fn default() -> Self {
        CaptureConfig {
            snap_len: 0,
            backlog: 32 << 20,
            limit: FileLimit::default(),
        }
    }
}

/// Packet counts of a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaptureTotals {
    /// Written to the file.
    pub written: u64,
    /// Received, but beyond the file's limit.
    pub beyond_limit: u64,
    /// Dropped by the kernel because the file was not written fast enough.
    pub dropped: u64,
}

/// A running capture. It stops when it is dropped.
#[derive(Debug)]
pub struct Capture {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<CaptureTotals>>>,
}

impl Capture {
    /// Starts a thread that writes the packets of `interfaces`, in the calling thread's network
    /// namespace, to `out`. On a loopback each packet is written once.
    ///
    /// # Errors
    ///
    /// `PermissionDenied` without CAP_NET_RAW, `NotFound` when there is no such interface. Each
    /// names the interface.
    pub fn start<W: Write + Send + 'static>(
        interfaces: &[&str],
        out: W,
        config: &CaptureConfig,
    ) -> io::Result<Capture> {
        let mut writer = PcapngWriter::new(
            BufWriter::with_capacity(FILE_BUFFER_LEN, out),
            "",
            config.limit,
        )?;
        let mut sources = Vec::new();
        for name in interfaces {
            sources.push(CapturedInterface::open(name, &mut writer, config)?);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let job = CaptureThread {
            writer,
            sources,
            snap_len: config.snap_len,
            totals: CaptureTotals::default(),
        };
        let flag = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("capture".into());
        let thread = thread.spawn(move || job.run(&flag))?;
        Ok(Capture {
            stop,
            thread: Some(thread),
        })
    }

    /// Stops, writes the packets still in the kernel, and returns the counts.
    ///
    /// # Errors
    ///
    /// The error that ended the capture early: of the file or of an interface.
    pub fn stop(mut self) -> io::Result<CaptureTotals> {
        self.join().unwrap_or_else(|| Ok(CaptureTotals::default()))
    }

    /// Whether it still captures; false after an error, which [`stop`](Capture::stop) returns.
    pub fn is_running(&self) -> bool {
        self.thread
            .as_ref()
            .is_some_and(|thread| !thread.is_finished())
    }

    fn join(&mut self) -> Option<io::Result<CaptureTotals>> {
        self.stop.store(true, Ordering::Relaxed);
        let result = self.thread.take()?.join();
        Some(result.unwrap_or_else(|_| Err(io::Error::other("the capture's thread panicked"))))
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // `stop` returns errors; drop ignores them.
        let _ = self.join();
    }
}

/// One captured interface.
struct CapturedInterface {
    socket: OwnedFd,
    id: InterfaceId,
    seen: u64,
    last_ns: u64,
}

impl CapturedInterface {
    /// The timestamp of the next packet, at least that of the packets before it, whose timestamps
    /// may be too late by up to [`TIMESTAMP_SLACK_NS`].
    fn monotonic_timestamp(&mut self, at_ns: u64) -> u64 {
        let is_late = self.last_ns.saturating_sub(at_ns) <= TIMESTAMP_SLACK_NS;
        self.last_ns = if is_late {
            at_ns.max(self.last_ns)
        } else {
            at_ns
        };
        self.last_ns
    }

    fn open<W: Write>(
        name: &str,
        writer: &mut PcapngWriter<W>,
        config: &CaptureConfig,
    ) -> io::Result<CapturedInterface> {
        let (socket, hardware) = open(name, config.backlog).map_err(|error| {
            let why = match error.kind() {
                io::ErrorKind::NotFound => error.to_string(),
                io::ErrorKind::PermissionDenied => format!(
                    "capturing on '{name}' needs the right to raw packets (CAP_NET_RAW); run it as root"
                ),
                _ => format!("cannot capture on '{name}': {error}"),
            };
            io::Error::new(error.kind(), why)
        })?;
        let link = link_type_of(hardware).ok_or_else(|| {
            let text = format!(
                "cannot capture on '{name}': its hardware type {} is neither Ethernet nor plain IP",
                hardware.0
            );
            io::Error::new(io::ErrorKind::Unsupported, text)
        })?;
        Ok(CapturedInterface {
            socket,
            id: writer.interface(name, link, config.snap_len, "")?,
            seen: 0,
            last_ns: 0,
        })
    }
}

/// Opens a socket for every packet of the interface `name`, with kernel timestamps and a receive
/// buffer of `backlog` octets.
fn open(name: &str, backlog: usize) -> io::Result<(OwnedFd, HardwareType)> {
    let opening = PacketSocketOptions {
        ethertype: packet::ALL_TYPES,
        port: None,
        source: None,
        outgoing: OutgoingFrames::ReceivedOnce,
        timestamped: true,
        receive_buffer: Some(backlog),
        nonblocking: false,
    };
    packet::open(&Interface::find(name)?, &opening)
}

/// Link type of an interface.
fn link_type_of(hardware: HardwareType) -> Option<LinkType> {
    match hardware.0 {
        libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK => Some(LinkType::Ethernet),
        libc::ARPHRD_NONE => Some(LinkType::Ip),
        _ => None,
    }
}

/// State of the capture's thread.
struct CaptureThread<W: Write> {
    writer: PcapngWriter<W>,
    sources: Vec<CapturedInterface>,
    snap_len: u32,
    totals: CaptureTotals,
}

impl<W: Write> CaptureThread<W> {
    fn run(mut self, stop: &AtomicBool) -> io::Result<CaptureTotals> {
        let mut batch = FrameBatch::new();
        loop {
            // Read before receiving, so that packets from before the flag are still written.
            let last = stop.load(Ordering::Relaxed);
            let end_ns = if last {
                (tap::time_of_day())() + TIMESTAMP_SLACK_NS
            } else {
                u64::MAX
            };
            if !last {
                self.sleep()?;
            }
            for index in 0..self.sources.len() {
                self.take(index, &mut batch, end_ns)?;
            }
            if last {
                return self.end(end_ns - TIMESTAMP_SLACK_NS);
            }
        }
    }

    fn sleep(&self) -> io::Result<()> {
        let mut ready: Vec<PollFd<'_>> = self
            .sources
            .iter()
            .map(|source| PollFd::new(&source.socket, PollFlags::IN))
            .collect();
        match poll(&mut ready, Some(&STOP_POLL)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes the waiting packets of an interface, up to timestamp `end_ns`.
    fn take(&mut self, index: usize, batch: &mut FrameBatch, end_ns: u64) -> io::Result<()> {
        loop {
            match batch.receive(self.sources[index].socket.as_fd()) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // The interface is down; it may come up again.
                Err(error) if error.raw_os_error() == Some(libc::ENETDOWN) => return Ok(()),
                Err(error) => return Err(error),
            }
            batch.order_timestamps(TIMESTAMP_SLACK_NS);
            for packet in batch.packets() {
                let at_ns = packet.at_ns.unwrap_or_else(|| (tap::time_of_day())());
                let at_ns = self.sources[index].monotonic_timestamp(at_ns);
                if at_ns > end_ns {
                    return Ok(());
                }
                self.write(index, at_ns, &packet)?;
            }
            // Serves the other interfaces next, and checks the stop flag.
            if !batch.is_full() || end_ns == u64::MAX {
                return Ok(());
            }
        }
    }

    fn write(&mut self, index: usize, at_ns: u64, seen: &CapturedFrame<'_>) -> io::Result<()> {
        let source = &mut self.sources[index];
        source.seen += 1;
        let kept = match self.snap_len {
            0 => seen.octets.len(),
            len => seen.octets.len().min(len as usize),
        };
        let direction = match seen.outgoing {
            true => Direction::Sent,
            false => Direction::Received,
        };
        let written = self.writer.packet(&PacketBlock {
            interface: source.id,
            at_ns,
            octets: &seen.octets[..kept],
            original_len: seen.original_len,
            direction: Some(direction),
            comment: "",
        })?;
        if written {
            self.totals.written += 1;
        } else {
            self.totals.beyond_limit += 1;
        }
        Ok(())
    }

    fn end(mut self, at_ns: u64) -> io::Result<CaptureTotals> {
        for source in &self.sources {
            let dropped = packet::drops(source.socket.as_fd())?;
            self.totals.dropped += dropped;
            let statistics = Statistics {
                at_ns,
                received: source.seen + dropped,
                dropped,
            };
            self.writer.statistics(source.id, &statistics)?;
        }
        self.writer.finish()?;
        Ok(self.totals)
    }
}
