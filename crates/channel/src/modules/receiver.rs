//! The receiver of a channel with modules.

use super::{Modules, PLACE_LEN, Verdict};
use crate::error::ChannelError;
use crate::geometry::{Geometry, RING_OCTETS_MAX};
use crate::ring::{Arrival, ChannelReceiver, ReceivedSlots};
use std::time::Duration;

/// What a receiver did not get, or left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Losses {
    /// Records that did not come, as [`super::Order`] finds out.
    pub missing: u64,
    /// Records that a module found damaged.
    pub damaged: u64,
    /// Messages of which a piece did not come.
    pub incomplete: u64,
}

/// What a receive brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receipt {
    /// A message of so many octets. What exceeds the buffer is in [`ModularReceiver::rest`] until the next receive.
    Message(usize),
    /// No message came in time.
    Nothing,
    /// The sender closed the channel, and all was received.
    End,
}

/// The end of a channel with modules that reads.
#[derive(Debug)]
pub struct ModularReceiver {
    channel: ChannelReceiver,
    modules: Modules,
    /// The copy of a record's header.
    header: Vec<u8>,
    pieces: Pieces,
    losses: Losses,
}

/// Pieces of the message that is reassembled, or a message that is longer than its buffer.
#[derive(Debug, Default)]
struct Pieces {
    message: Vec<u8>,
    /// Octets of `message` that its user has.
    taken: usize,
    /// Octets of the message that is reassembled, if there is one.
    expected: Option<usize>,
}

impl Pieces {
    /// Forgets the message; whether it was not whole.
    fn forget(&mut self) -> bool {
        self.message.clear();
        self.taken = 0;
        self.expected.take().is_some()
    }

    /// Copies the whole message into `buffer`, as much as fits.
    fn hand_out(&mut self, buffer: &mut [u8]) {
        self.taken = self.message.len().min(buffer.len());
        buffer[..self.taken].copy_from_slice(&self.message[..self.taken]);
    }
}

impl ModularReceiver {
    pub(super) fn new(channel: ChannelReceiver, modules: Modules) -> Self {
        Self {
            channel,
            header: vec![0; modules.header_len()],
            modules,
            pieces: Pieces::default(),
            losses: Losses::default(),
        }
    }

