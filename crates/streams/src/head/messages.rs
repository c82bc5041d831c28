//! getpmsg and putpmsg: messages with their control and data parts.

use crate::block::Block;
use crate::error::Error;
use crate::message::{Message, MessageKind};
use crate::module::Side;
use crate::runtime::{QueueId, Runtime, StreamId};

/// Priority of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Before all, whatever flow control says (MSG_HIPRI).
    High,
    /// In this band (MSG_BAND).
    Band(u8),
}

/// Which message a get wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// The first one (MSG_ANY).
    Any,
    /// One of high priority (MSG_HIPRI).
    High,
    /// One of this band or above (MSG_BAND).
    Band(u8),
}

/// What a get put into the buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Got {
    /// Its priority.
    pub priority: Priority,
    /// Octets of the control part; None when there is none.
    pub control: Option<usize>,
    /// Octets of the data part; None when there is none.
    pub data: Option<usize>,
    /// The rest of the control part comes with the next get (MORECTL).
    pub more_control: bool,
    /// The rest of the data part comes with the next get (MOREDATA).
    pub more_data: bool,
}

impl Runtime {
    /// Sends a message. Without both parts nothing is sent.
    ///
    /// # Errors
    ///
    /// [`Error::WouldBlock`] when the queue below is full for its band, [`Error::Range`] when the
    /// data part is not of the lengths that the module below takes, [`Error::Invalid`] for high
    /// priority without a control part; after a hang-up or M_ERROR what they say.
    pub fn put_message(
        &mut self,
        stream: StreamId,
        control: Option<&[u8]>,
        data: Option<&[u8]>,
        priority: Priority,
    ) -> Result<(), Error> {
        let (head, _) = self.stream_and_level(stream)?;
        let (least, most) = head.packet();
        if data.is_some_and(|data| data.len() < least || data.len() > most) {
            return Err(Error::Range);
        }
        let headroom = head.options.write_offset.unwrap_or(0);
        if control.is_none() && (priority == Priority::High || data.is_none()) {
            return match priority {
                Priority::High => Err(Error::Invalid("high priority needs a control part")),
                Priority::Band(_) => Ok(()),
            };
        }
        let level = self.check_priority(stream, priority)?;
        let pool = self.pool_mut();
        let mut message = Message::new(match (priority, control) {
            (Priority::High, _) => MessageKind::HighProto,
            (_, Some(_)) => MessageKind::Proto,
            (_, None) => MessageKind::Data,
        });
        message.control = control.map(|control| pool.copy(0, control));
        message
            .data
            .extend(data.map(|data| pool.copy(headroom, data)));
        self.send(stream, level, message, priority);
        Ok(())
    }

    /// Sends a message whose blocks the caller made, without a copy. What it weighs is not checked
    /// against lengths of packets.
    ///
    /// # Errors
    ///
    /// The message comes back: with [`Error::WouldBlock`] when the queue below is full for its band;
    /// after a hang-up or M_ERROR with what they say.
    pub fn put_blocks(
        &mut self,
        stream: StreamId,
        message: Message,
    ) -> Result<(), (Error, Message)> {
        let priority = match message.kind().is_high_priority() {
            true => Priority::High,
            false => Priority::Band(message.band()),
        };
        match self.check_priority(stream, priority) {
            Ok(level) => {
                self.send(stream, level, message, priority);
                Ok(())
            }
            Err(error) => Err((error, message)),
        }
    }

    fn check_priority(&mut self, stream: StreamId, priority: Priority) -> Result<u32, Error> {
        let (head, level) = self.stream_and_level(stream)?;
        head.check_write()?;
        match priority {
            Priority::High => Ok(level),
            Priority::Band(band) => self.check_band(stream, band),
        }
    }

    /// The level of a head whose users may write to a band now.
    /// Fails with [`Error::WouldBlock`] when they may not, which is noted; what a hang-up or M_ERROR says.
    #[inline]
    pub(super) fn check_band(&mut self, stream: StreamId, band: u8) -> Result<u32, Error> {
        let (head, level) = self.stream_and_level(stream)?;
        head.check_write()?;
        if self.can_put_next(QueueId::new(level, Side::Write), band) {
            return Ok(level);
        }
        self.refuse_writer(stream);
        Err(Error::WouldBlock)
    }

