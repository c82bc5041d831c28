//! Cells on their way to the wire: runs of one path, cut into frames.

use crate::pdu::cell::CELL_LEN;
use engine::{Frames, Path};
use std::collections::VecDeque;

/// Buffers kept for later runs: an endpoint that answers many peers has a run for each.
const SPARE_MAX: usize = 16;

#[derive(Debug)]
struct Run {
    path: Path,
    cells: Vec<u8>,
    /// Octets that have left.
    sent: usize,
}

/// The cells of packets, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    runs: VecDeque<Run>,
    spare: Vec<Vec<u8>>,
}

impl Outgoing {
    /// Where cells to `path` are appended.
    pub(crate) fn cells_to(&mut self, path: Path) -> &mut Vec<u8> {
        if self.runs.back().is_none_or(|run| run.path != path) {
            let cells = self.spare.pop().unwrap_or_default();
            let sent = 0;
            self.runs.push_back(Run { path, cells, sent });
        }
        let last = self.runs.len() - 1;
        &mut self.runs[last].cells
    }

    /// Fills `frames` with at most `frames_max` frames of `frame_cells` cells; how many.
    pub(crate) fn poll(
        &mut self,
        frame_cells: usize,
        frames_max: usize,
        frames: &mut Frames,
    ) -> u64 {
        let Some(run) = self.runs.front_mut() else {
            return 0;
        };
        let rest = &run.cells[run.sent..];
        let mut count = 0;
        for frame in rest.chunks(frame_cells * CELL_LEN).take(frames_max) {
            frames.push(run.path, frame);
            run.sent += frame.len();
            count += 1;
        }
        if run.sent == run.cells.len()
            && let Some(mut run) = self.runs.pop_front()
            && self.spare.len() < SPARE_MAX
        {
            run.cells.clear();
            self.spare.push(run.cells);
        }
        count
    }
}

/// Packets whose cells are to alternate.
#[derive(Debug, Default)]
pub(crate) struct Interleaver {
    path: Option<Path>,
    /// The cells of each packet.
    held: Vec<Vec<u8>>,
    spare: Vec<Vec<u8>>,
}

impl Interleaver {
    /// A buffer for the cells of one packet.
    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Whether a packet to `path` has to wait until those held have left.
    pub(crate) fn is_full(&self, path: Path, interleave: usize) -> bool {
        self.held.len() >= interleave || self.path.is_some_and(|held| held != path)
    }

    /// Holds the cells of a packet to `path`, which all others held go to too.
    pub(crate) fn hold(&mut self, path: Path, cells: Vec<u8>) {
        self.path = Some(path);
        self.held.push(cells);
    }

    /// Releases the cells held, one of each packet in turn. Short packets begin later, so that packets
    /// end in the order in which they were sent: protocols take one that comes early for a gap.
    pub(crate) fn release(&mut self, outgoing: &mut Outgoing) {
        let Some(path) = self.path.take() else {
            return;
        };
        let cells = outgoing.cells_to(path);
        let longest = self.held.iter().map(Vec::len).max().unwrap_or(0);
        for at in (0..longest).step_by(CELL_LEN) {
            for packet in &self.held {
                let cell = at.checked_sub(longest - packet.len());
                if let Some(start) = cell {
                    cells.extend_from_slice(&packet[start..start + CELL_LEN]);
                }
            }
        }
        for mut packet in self.held.drain(..) {
            packet.clear();
            self.spare.push(packet);
        }
    }
}
