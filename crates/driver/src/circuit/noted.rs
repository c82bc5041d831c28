//! Messages with notes, and messages that are written where they are sent from.

use super::Circuit;
use crate::failed::FailedMessage;
use crate::sys::Reserved;
use engine::{Associations, Framing, Note};
use std::io;
use std::time::Duration;
use wire::Wire;

impl<E: Associations, W: Wire> Circuit<E, W> {
    /// Sends one message with a note if there is room. A note that says nothing makes it
    /// [`try_send`](Circuit::try_send).
    ///
    /// # Errors
    ///
    /// `Unsupported` when the note says something that the protocol does not carry, else as
    /// [`try_send`](Circuit::try_send).
    pub fn try_send_noted(&mut self, message: &[u8], note: &Note) -> io::Result<()> {
        if note.is_plain() {
            return self.try_send(message);
        }
        self.check_note(note)?;
        let tags = [note.tag, note.end_tag].map(|tag| {
            let among_bytes = tag.filter(|_| self.notes.tags_are_data);
            among_bytes.map(u64::to_be_bytes)
        });
        let [front, back] = tags.each_ref().map(|tag| tag.as_slice().as_flattened());
        let pieces = [front, message, back];
        let len = front.len() + message.len() + back.len();
        self.append_with_room(len, |producer| producer.append_noted(pieces, *note))?;
        self.submit_if_due()
    }

    /// Sends one message with a note, waiting for room up to `limit`.
    /// Errors are those of [`try_send_noted`](Circuit::try_send_noted), and `TimedOut`.
    pub fn send_noted(&mut self, message: &[u8], note: &Note, limit: Duration) -> io::Result<()> {
        self.retry_for_room(limit, |circuit| circuit.try_send_noted(message, note))
    }

    /// Reserves room for a message of `len` bytes, or for bytes of a stream, where they will be sent
    /// from; waits for it up to `limit`. The user writes all pieces, then calls
    /// [`commit`](Circuit::commit). Whatever is sent before that takes the place, and the
    /// reservation is gone. Errors are those of [`send`](Circuit::send).
    pub fn reserve(&mut self, len: usize, limit: Duration) -> io::Result<Reserved<'_>> {
        let framing = self.framing;
        self.retry_for_room(limit, |circuit| {
            circuit.require_no_unsent()?;
            circuit.append_with_room(len, |producer| producer.reserve(len, framing))
        })?;
        Ok(self.producer.reserved(framing))
    }

    /// Sends what was written where room was reserved last, as one message.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when nothing is reserved; `Unsupported` when the note says something that the
    /// protocol does not carry, or has a tag that travels among the bytes: the room for it was not
    /// reserved. The reservation stays after `Unsupported`. Else as
    /// [`try_send`](Circuit::try_send).
    pub fn commit(&mut self, note: &Note) -> io::Result<()> {
        self.check_note(note)?;
        if self.notes.tags_are_data && (note.tag.is_some() || note.end_tag.is_some()) {
            let text = "a tag of this protocol lies among the bytes, and no room was reserved for \
                        it; send the message with send_noted";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        if !self.producer.commit(self.framing, *note) {
            let text = "nothing is reserved, or something was sent since; reserve first";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        self.submit_if_due()
    }

    /// Has `write` put up to `len` bytes of a stream where they will be sent from, and sends what it says it wrote of
    /// them, from the front. Returns how many bytes those were. A store has room for half of it at once.
    ///
    /// # Errors
    ///
    /// `WouldBlock` without that room, `Unsupported` where boundaries are kept, those of `write`, which sends
    /// nothing then, else as [`try_send`](Circuit::try_send).
    pub fn try_fill(
        &mut self,
        len: usize,
        write: impl FnOnce(Reserved<'_>) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let framing = self.framing;
        if framing != Framing::Stream {
            let text = "a message has the length that was reserved for it; reserve and commit";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        self.require_no_unsent()?;
        let len = len.min(self.producer.message_max());
        self.append_with_room(len, |producer| producer.reserve(len, framing))?;
        let written = write(self.producer.reserved(framing));
        if !matches!(written, Ok(1..)) {
            let _pump = self.shared.lock()?;
            self.producer.give_up_reserved();
            return written;
        }
        let len = len.min(written?);
        self.producer.commit_front(len);
        self.submit_if_due()?;
        Ok(len)
    }

    /// From now on keeps the messages that are given up, and with an engine that reports them, those that
    /// the peer does not have when the circuit ends: for [`next_failed`](Circuit::next_failed).
    pub fn keep_failed(&mut self) {
        self.with_pump(|pump| pump.keep_failed(self.id));
    }

    /// The oldest message that was given up and not taken, also after the circuit ended.
    pub fn next_failed(&mut self) -> Option<FailedMessage> {
        self.with_pump(|pump| pump.next_failed(self.id))
    }

    /// Refuses a note that says something that the protocol does not carry.
    fn check_note(&self, note: &Note) -> io::Result<()> {
        let missing = self.notes.missing_for(note);
        let missing =
            missing.or((!note.is_plain() && self.framing != Framing::Messages).then_some("note"));
        match missing {
            None => Ok(()),
            Some(field) => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!("this circuit carries no {field} with a message; leave it out of the note"),
            )),
        }
    }
}
