//! Trace and packet capture of a run.

use crate::CliError;
use capture::{Direction, InterfaceId, LinkType, PacketBlock, PcapngWriter};
use scenario::trace;
use sim::{Observation, PacketEvent};
use std::cell::RefCell;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Writers of trace and capture, shared with the observer of the network.
#[derive(Clone)]
pub struct PacketLogs(Rc<RefCell<LogFiles>>);

struct LogFiles {
    trace: Option<(PathBuf, BufWriter<File>)>,
    pcap: Option<(PathBuf, PcapngWriter<BufWriter<File>>, InterfaceId)>,
    failed: Option<String>,
}

/// The EtherType of XTP, also used for engines that have none.
const ETHERTYPE: [u8; 2] = [0x81, 0x7d];

impl PacketLogs {
    /// Creates the given files.
    ///
    /// # Errors
    ///
    /// When one cannot be created.
    pub fn open(trace: Option<&Path>, pcap: Option<&Path>) -> Result<PacketLogs, CliError> {
        let create = |path: &Path| {
            let file = File::create(path).map_err(|error| write_error(path, &error))?;
            Ok::<_, CliError>(BufWriter::new(file))
        };
        let trace = trace
            .map(|path| Ok::<_, CliError>((path.to_owned(), create(path)?)))
            .transpose()?;
        let pcap = pcap
            .map(|path| {
                let fail = |error: std::io::Error| write_error(path, &error);
                let comment = "simulated; times from the start of the run";
                let mut writer =
                    PcapngWriter::new(create(path)?, comment, Default::default()).map_err(fail)?;
                let interface = writer.interface("medium", LinkType::Ethernet, 0, "");
                Ok::<_, CliError>((path.to_owned(), writer, interface.map_err(fail)?))
            })
            .transpose()?;
        Ok(PacketLogs(Rc::new(RefCell::new(LogFiles {
            trace,
            pcap,
            failed: None,
        }))))
    }

    /// Whether a file is written.
    pub fn is_enabled(&self) -> bool {
        let files = self.0.borrow();
        files.trace.is_some() || files.pcap.is_some()
    }

    /// Writes an observation. After a write error nothing more is written.
    pub fn record(&self, observation: &Observation<'_>) {
        let mut files = self.0.borrow_mut();
        let LogFiles {
            trace,
            pcap,
            failed,
        } = &mut *files;
        if failed.is_some() {
            return;
        }
        if let Some((path, out)) = trace
            && let Err(error) = writeln!(out, "{}", trace::line(observation))
        {
            *failed = Some(write_error(path, &error).message);
        }
        if let Some((path, out, interface)) = pcap
            && let Err(error) = write_packet(out, *interface, observation)
        {
            *failed = Some(write_error(path, &error).message);
        }
    }

    /// Flushes the files.
    ///
    /// # Errors
    ///
    /// The first write error.
    pub fn finish(&self) -> Result<(), CliError> {
        let mut files = self.0.borrow_mut();
        if let Some(message) = files.failed.take() {
            return Err(CliError::failed(message));
        }
        if let Some((path, mut out)) = files.trace.take() {
            out.flush().map_err(|error| write_error(&path, &error))?;
        }
        if let Some((path, out, _)) = files.pcap.take() {
            let written = out.finish().and_then(|mut out| out.flush());
            written.map_err(|error| write_error(&path, &error))?;
        }
        Ok(())
    }
}

fn write_error(path: &Path, error: &std::io::Error) -> CliError {
    CliError::failed(format!("cannot write {}: {error}", path.display()))
}

/// Writes the packet in a frame with synthetic station addresses. Frames are written when they are
/// offered to the medium, and again when they are lost.
fn write_packet(
    out: &mut PcapngWriter<BufWriter<File>>,
    interface: InterfaceId,
    observation: &Observation<'_>,
) -> std::io::Result<()> {
    let comment = match observation.event {
        PacketEvent::Offered => "",
        PacketEvent::Lost => "lost",
        PacketEvent::Dropped => "dropped by its sender",
        PacketEvent::Arrived | PacketEvent::Filtered | PacketEvent::Collided => return Ok(()),
    };
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0]);
    frame.extend((observation.from as u32).to_be_bytes());
    frame.extend(ETHERTYPE);
    frame.extend(observation.packet);
    out.packet(&PacketBlock {
        interface,
        at_ns: observation.at_ps / 1000,
        octets: &frame,
        original_len: frame.len(),
        direction: Some(Direction::Sent),
        comment,
    })
    .map(|_| ())
}