    fn send(&mut self, stream: StreamId, level: u32, message: Message, priority: Priority) {
        let message = match priority {
            Priority::High => message,
            Priority::Band(band) => message.in_band(band),
        };
        self.send_down(stream, level, message);
    }

    /// Gets a message into two buffers. What does not fit stays for the next get, as a message of
    /// its own kind.
    ///
    /// # Errors
    ///
    /// [`Error::WouldBlock`] when no such message is in front, [`Error::HungUp`] after the last one
    /// of a stream that hung up, after M_ERROR what it says.
    pub fn get_message(
        &mut self,
        stream: StreamId,
        control: &mut [u8],
        data: &mut [u8],
        want: Want,
    ) -> Result<Got, Error> {
        let mut message = self.take_blocks(stream, want)?;
        let priority = match message.kind().is_high_priority() {
            true => Priority::High,
            false => Priority::Band(message.band()),
        };
        let control_len = message
            .control
            .as_ref()
            .map(|part| part.len().min(control.len()));
        if let (Some(part), Some(len)) = (&mut message.control, control_len) {
            control[..len].copy_from_slice(&part.octets()[..len]);
            part.keep(len..part.len());
        }
        let had_data = !message.data.is_empty();
        let data_len = message.copy_data(0, data);
        message.trim_front(data_len, self.pool_mut());
        let got = Got {
            priority,
            control: control_len,
            data: had_data.then_some(data_len),
            more_control: message
                .control
                .as_ref()
                .is_some_and(|part| !part.is_empty()),
            more_data: message.data_octets() > 0,
        };
        self.keep_rest(stream, message, got)?;
        Ok(got)
    }

    /// Takes the first message with its blocks, without a copy: the caller releases them.
    /// Errors are those of [`Runtime::get_message`]; [`Error::BadMessage`] when something that was passed is in
    /// front.
    pub fn take_blocks(&mut self, stream: StreamId, want: Want) -> Result<Message, Error> {
        let (head, level) = self.stream_and_level(stream)?;
        head.check_read()?;
        if let Some(high) = head.high.take() {
            return Ok(high);
        }
        let queue = QueueId::new(level, Side::Read);
        let wanted = |message: &Message| match want {
            Want::Any => true,
            Want::High => false,
            Want::Band(least) => message.band() >= least,
        };
        let first = self.queue(queue).first();
        if first.is_some_and(|first| first.kind() == MessageKind::PassDescriptor) {
            // What was passed is taken by `take_passed` alone.
            return Err(Error::BadMessage);
        }
        if first.is_some_and(wanted) {
            return self.get(queue).ok_or(Error::WouldBlock);
        }
        let nothing = self.queue(queue).is_empty();
        // The reader found nothing: the next message is news.
        if nothing {
            self.get(queue);
            self.reader_waits(stream)?;
            return Err(Error::HungUp);
        }
        Err(Error::WouldBlock)
    }

    /// Puts a message that was taken from the head back in front of those of its class (putbq), or, with high priority,
    /// where it was held.
    ///
    /// # Errors
    ///
    /// No such stream.
    pub fn return_blocks(&mut self, stream: StreamId, message: Message) -> Result<(), Error> {
        let (head, level) = self.stream_and_level(stream)?;
        if message.kind() == MessageKind::HighProto {
            head.high = Some(message);
        } else {
            self.put_back(QueueId::new(level, Side::Read), message);
        }
        Ok(())
    }

    fn keep_rest(&mut self, stream: StreamId, mut message: Message, got: Got) -> Result<(), Error> {
        if !got.more_control && !got.more_data {
            message.release(self.pool_mut());
            return Ok(());
        }
        if !got.more_control {
            let read: Option<Block> = message.control.take();
            if let Some(read) = read {
                self.pool_mut().release(read);
            }
        }
        let (head, level) = self.stream_and_level(stream)?;
        if got.priority == Priority::High {
            head.high = Some(message);
            return Ok(());
        }
        let kind = if got.more_control {
            MessageKind::Proto
        } else {
            MessageKind::Data
        };
        let rest = message.into_kind(kind);
        self.put_back(QueueId::new(level, Side::Read), rest);
        Ok(())
    }
}
