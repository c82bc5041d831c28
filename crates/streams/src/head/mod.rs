//! The stream head: where messages become what users read, and what they write becomes messages.
//!
//! * `read`, `write` - octets.
//! * `messages` - control and data parts (getpmsg, putpmsg).
//! * `requests` - M_IOCTL and its answer, flush.
//! * `poll`, `signals` - what can be done now, and what happened meanwhile.

mod messages;
mod poll;
mod read;
mod requests;
mod signals;
mod write;

pub use messages::{Got, Priority, Want};
pub use poll::Readiness;
pub use requests::Answer;
pub use signals::SignalEvents;

use crate::block::Pool;
use crate::error::Error;
use crate::message::{Extra, FlushRequest, FlushScope, HeadOptions, Message, MessageKind};
use crate::module::Side;
use crate::queue::Marks;
use crate::runtime::{QueueId, Runtime, StreamId};

/// Water marks of a head's read queue: those of the study's systems (65,536 and 8,192).
pub(crate) const HEAD_MARKS: Marks = match Marks::constant(65_536, 8192) {
    Some(marks) => marks,
    None => panic!("65,536 is above 8,192"),
};

/// Octets of the longest message that a write makes where no module says less (STRMAXPSZ).
const PACKET_MAX: usize = 65_536;

/// How reads treat the boundaries of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadMode {
    /// A stream of octets; an empty message ends a read (RNORM).
    #[default]
    Octets,
    /// One message a read; what does not fit is lost (RMSGD).
    MessageOrLose,
    /// One message a read; what does not fit comes with the next one (RMSGN).
    MessageAndKeep,
}

/// How reads treat control parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadControl {
    /// The read fails with EBADMSG (RPROTNORM).
    #[default]
    Refuse,
    /// They are read like data (RPROTDAT).
    AsData,
    /// They are dropped, the data behind them are read (RPROTDIS).
    Discard,
}

/// State of a stream head. Its messages of ordinary priority are in its read queue.
#[derive(Debug, Default)]
pub(crate) struct Head {
    options: HeadOptions,
    /// What the module below takes: least and most octets.
    packet: Option<(usize, usize)>,
    /// What was written in short pieces and waits for more.
    collected: Option<Message>,
    /// One message of high priority is held; further ones are dropped until it is read.
    high: Option<Message>,
    read_error: i32,
    write_error: i32,
    hung_up: bool,
    /// A writer was refused, and nobody has woken it yet.
    writer_waits: bool,
    signals: signals::Signals,
    request: requests::Request,
}

impl Head {
    pub(crate) fn set_packet(&mut self, packet: Option<(usize, usize)>) {
        self.packet = packet;
    }

    /// The message of high priority that is held.
    pub(crate) fn take_high(&mut self) -> Option<Message> {
        self.high.take()
    }

    pub(crate) fn release(self, pool: &mut Pool) {
        for message in [self.high, self.collected].into_iter().flatten() {
            message.release(pool);
        }
    }

    /// Least and most octets of a message that a write makes.
    fn packet(&self) -> (usize, usize) {
        let (least, most) = self.packet.unwrap_or((0, PACKET_MAX));
        let most = self.options.packet_max.unwrap_or(most).min(PACKET_MAX);
        (self.options.packet_min.unwrap_or(least), most.max(1))
    }

    /// Whether users may still write.
    pub(crate) fn check_write(&self) -> Result<(), Error> {
        match self {
            Head { write_error, .. } if *write_error != 0 => Err(Error::Failed(*write_error)),
            Head { hung_up: true, .. } => Err(Error::HungUp),
            _ => Ok(()),
        }
    }

    fn check_read(&self) -> Result<(), Error> {
        match self.read_error {
            0 => Ok(()),
            errno => Err(Error::Failed(errno)),
        }
    }
}

