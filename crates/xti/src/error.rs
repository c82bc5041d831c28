//! Errors of the XTI functions, with the numbers that C programs see in `t_errno`.

use streams::Error as StreamError;

/// Why a function of XTI failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[repr(i32)]
pub enum TliError {
    /// The address is of the wrong format (TBADADDR).
    #[error("the address is of the wrong format")]
    BadAddress = 1,
    /// The options are of the wrong format (TBADOPT).
    #[error("the options are of the wrong format")]
    BadOption = 2,
    /// No permission for the address or the options (TACCES).
    #[error("no permission for the address or the options")]
    Access = 3,
    /// The accepting end is none (TBADF).
    #[error("the accepting end is none")]
    BadEndpoint = 4,
    /// No address could be allocated (TNOADDR).
    #[error("no address could be allocated")]
    NoAddress = 5,
    /// Not in this state (TOUTSTATE).
    #[error("the function is not allowed in this state")]
    OutOfState = 6,
    /// The sequence number names no connection (TBADSEQ).
    #[error("the sequence number names no connection")]
    BadSequence = 7,
    /// A system error: see the number beside it (TSYSERR).
    #[error("a system error")]
    System = 8,
    /// An event waits that must be handled first (TLOOK).
    #[error("an event waits: look at it first")]
    Look = 9,
    /// The amount of data is not allowed (TBADDATA).
    #[error("this amount of data is not allowed")]
    BadData = 10,
    /// Flow control does not let anything pass now (TFLOW).
    #[error("flow control lets nothing pass now")]
    Flow = 12,
    /// Nothing is there (TNODATA).
    #[error("nothing is there")]
    NoData = 13,
    /// No disconnection is there (TNODIS).
    #[error("no disconnection is there")]
    NoDisconnect = 14,
    /// No datagram failed (TNOUDERR).
    #[error("no datagram failed")]
    NoDatagramError = 15,
    /// Flags that do not exist (TBADFLAG).
    #[error("flags that do not exist")]
    BadFlag = 16,
    /// No orderly release is there (TNOREL).
    #[error("no orderly release is there")]
    NoRelease = 17,
    /// The provider does not support it (TNOTSUPPORT).
    #[error("the provider does not support it")]
    NotSupported = 18,
    /// The state is changing (TSTATECHNG).
    #[error("the state is changing")]
    StateChanging = 19,
    /// The provider's name is none (TBADNAME).
    #[error("there is no provider of this name")]
    BadName = 21,
    /// The end was bound with a queue length of 0 (TBADQLEN).
    #[error("the end was bound to accept no connections")]
    BadQueueLength = 22,
    /// The address is in use (TADDRBUSY).
    #[error("the address is in use")]
    AddressBusy = 23,
    /// Other connections wait to be accepted (TINDOUT).
    #[error("other connections wait to be accepted")]
    IndicationsOut = 24,
    /// The accepting end is of another provider (TPROVMISMATCH).
    #[error("the accepting end is of another provider")]
    ProviderMismatch = 25,
    /// The accepting end listens itself (TRESQLEN).
    #[error("the accepting end listens itself")]
    AcceptorListens = 26,
    /// As many connections wait as the queue length allows (TQFULL).
    #[error("as many connections wait as the queue length allows")]
    QueueFull = 28,
    /// The provider broke the protocol (TPROTO).
    #[error("the provider broke the protocol")]
    Protocol = 29,
}

impl TliError {
    /// The error with a number; [`TliError::Protocol`] for one that is none.
    pub fn from_number(number: u32) -> TliError {
        use TliError::*;
        const ALL: [TliError; 24] = [
            BadAddress,
            BadOption,
            Access,
            BadEndpoint,
            NoAddress,
            OutOfState,
            BadSequence,
            System,
            Look,
            BadData,
            Flow,
            NoData,
            NoDisconnect,
            NoDatagramError,
            BadFlag,
            NoRelease,
            NotSupported,
            StateChanging,
            BadName,
            BadQueueLength,
            AddressBusy,
            IndicationsOut,
            ProviderMismatch,
            AcceptorListens,
        ];
        let same = |error: &TliError| *error as u32 == number;
        ALL.into_iter()
            .chain([QueueFull])
            .find(same)
            .unwrap_or(Protocol)
    }
}

/// An error of a function, with the system's number where there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{tli}{}", SystemNumber(*.errno))]
pub struct Error {
    /// Which error (`t_errno`).
    pub tli: TliError,
    /// The number of [`TliError::System`]; else 0.
    pub errno: i32,
}

struct SystemNumber(i32);

impl std::fmt::Display for SystemNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            0 => Ok(()),
            errno => write!(f, ": {}", std::io::Error::from_raw_os_error(errno)),
        }
    }
}

impl From<TliError> for Error {
    fn from(tli: TliError) -> Error {
        Error { tli, errno: 0 }
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Error {
        Error {
            tli: TliError::System,
            errno: error.raw_os_error().unwrap_or(5),
        }
    }
}

impl From<StreamError> for Error {
    fn from(error: StreamError) -> Error {
        Error {
            tli: TliError::System,
            errno: error.errno(),
        }
    }
}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> std::io::Error {
        use std::io::ErrorKind;
        let kind = match error.tli {
            TliError::System => return std::io::Error::from_raw_os_error(error.errno),
            TliError::Flow | TliError::NoData => ErrorKind::WouldBlock,
            TliError::Look => ErrorKind::ConnectionReset,
            TliError::AddressBusy => ErrorKind::AddrInUse,
            TliError::NotSupported => ErrorKind::Unsupported,
            _ => ErrorKind::InvalidInput,
        };
        std::io::Error::new(kind, error)
    }
}
