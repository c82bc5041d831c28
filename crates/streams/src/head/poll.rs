//! poll: what can be done with a stream now.

use crate::error::Error;
use crate::module::Side;
use crate::runtime::{QueueId, Runtime, StreamId};

/// What a stream is ready for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// A message of any band can be read, or the end (POLLIN).
    pub input: bool,
    /// A message of a band above 0 is there (POLLRDBAND).
    pub band: bool,
    /// A message of high priority is there (POLLPRI).
    pub high: bool,
    /// Band 0 takes a message (POLLOUT). Never after a hang-up.
    pub output: bool,
    /// A module said M_ERROR (POLLERR).
    pub error: bool,
    /// The other end has gone (POLLHUP).
    pub hung_up: bool,
}

impl Runtime {
    /// What a stream is ready for. Who finds no room for output is noted as waiting for it.
    ///
    /// # Errors
    ///
    /// No such stream.
    pub fn poll(&mut self, stream: StreamId) -> Result<Readiness, Error> {
        let (head, level) = self.stream_and_level(stream)?;
        let mut ready = Readiness {
            high: head.high.is_some(),
            error: head.read_error != 0 || head.write_error != 0,
            hung_up: head.hung_up,
            ..Readiness::default()
        };
        let first = self.queue(QueueId::new(level, Side::Read)).first();
        ready.band = first.is_some_and(|message| message.band() > 0);
        ready.input = first.is_some() || ready.hung_up;
        ready.output = !ready.hung_up && self.can_put_next(QueueId::new(level, Side::Write), 0);
        if !ready.output {
            self.refuse_writer(stream);
        }
        Ok(ready)
    }

    /// MessageKind of the first message at the head, that of high priority before all.
    ///
    /// # Errors
    ///
    /// No such stream.
    pub fn first_kind(&mut self, stream: StreamId) -> Result<Option<crate::MessageKind>, Error> {
        let (head, level) = self.stream_and_level(stream)?;
        if head.high.is_some() {
            return Ok(Some(crate::MessageKind::HighProto));
        }
        let first = self.queue(QueueId::new(level, Side::Read)).first();
        Ok(first.map(crate::Message::kind))
    }

    /// Band of the first message of ordinary priority at the head.
    ///
    /// # Errors
    ///
    /// No such stream.
    pub fn first_band(&mut self, stream: StreamId) -> Result<Option<u8>, Error> {
        let (_, level) = self.stream_and_level(stream)?;
        let first = self.queue(QueueId::new(level, Side::Read)).first();
        Ok(first.map(crate::Message::band))
    }

    /// Whether a writer was refused and not woken since: it need not try.
    ///
    /// # Errors
    ///
    /// No such stream.
    pub fn writer_waits(&mut self, stream: StreamId) -> Result<bool, Error> {
        Ok(self.stream_and_level(stream)?.0.writer_waits)
    }

    /// Whether a band takes a message (I_CANPUT).
    ///
    /// # Errors
    ///
    /// No such stream.
    pub fn can_put(&mut self, stream: StreamId, band: u8) -> Result<bool, Error> {
        let (_, level) = self.stream_and_level(stream)?;
        Ok(self.can_put_next(QueueId::new(level, Side::Write), band))
    }

    /// Whether a user may write to a band now; who may not is noted as waiting for room.
    ///
    /// # Errors
    ///
    /// No such stream; after a hang-up or M_ERROR what they say.
    pub fn check_room(&mut self, stream: StreamId, band: u8) -> Result<bool, Error> {
        match self.check_band(stream, band) {
            Ok(_) => Ok(true),
            Err(Error::WouldBlock) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Messages that wait at the head, and the octets of data of the first (I_NREAD).
    ///
    /// # Errors
    ///
    /// No such stream.
    pub fn readable(&mut self, stream: StreamId) -> Result<(usize, usize), Error> {
        let (head, level) = self.stream_and_level(stream)?;
        let high = head.high.as_ref().map(crate::Message::data_octets);
        let queue = self.queue(QueueId::new(level, Side::Read));
        let first = queue.first().map(crate::Message::data_octets);
        let count = queue.len() + usize::from(high.is_some());
        Ok((count, high.or(first).unwrap_or(0)))
    }
}