impl Runtime {
    /// Sets options of a head (I_SRDOPT, I_SWROPT, and what M_SETOPTS can).
    ///
    /// # Errors
    ///
    /// No such stream, or water marks of which the high one is below the low one.
    pub fn set_options(&mut self, stream: StreamId, options: HeadOptions) -> Result<(), Error> {
        let (head, level) = self.stream_and_level(stream)?;
        let old = head.options;
        let new = HeadOptions {
            read_mode: options.read_mode.or(old.read_mode),
            read_control: options.read_control.or(old.read_control),
            write_offset: options.write_offset.or(old.write_offset),
            packet_min: options.packet_min.or(old.packet_min),
            packet_max: options.packet_max.or(old.packet_max),
            high_water: options.high_water.or(old.high_water),
            low_water: options.low_water.or(old.low_water),
            notify_readers: options.notify_readers.or(old.notify_readers),
            hold: options.hold.or(old.hold),
        };
        let high = new.high_water.unwrap_or(HEAD_MARKS.high());
        let low = new.low_water.unwrap_or(HEAD_MARKS.low().min(high));
        let marks = Marks::new(high, low)
            .map_err(|_| Error::Invalid("the high water mark of the head is below the low one"))?;
        head.options = new;
        self.set_marks(QueueId::new(level, Side::Read), 0, marks);
        Ok(())
    }

    /// Those whom the queue below refused may write again.
    pub(crate) fn writable(&mut self, stream: StreamId) {
        if let Ok((head, _)) = self.stream_and_level(stream) {
            head.writer_waits = false;
            head.note(SignalEvents::OUTPUT | SignalEvents::OUTPUT_BAND);
        }
    }

    /// A message reaches the head.
    pub(crate) fn put_at_head(&mut self, stream: StreamId, message: Message) {
        let Ok((head, level)) = self.stream_and_level(stream) else {
            return message.release(self.pool_mut());
        };
        match message.kind() {
            MessageKind::Data | MessageKind::Proto | MessageKind::PassDescriptor => {
                head.signals.note_arrival(&message);
                self.put_queue(QueueId::new(level, Side::Read), message);
            }
            MessageKind::HighProto if head.high.is_none() => {
                head.note(SignalEvents::HIGH);
                head.high = Some(message);
            }
            MessageKind::Flush => self.flush_at_head(stream, message),
            MessageKind::HangUp => {
                head.hung_up = true;
                head.writer_waits = false;
                head.note(SignalEvents::HANG_UP);
            }
            MessageKind::Error => self.fail(stream, message),
            MessageKind::IoctlAck | MessageKind::IoctlNak => head.request.answer(message),
            MessageKind::Ioctl => {
                let refused = message.into_kind(MessageKind::IoctlNak);
                self.send_down(stream, level, refused);
            }
            MessageKind::SetOptions => {
                if let Some(Extra::Options(options)) = message.extra.as_deref() {
                    let _ = self.set_options(stream, *options);
                }
            }
            MessageKind::Signal | MessageKind::HighSignal => head.signals.note_sent(&message),
            _ => message.release(self.pool_mut()),
        }
    }

    fn flush_at_head(&mut self, stream: StreamId, message: Message) {
        let Some(&Extra::Flush(request)) = message.extra.as_deref() else {
            return;
        };
        let Ok((head, level)) = self.stream_and_level(stream) else {
            return;
        };
        if request.read {
            let high = if request.band.is_none() {
                head.high.take()
            } else {
                None
            };
            if let Some(high) = high {
                high.release(self.pool_mut());
            }
            let queue = QueueId::new(level, Side::Read);
            self.flush_queue(queue, request.band, FlushScope::Data);
        }
        if request.write {
            let down = FlushRequest {
                read: false,
                ..request
            };
            self.send_down(stream, level, Message::flush(down));
        }
    }

    /// M_ERROR: calls fail from now on, and what is on its way is dropped.
    fn fail(&mut self, stream: StreamId, message: Message) {
        let Some(&Extra::Errors { read, write }) = message.extra.as_deref() else {
            return;
        };
        let Ok((head, _)) = self.stream_and_level(stream) else {
            return;
        };
        head.read_error = read.unwrap_or(head.read_error);
        head.write_error = write.unwrap_or(head.write_error);
        head.writer_waits = false;
        let failed = (read.unwrap_or(0) != 0, write.unwrap_or(0) != 0);
        if failed.0 || failed.1 {
            head.note(SignalEvents::ERROR);
            let request = FlushRequest {
                read: failed.0,
                write: failed.1,
                band: None,
            };
            self.flush_at_head(stream, Message::flush(request));
        }
    }
}
