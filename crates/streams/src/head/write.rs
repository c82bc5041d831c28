//! write: octets to messages of the length that the module below takes.

use crate::error::Error;
use crate::message::Message;
use crate::module::Side;
use crate::runtime::{QueueId, Runtime, StreamId};

impl Runtime {
    /// Writes octets in messages no longer than the module below takes; returns how many it took.
    /// Nothing is sent for no octets.
    ///
    /// # Errors
    ///
    /// [`Error::WouldBlock`] when nothing was taken, and room is reported by [`Runtime::poll`];
    /// [`Error::Range`] for less than the least message; after a hang-up or M_ERROR what they say.
    pub fn write(&mut self, stream: StreamId, octets: &[u8]) -> Result<usize, Error> {
        let (head, level) = self.stream_and_level(stream)?;
        head.check_write()?;
        let (least, most) = head.packet();
        if octets.len() < least {
            return Err(Error::Range);
        }
        let headroom = head.options.write_offset.unwrap_or(0);
        let queue = QueueId::new(level, Side::Write);
        let mut done = 0;
        while done < octets.len() {
            if !self.can_put_next(queue, 0) {
                self.refuse_writer(stream);
                break;
            }
            let len = (octets.len() - done).min(most);
            let block = self.pool_mut().copy(headroom, &octets[done..done + len]);
            self.put_next(queue, Message::data(block));
            done += len;
        }
        match done {
            0 if !octets.is_empty() => Err(Error::WouldBlock),
            done => Ok(done),
        }
    }

    pub(super) fn refuse_writer(&mut self, stream: StreamId) {
        if let Ok((head, _)) = self.stream_and_level(stream) {
            head.writer_waits = true;
        }
    }
}
