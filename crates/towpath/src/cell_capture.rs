//! The cells of an endpoint in the capture of its process.

use crate::process_capture::{Writer, locked, nanoseconds};
use capture::{CellWriter, CellsSeen, Direction};
use engine::{Address, Counters, Frames, Instant, Layer, Path, Received};
use std::collections::BTreeMap;
use std::time::SystemTime;

/// Paths that are captured, each way. Cells of a stranger make one.
const PATHS_MAX: usize = 256;

/// A layer of cells, all of which are written to a capture: those of each path, each way, at an interface of their
/// own, so that PDUs of different senders are not mixed.
pub(crate) struct CapturedCells {
    layer: Box<dyn Layer + Send>,
    writer: Writer,
    is_aal5: bool,
    sent: BTreeMap<Path, CellWriter>,
    received: BTreeMap<Path, CellWriter>,
}

impl CapturedCells {
    pub(crate) fn new(layer: Box<dyn Layer + Send>, writer: Writer, is_aal5: bool) -> Self {
        CapturedCells {
            layer,
            writer,
            is_aal5,
            sent: BTreeMap::new(),
            received: BTreeMap::new(),
        }
    }

    /// Writes whole cells. A file that cannot be written ends the capture and not the traffic.
    fn write(&mut self, direction: Direction, path: Path, cells: &[u8]) {
        let (writers, word) = match direction {
            Direction::Sent => (&mut self.sent, "to"),
            Direction::Received => (&mut self.received, "from"),
        };
        let mut file = locked(&self.writer);
        if !writers.contains_key(&path) && writers.len() < PATHS_MAX {
            let name = format!("cells {word} {}", address(path.remote));
            if let Ok(writer) = CellWriter::new(&mut *file, &name, self.is_aal5) {
                writers.insert(path, writer);
            }
        }
        if let Some(writer) = writers.get_mut(&path) {
            let seen = CellsSeen {
                at_ns: nanoseconds(SystemTime::now()),
                direction: Some(direction),
                comment: "",
            };
            let _ = writer.write(&mut *file, &seen, cells);
        }
    }
}

fn address(address: Address) -> String {
    match address {
        Address::Socket(address) => address.to_string(),
        other => format!("{other:?}"),
    }
}

impl Layer for CapturedCells {
    fn handle_frame(
        &mut self,
        now: Instant,
        frame: Received<'_>,
        packets: &mut Vec<(Path, Vec<u8>)>,
    ) {
        self.write(Direction::Received, frame.path, frame.octets);
        self.layer.handle_frame(now, frame, packets);
    }

    fn poll_transmit(&mut self, now: Instant, frames_max: usize, frames: &mut Frames) {
        self.layer.poll_transmit(now, frames_max, frames);
        if let Some(path) = frames.path() {
            self.write(Direction::Sent, path, frames.octets());
        }
    }

    engine::forward! { self.layer;
        fn packet_max(&self) -> usize;
        fn frame_max(&self) -> usize;
        fn send(&mut self, now: Instant, path: Path, packet: &[u8]);
        fn recycle(&mut self, packet: Vec<u8>);
        fn poll_timeout(&self) -> Option<Instant>;
        fn handle_timeout(&mut self, now: Instant);
        fn counters(&self) -> Counters;
        fn named_counts(&self) -> Vec<(&'static str, u64)>;
    }
}
