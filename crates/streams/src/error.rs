//! Errors of calls on a stream, each with the error number that a C caller gets.

/// Why a call on a stream failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Nothing to read, or no room to write; try again when poll says so (EAGAIN).
    #[error("the stream would block")]
    WouldBlock,
    /// The stream was closed, or its number is none (EBADF).
    #[error("no such stream")]
    BadStream,
    /// An argument is out of range (EINVAL).
    #[error("invalid argument: {0}")]
    Invalid(&'static str),
    /// A control part is in front, which reads of octets cannot return (EBADMSG).
    #[error("a control message is in front: get it as a message")]
    BadMessage,
    /// The message is longer than the stream takes (ERANGE).
    #[error("the message is outside the lengths of packets that the stream takes")]
    Range,
    /// Something was sent to a stream that hung up (ENXIO).
    #[error("the stream hung up")]
    HungUp,
    /// A module said so by M_ERROR, or refused a request: its error number.
    #[error("error {0} of the stream")]
    Failed(i32),
    /// No module to pop, or as many modules as a stream can have.
    #[error("{0}")]
    Modules(&'static str),
    /// A request was not answered by any module (EINVAL).
    #[error("no module knows the request")]
    Refused,
}

impl Error {
    /// The number of Linux.
    pub fn errno(self) -> i32 {
        match self {
            Error::WouldBlock => 11,
            Error::BadStream => 9,
            Error::Invalid(_) | Error::Modules(_) | Error::Refused => 22,
            Error::BadMessage => 74,
            Error::Range => 34,
            Error::HungUp => 6,
            Error::Failed(errno) => errno,
        }
    }
}
