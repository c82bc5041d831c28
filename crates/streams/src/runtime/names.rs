//! Names of streams (fattach), and streams and descriptors that are passed over pipes (I_SENDFD).

use super::{Occupant, QueueId, Runtime, StreamId};
use crate::error::Error;
use crate::message::{Extra, Message, MessageKind};
use crate::module::Side;
use crate::modules::CONNLD;
use std::os::fd::OwnedFd;

/// What is passed over a pipe.
#[derive(Debug)]
pub enum Passed {
    /// A stream of the same runtime.
    Stream(StreamId),
    /// A descriptor of the system.
    Descriptor(OwnedFd),
}

/// EBUSY of fattach.
const BUSY: Error = Error::Failed(16);
/// ENOENT of an open or fdetach.
const NO_NAME: Error = Error::Failed(2);

impl Runtime {
    /// Gives a stream a name (fattach); it loses it when it closes.
    ///
    /// # Errors
    ///
    /// No such stream; EBUSY for a name that another has.
    pub fn attach(&mut self, stream: StreamId, name: &str) -> Result<(), Error> {
        self.check_unlinked(stream)?;
        if self.names.contains_key(name) {
            return Err(BUSY);
        }
        self.names.insert(name.to_owned(), stream);
        Ok(())
    }

    /// Takes a name away (fdetach).
    ///
    /// # Errors
    ///
    /// ENOENT for a name that no stream has.
    pub fn detach(&mut self, name: &str) -> Result<(), Error> {
        self.names.remove(name).map(drop).ok_or(NO_NAME)
    }

    /// Opens a stream by its name: the stream itself, or, where `connld` is on top of it, one end of a new pipe
    /// whose other end is passed to the far end of the named one.
    ///
    /// # Errors
    ///
    /// ENOENT for a name that no stream has; with `connld` what [`Runtime::pass`] says.
    pub fn open_name(&mut self, name: &str) -> Result<StreamId, Error> {
        let stream = *self.names.get(name).ok_or(NO_NAME)?;
        let top = self.stream(stream)?.modules.first().copied();
        let top = top.and_then(|level| self.with_module(level, |module, _| module.info().name));
        if top != Some(CONNLD) {
            return Ok(stream);
        }
        let (own, passed) = self.pipe();
        match self.pass(stream, Passed::Stream(passed)) {
            Ok(()) => Ok(own),
            Err((error, _)) => {
                self.remove_stream(own);
                self.remove_stream(passed);
                Err(error)
            }
        }
    }

    /// Passes a stream or a descriptor to the far end of a pipe (I_SENDFD). It goes past all modules.
    ///
    /// # Errors
    ///
    /// What was to be passed comes back: with [`Error::WouldBlock`] when the far head is full, [`Error::HungUp`] when
    /// it has closed, [`Error::Invalid`] for what is no pipe, or for one of its own ends.
    pub fn pass(&mut self, pipe: StreamId, passed: Passed) -> Result<(), (Error, Passed)> {
        let far = match self.far_end(pipe) {
            Ok(far) => far,
            Err(error) => return Err((error, passed)),
        };
        if let Passed::Stream(stream) = passed
            && (stream == pipe
                || self.check_unlinked(stream).is_err()
                || self.head_level(stream) == Some(far))
        {
            let error = Error::Invalid("this stream cannot be passed over this pipe");
            return Err((error, passed));
        }
        let queue = QueueId::new(far, Side::Read);
        if !self.queue_mut(queue).has_room(0) {
            return Err((Error::WouldBlock, passed));
        }
        let extra = match passed {
            Passed::Stream(stream) => Extra::Stream(stream),
            Passed::Descriptor(descriptor) => Extra::Descriptor(descriptor),
        };
        self.put_queue(
            queue,
            Message::with_extra(MessageKind::PassDescriptor, extra),
        );
        Ok(())
    }

    /// Takes what was passed and is in front (I_RECVFD). A stream that nobody takes closes with the pipe.
    ///
    /// # Errors
    ///
    /// [`Error::WouldBlock`] when nothing waits, [`Error::HungUp`] at the end, [`Error::BadMessage`] when something
    /// else is in front, after M_ERROR what it says.
    pub fn take_passed(&mut self, stream: StreamId) -> Result<Passed, Error> {
        match self.first_kind(stream)? {
            Some(MessageKind::PassDescriptor) => {}
            Some(_) => return Err(Error::BadMessage),
            None => {
                self.reader_waits(stream)?;
                return Err(Error::HungUp);
            }
        }
        let (_, level) = self.stream_and_level(stream)?;
        let mut message = self
            .get(QueueId::new(level, Side::Read))
            .ok_or(Error::WouldBlock)?;
        let passed = match message.extra.take().map(|extra| *extra) {
            Some(Extra::Stream(stream)) => Ok(Passed::Stream(stream)),
            Some(Extra::Descriptor(descriptor)) => Ok(Passed::Descriptor(descriptor)),
            _ => Err(Error::BadMessage),
        };
        message.release(self.pool_mut());
        passed
    }

    /// Streams that were passed to a head and that nobody has taken, which is about to close.
    pub(super) fn passed_to(&mut self, head_level: u32) -> Vec<StreamId> {
        let mut streams = Vec::new();
        while let Some(mut message) = self.get(QueueId::new(head_level, Side::Read)) {
            if let Some(Extra::Stream(stream)) = message.extra.take().map(|extra| *extra) {
                streams.push(stream);
            }
            message.release(&mut self.pool);
        }
        streams
    }

    /// A stream that closes has no name.
    pub(super) fn forget_names(&mut self, stream: StreamId) {
        self.names.retain(|_, named| *named != stream);
    }

    fn head_level(&self, stream: StreamId) -> Option<u32> {
        self.stream(stream).ok().map(|stream| stream.head_level)
    }

    /// The head at the far end of a pipe.
    fn far_end(&mut self, pipe: StreamId) -> Result<u32, Error> {
        let (head, level) = self.stream_and_level(pipe)?;
        head.check_write()?;
        let mut next = self.slot(QueueId::new(level, Side::Write)).next;
        while let Some(queue) = next {
            if let Occupant::Head(far) = self.levels[queue.level() as usize].occupant
                && far != pipe
            {
                return Ok(queue.level());
            }
            next = self.slot(queue).next;
        }
        Err(Error::Invalid(
            "only a pipe has a far end to pass something to",
        ))
    }
}
