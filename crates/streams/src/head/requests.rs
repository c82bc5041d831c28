//! Requests of a user to the modules below: M_IOCTL with its answer, and flush.

use crate::error::Error;
use crate::message::{Extra, FlushRequest, IoctlRequest, Message, MessageKind};
use crate::runtime::{Runtime, StreamId};

/// What a module answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The value of the call.
    pub value: i32,
    /// Octets that came with it.
    pub octets: Vec<u8>,
}

/// The request of a head that is on its way; one at a time.
#[derive(Debug, Default)]
pub(super) struct Request {
    id: u32,
    state: State,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    None,
    Waiting,
    Answered(Result<Answer, Error>),
}

impl Request {
    /// An answer of the stream. One to a request that nobody waits for is dropped.
    pub(super) fn answer(&mut self, message: Message) {
        let Some(&Extra::Ioctl(answer)) = message.extra.as_deref() else {
            return;
        };
        if answer.id != self.id || !matches!(self.state, State::Waiting) {
            return;
        }
        let mut octets = vec![0; message.data_octets()];
        message.copy_data(0, &mut octets);
        self.state = State::Answered(match (message.kind(), answer.value) {
            (MessageKind::IoctlAck, value) => Ok(Answer { value, octets }),
            (_, 0) => Err(Error::Refused),
            (_, errno) => Err(Error::Failed(errno)),
        });
    }
}

impl Runtime {
    /// Sends a request down (I_STR). A module that knows the command answers, else the driver
    /// refuses it. The answer is taken by [`Runtime::take_answer`].
    ///
    /// # Errors
    ///
    /// [`Error::WouldBlock`] while another request is on its way; after a hang-up or M_ERROR what
    /// they say.
    pub fn request(&mut self, stream: StreamId, command: u32, octets: &[u8]) -> Result<(), Error> {
        let (head, level) = self.stream_and_level(stream)?;
        head.check_write()?;
        if matches!(head.request.state, State::Waiting) {
            return Err(Error::WouldBlock);
        }
        let id = head.request.id.wrapping_add(1);
        head.request = Request {
            id,
            state: State::Waiting,
        };
        let ioctl = IoctlRequest {
            command,
            id,
            value: 0,
        };
        let mut message = Message::with_extra(MessageKind::Ioctl, Extra::Ioctl(ioctl));
        if !octets.is_empty() {
            message.data.push(self.pool_mut().copy(0, octets));
        }
        self.send_down(stream, level, message);
        Ok(())
    }

    /// The answer to the last request.
    ///
    /// # Errors
    ///
    /// [`Error::WouldBlock`] while it is on its way, [`Error::Refused`] when nothing below knows the
    /// command, [`Error::Failed`] with the module's error.
    pub fn take_answer(&mut self, stream: StreamId) -> Result<Answer, Error> {
        let (head, _) = self.stream_and_level(stream)?;
        match std::mem::take(&mut head.request.state) {
            State::Answered(answer) => answer,
            State::Waiting => {
                head.request.state = State::Waiting;
                Err(Error::WouldBlock)
            }
            State::None => Err(Error::Invalid("no request is on its way")),
        }
    }

    /// Gives up the request that is on its way: its answer will be dropped.
    ///
    /// # Errors
    ///
    /// No such stream.
    pub fn abandon_request(&mut self, stream: StreamId) -> Result<(), Error> {
        self.stream_and_level(stream)?.0.request.state = State::None;
        Ok(())
    }

    /// Empties queues of the whole stream (I_FLUSH, I_FLUSHBAND).
    ///
    /// # Errors
    ///
    /// No such stream, or a stream that hung up.
    pub fn flush(&mut self, stream: StreamId, request: FlushRequest) -> Result<(), Error> {
        let (head, level) = self.stream_and_level(stream)?;
        head.check_write()?;
        self.send_down(stream, level, Message::flush(request));
        Ok(())
    }
}
