//! The circuit of a tree's transfer: frames in and out, and how long the peer may be silent.

use super::super::pace::PaceLimit;
use super::super::{HASH_TIMEOUT, PEER_TIMEOUT};
use super::frames::{FRAME_MAX, FrameError};
use crate::push::PushedStream;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

/// Octets that are received at once.
const INPUT_LEN: usize = 4 * FRAME_MAX;

/// Bytes a second at which a side hashes what it has, at least.
const HASH_BYTES_PER_S: u64 = 50_000_000;

/// Frames that came and were not taken, and octets to be sent.
pub(super) struct FrameStream {
    pub(super) circuit: PushedStream,
    input: Vec<u8>,
    /// The octets of `input` that were not taken.
    start: usize,
    end: usize,
    /// What is to be sent.
    pub(super) output: Vec<u8>,
    pace: PaceLimit,
    /// When octets last came, or were taken to be sent.
    moved_at: Instant,
}

impl FrameStream {
    pub(super) fn new(circuit: PushedStream) -> FrameStream {
        let now = Instant::now();
        FrameStream {
            circuit,
            input: vec![0; INPUT_LEN],
            start: 0,
            end: 0,
            output: Vec::with_capacity(2 * FRAME_MAX),
            pace: PaceLimit::new(now),
            moved_at: now,
        }
    }

    /// The octets that came and were not taken.
    pub(super) fn arrived(&self) -> &[u8] {
        &self.input[self.start..self.end]
    }

    /// Takes the octets of a frame.
    pub(super) fn take(&mut self, len: usize) {
        self.start += len;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Receives what there is, waiting up to `limit` for the first of it; false when nothing came.
    /// Fails with `UnexpectedEof` when the peer has ended its direction, else those of the circuit.
    pub(super) fn fill(&mut self, limit: Duration) -> io::Result<bool> {
        if self.end + FRAME_MAX > self.input.len() {
            self.input.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let room = &mut self.input[self.end..];
        let received = match limit.is_zero() {
            true => self.circuit.try_recv(room),
            false => self.circuit.recv(room, limit),
        };
        match received {
            Ok(Some(len)) => {
                self.end += len;
                self.note_moved(len);
                Ok(len > 0)
            }
            Ok(None) => {
                let text = "the peer ended the transfer before its end";
                Err(io::Error::new(ErrorKind::UnexpectedEof, text))
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Sends what waits, if there is room; false if there is none. Errors are those of the circuit.
    pub(super) fn send(&mut self) -> io::Result<bool> {
        if self.output.is_empty() {
            return Ok(true);
        }
        match self.circuit.try_send(&self.output) {
            Ok(()) => {
                self.note_moved(self.output.len());
                self.output.clear();
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Sends what waits, and waits for room for it. Fails with `TimedOut`, else those of the circuit.
    pub(super) fn send_all(&mut self) -> io::Result<()> {
        if !self.output.is_empty() {
            self.circuit.send(&self.output, PEER_TIMEOUT)?;
            self.note_moved(self.output.len());
            self.output.clear();
        }
        self.circuit.flush()
    }

    fn note_moved(&mut self, len: usize) {
        self.moved_at = Instant::now();
        self.pace.add(len);
    }

    /// Whether the peer is still there, and not only to hold a place; `hashed_bytes` is what it may have to read and
    /// hash before it says anything. Fails with `TimedOut`.
    pub(super) fn check(&mut self, hashed_bytes: u64) -> io::Result<()> {
        let now = Instant::now();
        let hashing = Duration::from_secs(hashed_bytes / HASH_BYTES_PER_S).min(HASH_TIMEOUT);
        if now.duration_since(self.moved_at) >= PEER_TIMEOUT + hashing {
            let text = "the peer says nothing any more; start the transfer again to resume it";
            return Err(io::Error::new(ErrorKind::TimedOut, text));
        }
        if !self.pace.is_kept(now, 0) && hashing.is_zero() {
            let text = "it goes slower than 1 KiB/s; start the transfer again later to resume it";
            return Err(io::Error::new(ErrorKind::TimedOut, text));
        }
        Ok(())
    }
}

/// A frame that is whole, or None; an invalid one is an error.
pub(super) fn whole<T>(decoded: Result<T, FrameError>) -> io::Result<Option<T>> {
    match decoded {
        Ok(frame) => Ok(Some(frame)),
        Err(FrameError::Incomplete) => Ok(None),
        Err(invalid) => Err(invalid.into()),
    }
}
