//! write: octets to messages of the length that the module below takes.

use crate::error::Error;
use crate::message::Message;
use crate::module::Side;
use crate::runtime::{QueueId, Runtime, StreamId};

/// A write longer than this part of a message that collects goes by itself.
const HELD_SHARE: usize = 4;

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
        let hold = head.options.hold.unwrap_or(0).min(most);
        if octets.len() <= hold / HELD_SHARE {
            return self.collect(stream, octets, hold);
        }
        self.send_collected(stream);
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

    /// Adds a short write to those before it. What is collected leaves when it is full, and with the next run.
    #[inline]
    fn collect(&mut self, stream: StreamId, octets: &[u8], hold: usize) -> Result<usize, Error> {
        let (_, level) = self.stream_and_level(stream)?;
        if octets.is_empty() {
            return Ok(0);
        }
        if !self.can_put_next(QueueId::new(level, Side::Write), 0) {
            self.refuse_writer(stream);
            return Err(Error::WouldBlock);
        }
        let (head, _) = self.stream_and_level(stream)?;
        let block = head.collected.as_mut().map(|message| &mut message.data[0]);
        let done = block.map_or(0, |block| block.append(octets));
        if done < octets.len() {
            self.send_collected(stream);
            self.begin_collection(stream, &octets[done..], hold)?;
        }
        Ok(octets.len())
    }

    fn begin_collection(
        &mut self,
        stream: StreamId,
        octets: &[u8],
        hold: usize,
    ) -> Result<(), Error> {
        let (head, level) = self.stream_and_level(stream)?;
        let headroom = head.options.write_offset.unwrap_or(0);
        let mut block = self.pool_mut().allocate(headroom, hold);
        block.append(octets);
        let (head, _) = self.stream_and_level(stream)?;
        head.collected = Some(Message::data(block));
        self.schedule_head(level);
        Ok(())
    }

    /// What was collected leaves.
    pub(crate) fn send_collected(&mut self, stream: StreamId) {
        let Ok((head, level)) = self.stream_and_level(stream) else {
            return;
        };
        if let Some(collected) = head.collected.take() {
            self.put_next(QueueId::new(level, Side::Write), collected);
        }
    }

    /// Sends a message down, behind what was collected.
    pub(super) fn send_down(&mut self, stream: StreamId, level: u32, message: Message) {
        self.send_collected(stream);
        self.put_next(QueueId::new(level, Side::Write), message);
    }

    pub(super) fn refuse_writer(&mut self, stream: StreamId) {
        if let Ok((head, _)) = self.stream_and_level(stream) {
            head.writer_waits = true;
        }
    }
}
