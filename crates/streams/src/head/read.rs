//! read: messages to octets.

use super::{ReadControl, ReadMode};
use crate::error::Error;
use crate::message::{Message, MessageKind};
use crate::module::Side;
use crate::runtime::{QueueId, Runtime, StreamId};

impl Runtime {
    /// Reads octets; returns how many. 0: the end after a hang-up, or an empty message.
    ///
    /// # Errors
    ///
    /// [`Error::WouldBlock`] when nothing is there; [`Error::BadMessage`] when a control part is in
    /// front and reads refuse them; after M_ERROR what it says.
    pub fn read(&mut self, stream: StreamId, buffer: &mut [u8]) -> Result<usize, Error> {
        let (head, level) = self.stream_and_level(stream)?;
        head.check_read()?;
        let mode = head.options.read_mode.unwrap_or_default();
        let control = head.options.read_control.unwrap_or_default();
        self.read_high(stream, control)?;
        let queue = QueueId::new(level, Side::Read);
        let mut done = 0;
        while done < buffer.len() {
            let Some(message) = self.get(queue) else {
                return self.read_nothing(stream, done);
            };
            let Some(message) = self.treat_control(queue, message, control, done)? else {
                break;
            };
            if message.data_octets() == 0 {
                return Ok(self.empty_message(queue, message, done));
            }
            done += self.read_message(queue, message, mode, &mut buffer[done..]);
            if mode != ReadMode::Octets {
                break;
            }
        }
        Ok(done)
    }

    /// What is held with high priority, before all else: None is left of it.
    fn read_high(&mut self, stream: StreamId, control: ReadControl) -> Result<(), Error> {
        let (head, level) = self.stream_and_level(stream)?;
        let Some(high) = head.high.take() else {
            return Ok(());
        };
        match control {
            ReadControl::Refuse => {
                head.high = Some(high);
                Err(Error::BadMessage)
            }
            ReadControl::AsData => {
                let message = control_as_data(high);
                self.put_back(QueueId::new(level, Side::Read), message);
                Ok(())
            }
            ReadControl::Discard => {
                high.release(self.pool_mut());
                Ok(())
            }
        }
    }

    /// The message with its control part treated as told. None: it ends the read and stays.
    fn treat_control(
        &mut self,
        queue: QueueId,
        mut message: Message,
        control: ReadControl,
        done: usize,
    ) -> Result<Option<Message>, Error> {
        if message.kind() == MessageKind::Data {
            return Ok(Some(message));
        }
        match control {
            ReadControl::AsData if message.kind() == MessageKind::Proto => {
                Ok(Some(control_as_data(message)))
            }
            ReadControl::Discard if message.kind() == MessageKind::Proto => {
                if let Some(block) = message.control.take() {
                    self.pool_mut().release(block);
                }
                Ok(Some(message.into_kind(MessageKind::Data)))
            }
            _ => {
                self.put_back(queue, message);
                if done > 0 {
                    Ok(None)
                } else {
                    Err(Error::BadMessage)
                }
            }
        }
    }

    /// An empty message is the end of a file: it ends a read that has octets, and stays for the next.
    fn empty_message(&mut self, queue: QueueId, message: Message, done: usize) -> usize {
        if done > 0 {
            self.put_back(queue, message);
        } else {
            message.release(self.pool_mut());
        }
        done
    }

    fn read_message(
        &mut self,
        queue: QueueId,
        mut message: Message,
        mode: ReadMode,
        buffer: &mut [u8],
    ) -> usize {
        let len = message.copy_data(0, buffer);
        if len == message.data_octets() || mode == ReadMode::MessageOrLose {
            message.release(self.pool_mut());
        } else {
            message.trim_front(len, self.pool_mut());
            self.put_back(queue, message);
        }
        len
    }

    fn read_nothing(&mut self, stream: StreamId, done: usize) -> Result<usize, Error> {
        if done > 0 {
            return Ok(done);
        }
        self.reader_waits(stream)?;
        Ok(0)
    }

    /// Nothing is there to read: the end, or the modules below hear that a reader waits.
    /// Fails with [`Error::WouldBlock`] unless the stream hung up.
    pub(crate) fn reader_waits(&mut self, stream: StreamId) -> Result<(), Error> {
        let (head, level) = self.stream_and_level(stream)?;
        if head.hung_up {
            return Ok(());
        }
        if head.options.notify_readers == Some(true) {
            let queue = QueueId::new(level, Side::Write);
            self.put_next(queue, Message::new(MessageKind::ReaderWaits));
        }
        Err(Error::WouldBlock)
    }
}

/// The octets of the control part in front of those of the data.
fn control_as_data(mut message: Message) -> Message {
    if let Some(control) = message.control.take() {
        message.data.insert(0, control);
    }
    message.into_kind(MessageKind::Data)
}
