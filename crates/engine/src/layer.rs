//! What lies below a protocol: packets to frames and back.

use crate::{Counters, Instant, Path, Received};

/// Frames of one path on their way to a wire, all of the same size but the last.
#[derive(Debug, Default)]
pub struct Frames {
    path: Option<Path>,
    frame_len: usize,
    octets: Vec<u8>,
}

impl Frames {
    /// Forgets the frames; the memory stays.
    pub fn clear(&mut self) {
        self.path = None;
        self.frame_len = 0;
        self.octets.clear();
    }

    /// Adds a frame to `path`. The caller keeps the rule of equal sizes, which is checked in debug
    /// builds: only the last frame may be shorter.
    pub fn push(&mut self, path: Path, frame: &[u8]) {
        debug_assert!(
            self.path.is_none_or(|known| known == path),
            "a batch has one path"
        );
        if self.octets.is_empty() {
            self.frame_len = frame.len();
        }
        debug_assert!(frame.len() <= self.frame_len);
        debug_assert!(self.octets.len().is_multiple_of(self.frame_len.max(1)));
        self.path = Some(path);
        self.octets.extend_from_slice(frame);
    }

    /// Where the frames go; None without any.
    pub fn path(&self) -> Option<Path> {
        self.path
    }

    /// Octets of each frame but the last.
    pub fn frame_len(&self) -> usize {
        self.frame_len
    }

    /// All frames, one behind the other.
    pub fn octets(&self) -> &[u8] {
        &self.octets
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.octets.is_empty()
    }
}

/// A function of its inputs, as a [`crate::Protocol`] is, that carries packets in frames of its own:
/// cells, fragments. It stands between a protocol and a wire, or a medium of the simulator.
pub trait Layer {
    /// Octets of the longest packet it carries.
    fn packet_max(&self) -> usize;

    /// Octets of its longest frame.
    fn frame_max(&self) -> usize;

    /// Takes a packet on its way out.
    fn send(&mut self, now: Instant, path: Path, packet: &[u8]);

    /// Takes a frame that arrived; packets that are whole now are appended to `packets`. The frame is
    /// hostile until shown otherwise.
    fn handle_frame(
        &mut self,
        now: Instant,
        frame: Received<'_>,
        packets: &mut Vec<(Path, Vec<u8>)>,
    );

    /// Takes back the memory of a packet that it gave, to use it for another. A host that keeps packets for long, or
    /// hands them on, need not give them back.
    fn recycle(&mut self, packet: Vec<u8>);

    /// Fills `frames` (empty when given) with the next frames of one path, at most `frames_max` of
    /// them.
    fn poll_transmit(&mut self, now: Instant, frames_max: usize, frames: &mut Frames);

    /// When [`handle_timeout`](Layer::handle_timeout) wants to be called.
    fn poll_timeout(&self) -> Option<Instant>;

    /// The timeout has come.
    fn handle_timeout(&mut self, now: Instant);

    /// Frames instead of packets: what was built, parsed and discarded.
    fn counters(&self) -> Counters;

    /// What it counts of its own, each under the name it has in results (lower case, `_` between
    /// words); empty for a layer that counts frames alone. The counts only grow.
    fn named_counts(&self) -> Vec<(&'static str, u64)>;
}

/// A layer that does not fit between an engine and what is below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerMisfit {
    /// The engine builds longer packets than the layer carries.
    PacketTooLong {
        /// Octets of the engine's longest packet.
        packet_max: usize,
        /// Octets of the longest packet the layer carries.
        layer_max: usize,
    },
    /// The layer builds longer frames than the wire takes.
    FrameTooLong {
        /// Octets of the layer's longest frame.
        frame_max: usize,
        /// Octets of the longest frame the wire takes.
        wire_max: usize,
    },
}

impl core::fmt::Display for LayerMisfit {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            LayerMisfit::PacketTooLong {
                packet_max,
                layer_max,
            } => write!(
                f,
                "the engine builds packets of {packet_max} octets and the layer carries \
                 {layer_max}; use shorter packets"
            ),
            LayerMisfit::FrameTooLong {
                frame_max,
                wire_max,
            } => write!(
                f,
                "the layer builds frames of {frame_max} octets and the wire takes {wire_max}; use \
                 shorter frames"
            ),
        }
    }
}

impl std::error::Error for LayerMisfit {}

/// Checks that packets of at most `packet_max` octets fit `layer`, and its frames a wire that takes
/// `wire_max` octets.
///
/// # Errors
///
/// What does not fit.
pub fn check_fit(
    layer: &(impl Layer + ?Sized),
    packet_max: usize,
    wire_max: usize,
) -> Result<(), LayerMisfit> {
    let (layer_max, frame_max) = (layer.packet_max(), layer.frame_max());
    if packet_max > layer_max {
        return Err(LayerMisfit::PacketTooLong {
            packet_max,
            layer_max,
        });
    }
    if frame_max > wire_max {
        return Err(LayerMisfit::FrameTooLong {
            frame_max,
            wire_max,
        });
    }
    Ok(())
}
