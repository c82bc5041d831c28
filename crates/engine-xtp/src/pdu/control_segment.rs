//! Control segments (XTP 4.0 s. 4).

use super::{HEADER_LEN, Header, u32_at, u64_at};
use crate::numbers::SyncNumber;

/// Octets of a [`CommonControl`].
pub(super) const COMMON_LEN: usize = 20;

/// Octets of a CNTL.
const CNTL_LEN: usize = HEADER_LEN + COMMON_LEN;

/// Octets of a [`Span`].
pub const SPAN_LEN: usize = 16;

/// The common control segment of every control packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommonControl {
    /// Everything below was received.
    pub rseq: u64,
    /// Allocation: bytes from here on may not be sent.
    pub alloc: u64,
    /// The highest sync received.
    pub echo: SyncNumber,
}

impl CommonControl {
    pub(super) fn parse(body: &[u8]) -> Option<CommonControl> {
        Some(CommonControl {
            rseq: u64_at(body, 0)?,
            alloc: u64_at(body, 8)?,
            echo: SyncNumber(u32_at(body, 16)?),
        })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.octets());
    }

    fn octets(&self) -> [u8; COMMON_LEN] {
        let mut octets = [0; COMMON_LEN];
        octets[..8].copy_from_slice(&self.rseq.to_be_bytes());
        octets[8..16].copy_from_slice(&self.alloc.to_be_bytes());
        octets[16..].copy_from_slice(&self.echo.0.to_be_bytes());
        octets
    }

    /// A CNTL with this header, whose `dlen` and checksum over all of the packet are filled in.
    pub(crate) fn emit_cntl(&self, header: &Header) -> [u8; CNTL_LEN] {
        let mut octets = [0; CNTL_LEN];
        let body = self.octets();
        octets[..HEADER_LEN].copy_from_slice(&header.emit_before(&body));
        octets[HEADER_LEN..].copy_from_slice(&body);
        octets
    }
}

/// A range of sequence numbers, from `left` to before `right`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first byte.
    pub left: u64,
    /// The number after the last byte.
    pub right: u64,
}

/// The spans of a packet as received, not checked for order or overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spans<'a>(pub(super) &'a [u8]);

impl<'a> Spans<'a> {
    /// No spans.
    pub const EMPTY: Spans<'static> = Spans(&[]);

    /// The spans in `octets`, each of [`SPAN_LEN`]; None when the last is incomplete.
    pub fn new(octets: &'a [u8]) -> Option<Spans<'a>> {
        octets
            .len()
            .is_multiple_of(SPAN_LEN)
            .then_some(Spans(octets))
    }

    /// Number of spans.
    pub fn len(&self) -> usize {
        self.0.len() / SPAN_LEN
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over the spans.
    pub fn iter(&self) -> impl Iterator<Item = Span> + use<'a> {
        let (chunks, _) = self.0.as_chunks::<SPAN_LEN>();
        chunks.iter().map(|chunk| Span {
            left: u64_at(chunk, 0).unwrap_or_default(),
            right: u64_at(chunk, 8).unwrap_or_default(),
        })
    }
}

/// The octets of `spans`, as [`Spans::new`] takes them.
pub(crate) fn span_octets(spans: &[Span]) -> Vec<u8> {
    let octets = |span: &Span| {
        let (left, right) = (span.left.to_be_bytes(), span.right.to_be_bytes());
        left.into_iter().chain(right)
    };
    spans.iter().flat_map(octets).collect()
}
