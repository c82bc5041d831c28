//! Trace and packet capture of a run.

use crate::CliError;
use capture::{CellWriter, CellsSeen, Direction, InterfaceId, LinkType, PacketBlock, PcapngWriter};
use scenario::cells::AalWord;
use scenario::{Scenario, trace};
use sim::{Observation, PacketEvent};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Writers of trace and capture, shared with the observer of the network.
#[derive(Clone)]
pub struct PacketLogs(Rc<RefCell<LogFiles>>);

struct LogFiles {
    trace: Option<(PathBuf, BufWriter<File>)>,
    pcap: Option<(PathBuf, PacketFile)>,
    failed: Option<String>,
}

/// A capture file with the packets of all stations.
struct PacketFile {
    writer: PcapngWriter<BufWriter<File>>,
    /// The interface of those without cells.
    medium: InterfaceId,
    /// Stations that send cells.
    cells: BTreeMap<usize, CellWriter>,
    /// EtherTypes, a station each.
    ethertypes: Vec<[u8; 2]>,
}

/// The EtherType of a protocol: VMTP's (that of the V kernel), and that of XTP for those that have none.
fn ethertype(protocol: &str) -> [u8; 2] {
    match protocol {
        "vmtp" => [0x80, 0x5b],
        _ => [0x81, 0x7d],
    }
}

impl PacketLogs {
    /// Creates the given files for a run of `scenario`.
    ///
    /// # Errors
    ///
    /// When one cannot be created.
    pub fn open(
        trace: Option<&Path>,
        pcap: Option<&Path>,
        scenario: &Scenario,
    ) -> Result<PacketLogs, CliError> {
        let create = |path: &Path| {
            let file = File::create(path).map_err(|error| write_error(path, &error))?;
            Ok::<_, CliError>(BufWriter::new(file))
        };
        let trace = trace
            .map(|path| Ok::<_, CliError>((path.to_owned(), create(path)?)))
            .transpose()?;
        let pcap = pcap
            .map(|path| {
                let file = PacketFile::begin(create(path)?, scenario);
                let file = file.map_err(|error| write_error(path, &error))?;
                Ok::<_, CliError>((path.to_owned(), file))
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
        if let Some((path, file)) = pcap
            && let Err(error) = file.write(observation)
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
        if let Some((path, file)) = files.pcap.take() {
            let written = file.writer.finish().and_then(|mut out| out.flush());
            written.map_err(|error| write_error(&path, &error))?;
        }
        Ok(())
    }
}

fn write_error(path: &Path, error: &std::io::Error) -> CliError {
    CliError::failed(format!("cannot write {}: {error}", path.display()))
}

impl PacketFile {
    fn begin(out: BufWriter<File>, scenario: &Scenario) -> std::io::Result<PacketFile> {
        let comment = "simulated; times from the start of the run";
        let mut writer = PcapngWriter::new(out, comment, Default::default())?;
        let medium = writer.interface("medium", LinkType::Ethernet, 0, "")?;
        let each = scenario.station.iter();
        let each = each.flat_map(|spec| std::iter::repeat_n(&spec.cells, spec.count as usize));
        let ethertypes = scenario.station.iter();
        let ethertypes = ethertypes.flat_map(|spec| {
            std::iter::repeat_n(
                ethertype(spec.engine.protocol.get_ref()),
                spec.count as usize,
            )
        });
        let mut cells = BTreeMap::new();
        for (station, cells_spec) in each.enumerate() {
            if let Some(spec) = cells_spec {
                let is_aal5 = spec.get_ref().aal == AalWord::Aal5;
                let name = format!("cells of station {station}");
                cells.insert(station, CellWriter::new(&mut writer, &name, is_aal5)?);
            }
        }
        Ok(PacketFile {
            writer,
            medium,
            cells,
            ethertypes: ethertypes.collect(),
        })
    }

    /// Writes the packet in a frame with synthetic station addresses, or its cells. Frames are written
    /// when they are offered to the medium, and again when they are lost.
    fn write(&mut self, observation: &Observation<'_>) -> std::io::Result<()> {
        let comment = match observation.event {
            PacketEvent::Offered => "",
            PacketEvent::Lost => "lost",
            PacketEvent::Dropped => "dropped by its sender",
            PacketEvent::Arrived
            | PacketEvent::Filtered
            | PacketEvent::Collided
            | PacketEvent::RingsBegan
            | PacketEvent::RingsEnded => return Ok(()),
        };
        let (at_ns, direction) = (observation.at_ps / 1000, Some(Direction::Sent));
        if let Some(cells) = self.cells.get_mut(&observation.from) {
            let seen = CellsSeen {
                at_ns,
                direction,
                comment,
            };
            return match observation.event {
                PacketEvent::Offered => cells.write(&mut self.writer, &seen, observation.packet),
                // Not a second time part of its PDU.
                _ => cells.write_cells(&mut self.writer, &seen, observation.packet),
            };
        }
        let mut frame = vec![0xff; 6];
        frame.extend([2, 0]);
        frame.extend((observation.from as u32).to_be_bytes());
        frame.extend(self.ethertypes[observation.from]);
        frame.extend(observation.packet);
        let block = PacketBlock {
            interface: self.medium,
            at_ns,
            octets: &frame,
            original_len: frame.len(),
            direction,
            comment,
        };
        self.writer.packet(&block).map(|_| ())
    }
}
