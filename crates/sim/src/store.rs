//! The bytes a simulated user sends: computed from their position, so that they need no memory and
//! a receiver can check them.

use engine::{Framing, record};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::OnceLock;

/// A prime, so that it is no multiple of a packet size.
const PERIOD: usize = 65_521;

/// The byte at each position of a user's stream, twice over so that the bytes of any packet are one
/// slice.
#[derive(Clone, Debug)]
pub(crate) struct BytePattern(&'static [u8]);

impl BytePattern {
    pub(crate) fn new() -> BytePattern {
        static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
        BytePattern(BYTES.get_or_init(pattern_bytes))
    }

    /// The `len` bytes from `position` on; `len` is at most 65,536.
    pub(crate) fn at(&self, position: u64, len: usize) -> &[u8] {
        let start = (position % PERIOD as u64) as usize;
        &self.0[start..start + len]
    }
}

/// A period of random bytes, and 64 KiB of the next.
fn pattern_bytes() -> Vec<u8> {
    let byte = |index| engine::SplitMix64::at(0x70a7_4a11, index) as u8;
    let mut bytes: Vec<u8> = (0..PERIOD as u64).map(byte).collect();
    while bytes.len() < PERIOD + (1 << 16) {
        let more = bytes.len().min(PERIOD + (1 << 16) - bytes.len());
        bytes.extend_from_within(..more);
    }
    bytes
}

/// Send store of one circuit: written by its user and not yet released.
#[derive(Clone, Debug)]
pub(crate) struct SendStore {
    framing: Framing,
    payload: u64,
    /// Position behind the last byte.
    pub(crate) end: u64,
    /// User bytes written, without record headers.
    user: u64,
    /// Records: the bytes from `base` on.
    base: u64,
    records: VecDeque<u8>,
}

impl SendStore {
    pub(crate) fn new(framing: Framing, payload: usize) -> SendStore {
        SendStore {
            framing,
            payload: payload as u64,
            end: 0,
            user: 0,
            base: 0,
            records: VecDeque::new(),
        }
    }

    /// Appends `len` bytes of a message; `first` and `last` if it begins or ends with them.
    pub(crate) fn append(&mut self, pattern: &BytePattern, len: u64, first: bool, last: bool) {
        if self.framing == Framing::Records {
            self.append_record(pattern, len, first, last);
        } else {
            self.end += len;
        }
        self.user += len;
    }

    fn append_record(&mut self, pattern: &BytePattern, len: u64, first: bool, last: bool) {
        let (mut done, mut first) = (0, first);
        loop {
            let room = self.payload - self.end % self.payload;
            if room < record::FRAGMENT_ROOM_MIN as u64 {
                self.push(&[0; record::FRAGMENT_ROOM_MIN][..room as usize]);
                continue;
            }
            let part = (len - done).min(room - record::FRAGMENT_HEADER_LEN as u64);
            let ends = last && done + part == len;
            self.push(&record::fragment_header(part as usize, first, ends));
            self.push(pattern.at(self.user + done, part as usize));
            done += part;
            first = false;
            if done == len {
                return;
            }
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.records.extend(bytes);
        self.end += bytes.len() as u64;
    }

    /// Appends the bytes of `range` to `packet`.
    pub(crate) fn gather(&self, pattern: &BytePattern, range: Range<u64>, packet: &mut Vec<u8>) {
        let len = (range.end - range.start) as usize;
        if self.framing == Framing::Records {
            let from = range.start.saturating_sub(self.base) as usize;
            let (front, back) = self.records.as_slices();
            let split = from.min(front.len());
            let ahead = &front[split..front.len().min(split + len)];
            packet.extend_from_slice(ahead);
            let start = (from - split).min(back.len());
            let rest = (len - ahead.len()).min(back.len() - start);
            packet.extend_from_slice(&back[start..start + rest]);
        } else {
            packet.extend_from_slice(pattern.at(range.start, len));
        }
    }

    /// Bytes below this are released.
    pub(crate) fn released(&self) -> u64 {
        self.base
    }

    /// Releases the bytes below `position`.
    pub(crate) fn release(&mut self, position: u64) {
        if self.framing == Framing::Records {
            let gone = position.saturating_sub(self.base) as usize;
            self.records.drain(..gone.min(self.records.len()));
        }
        self.base = self.base.max(position);
    }
}