    /// The channel's geometry, which its opener chose.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        self.channel.geometry()
    }

    /// What did not come, or was left out.
    #[must_use]
    pub fn losses(&self) -> Losses {
        self.losses
    }

    /// System calls of this end since it was opened.
    #[must_use]
    pub fn system_calls(&self) -> u64 {
        self.channel.system_calls()
    }

    #[cfg(all(test, not(feature = "loom")))]
    pub(super) fn channel(&self) -> &ChannelReceiver {
        &self.channel
    }

    /// What the last message has beyond its buffer.
    #[must_use]
    pub fn rest(&self) -> &[u8] {
        match self.pieces.expected {
            Some(_) => &[],
            None => &self.pieces.message[self.pieces.taken..],
        }
    }

    /// Waits until a record or the end has come, for `limit` at most.
    ///
    /// # Errors
    /// Those of [`ChannelReceiver::look`].
    pub fn wait_for_record(&mut self, limit: Duration) -> Result<Arrival, ChannelError> {
        self.channel.wait_for_message(limit)
    }

    /// Copies the next message into `buffer`; waits for each record of it for `limit` at most.
    ///
    /// # Errors
    /// Those of [`ChannelReceiver::receive`], and [`ChannelError::Corrupt`] for a record that no correct sender sends.
    pub fn receive(&mut self, buffer: &mut [u8], limit: Duration) -> Result<Receipt, ChannelError> {
        loop {
            match self.channel.wait_for_message(limit)? {
                Arrival::Message => {}
                Arrival::Nothing => return Ok(Receipt::Nothing),
                Arrival::End => {
                    self.losses.incomplete += u64::from(self.pieces.forget());
                    return Ok(Receipt::End);
                }
            }
            let received = match self.modules.reassembles {
                true => self.take_piece(buffer)?,
                false => self.take_message(buffer)?,
            };
            if let Some(len) = received {
                return Ok(Receipt::Message(len));
            }
        }
    }

    /// The message of the next record, unless a module leaves it out. It is copied once where it fits.
    fn take_message(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, ChannelError> {
        let header_len = self.header.len();
        let Some(received) = self.channel.receive()? else {
            return Ok(None);
        };
        let len = read_header(&received, &mut self.header)?;
        self.pieces.forget();
        let record = if len <= buffer.len() {
            &mut buffer[..len]
        } else {
            self.pieces.message.resize(len, 0);
            &mut self.pieces.message[..]
        };
        received.read(header_len, record);
        drop(received);
        let verdict = self.modules.judge(record, &self.header);
        if !self.is_delivered(verdict)? {
            self.pieces.forget();
            return Ok(None);
        }
        self.pieces.hand_out(buffer);
        Ok(Some(len))
    }

    /// Adds the piece of the next record to its message; the message's length if it is whole now. Memory grows with what
    /// has come, not with what a record says of its message.
    fn take_piece(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, ChannelError> {
        let header_len = self.header.len();
        let Some(received) = self.channel.receive()? else {
            return Ok(None);
        };
        let piece_len = read_header(&received, &mut self.header)?;
        let (offset, len) = place(&self.header);
        if !is_possible(offset, piece_len, len) {
            return Err(corrupt("a message's length of", len));
        }
        let pieces = &mut self.pieces;
        let is_next = pieces.expected == Some(len) && offset == pieces.message.len() && offset > 0;
        if !is_next {
            self.losses.incomplete += u64::from(pieces.forget());
        }
        let before = pieces.message.len();
        pieces.message.resize(before + piece_len, 0);
        received.read(header_len, &mut pieces.message[before..]);
        drop(received);
        let headers = &self.header[PLACE_LEN..];
        let verdict = self.modules.judge(&pieces.message[before..], headers);
        let is_delivered = self.is_delivered(verdict)?;
        if !is_delivered || !(is_next || offset == 0) {
            // Further pieces of this message are left out: they have none before them.
            self.losses.incomplete += u64::from(is_next || offset == 0);
            self.pieces.forget();
            return Ok(None);
        }
        if self.pieces.message.len() < len {
            self.pieces.expected = Some(len);
            return Ok(None);
        }
        self.pieces.expected = None;
        self.pieces.hand_out(buffer);
        Ok(Some(len))
    }

    /// Counts what a module says; whether the record is delivered.
    fn is_delivered(&mut self, verdict: Verdict) -> Result<bool, ChannelError> {
        match verdict {
            Verdict::Deliver => Ok(true),
            Verdict::Missing(count) => {
                self.losses.missing += u64::from(count);
                Ok(true)
            }
            Verdict::Damaged => {
                self.losses.damaged += 1;
                Ok(false)
            }
            Verdict::Impossible => Err(corrupt(
                "a header that a module refuses, of octets",
                self.header.len(),
            )),
        }
    }
}

/// Copies a record's header; the octets behind it.
fn read_header(record: &ReceivedSlots<'_>, header: &mut [u8]) -> Result<usize, ChannelError> {
    record.read(0, header);
    let behind = record.len().checked_sub(header.len());
    behind.ok_or_else(|| corrupt("a record with octets of", record.len()))
}

/// Whether a correct sender cuts a message of `len` octets so.
fn is_possible(offset: usize, piece_len: usize, len: usize) -> bool {
    let is_within = offset.checked_add(piece_len).is_some_and(|end| end <= len);
    is_within && len as u64 <= RING_OCTETS_MAX && (piece_len > 0 || len == 0)
}

/// Where a piece lies, and the octets of its message.
fn place(header: &[u8]) -> (usize, usize) {
    let word = |at: usize| {
        let octets = [header[at], header[at + 1], header[at + 2], header[at + 3]];
        u32::from_ne_bytes(octets) as usize
    };
    (word(0), word(4))
}

fn corrupt(what: &'static str, value: usize) -> ChannelError {
    ChannelError::Corrupt {
        what,
        value: u32::try_from(value).unwrap_or(u32::MAX),
    }
}
