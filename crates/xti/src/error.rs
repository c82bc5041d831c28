//! Errors of the XTI functions, with the numbers that C programs see in `t_errno`.

use streams::Error as StreamError;

/// Why a function of XTI failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum TliError {
    /// The address is of the wrong format (TBADADDR).
    BadAddress = 1,
    /// The options are of the wrong format (TBADOPT).
    BadOption = 2,
    /// No permission for the address or the options (TACCES).
    Access = 3,
    /// The accepting end is none (TBADF).
    BadEndpoint = 4,
    /// No address could be allocated (TNOADDR).
    NoAddress = 5,
    /// Not in this state (TOUTSTATE).
    OutOfState = 6,
    /// The sequence number names no connection (TBADSEQ).
    BadSequence = 7,
    /// A system error: see the number beside it (TSYSERR).
    System = 8,
    /// An event waits that must be handled first (TLOOK).
    Look = 9,
    /// The amount of data is not allowed (TBADDATA).
    BadData = 10,
    /// The result does not fit into the user's buffer (TBUFOVFLW).
    BufferOverflow = 11,
    /// Flow control does not let anything pass now (TFLOW).
    Flow = 12,
    /// Nothing is there (TNODATA).
    NoData = 13,
    /// No disconnection is there (TNODIS).
    NoDisconnect = 14,
    /// No datagram failed (TNOUDERR).
    NoDatagramError = 15,
    /// Flags that do not exist (TBADFLAG).
    BadFlag = 16,
    /// No orderly release is there (TNOREL).
    NoRelease = 17,
    /// The provider does not support it (TNOTSUPPORT).
    NotSupported = 18,
    /// The state is changing (TSTATECHNG).
    StateChanging = 19,
    /// There is no structure of this type (TNOSTRUCTYPE).
    NoStructure = 20,
    /// The provider's name is none (TBADNAME).
    BadName = 21,
    /// The end was bound with a queue length of 0 (TBADQLEN).
    BadQueueLength = 22,
    /// The address is in use (TADDRBUSY).
    AddressBusy = 23,
    /// Other connections wait to be accepted (TINDOUT).
    IndicationsOut = 24,
    /// The accepting end is of another provider (TPROVMISMATCH).
    ProviderMismatch = 25,
    /// The accepting end listens itself (TRESQLEN).
    AcceptorListens = 26,
    /// The accepting end is bound to another address (TRESADDR).
    AcceptorAddress = 27,
    /// As many connections wait as the queue length allows (TQFULL).
    QueueFull = 28,
    /// The provider broke the protocol (TPROTO).
    Protocol = 29,
}

impl TliError {
    /// All errors, by their numbers.
    pub const ALL: [TliError; 29] = [
        TliError::BadAddress,
        TliError::BadOption,
        TliError::Access,
        TliError::BadEndpoint,
        TliError::NoAddress,
        TliError::OutOfState,
        TliError::BadSequence,
        TliError::System,
        TliError::Look,
        TliError::BadData,
        TliError::BufferOverflow,
        TliError::Flow,
        TliError::NoData,
        TliError::NoDisconnect,
        TliError::NoDatagramError,
        TliError::BadFlag,
        TliError::NoRelease,
        TliError::NotSupported,
        TliError::StateChanging,
        TliError::NoStructure,
        TliError::BadName,
        TliError::BadQueueLength,
        TliError::AddressBusy,
        TliError::IndicationsOut,
        TliError::ProviderMismatch,
        TliError::AcceptorListens,
        TliError::AcceptorAddress,
        TliError::QueueFull,
        TliError::Protocol,
    ];

    /// The error with a number; [`TliError::Protocol`] for one that is none.
    pub fn from_number(number: u32) -> TliError {
        let same = |error: &TliError| *error as u32 == number;
        let found = TliError::ALL.into_iter().find(same);
        found.unwrap_or(TliError::Protocol)
    }

    /// What it means, in a clause (t_strerror).
    pub fn text(self) -> &'static str {
        match self {
            TliError::BadAddress => "the address is of the wrong format",
            TliError::BadOption => "the options are of the wrong format",
            TliError::Access => "no permission for the address or the options",
            TliError::BadEndpoint => "the accepting end is none",
            TliError::NoAddress => "no address could be allocated",
            TliError::OutOfState => "the function is not allowed in this state",
            TliError::BadSequence => "the sequence number names no connection",
            TliError::System => "a system error",
            TliError::Look => "an event waits: look at it first",
            TliError::BadData => "this amount of data is not allowed",
            TliError::BufferOverflow => "the result does not fit into the buffer",
            TliError::Flow => "flow control lets nothing pass now",
            TliError::NoData => "nothing is there",
            TliError::NoDisconnect => "no disconnection is there",
            TliError::NoDatagramError => "no datagram failed",
            TliError::BadFlag => "flags that do not exist",
            TliError::NoRelease => "no orderly release is there",
            TliError::NotSupported => "the provider does not support it",
            TliError::StateChanging => "the state is changing",
            TliError::NoStructure => "there is no structure of this type",
            TliError::BadName => "there is no provider of this name",
            TliError::BadQueueLength => "the end was bound to accept no connections",
            TliError::AddressBusy => "the address is in use",
            TliError::IndicationsOut => "other connections wait to be accepted",
            TliError::ProviderMismatch => "the accepting end is of another provider",
            TliError::AcceptorListens => "the accepting end listens itself",
            TliError::AcceptorAddress => "the accepting end is bound to another address",
            TliError::QueueFull => "as many connections wait as the queue length allows",
            TliError::Protocol => "the provider broke the protocol",
        }
    }
}

impl std::fmt::Display for TliError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for TliError {}

/// An error of a function, with the system's number where there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{tli}{}", SystemNumber(*.errno))]
pub struct Error {
    /// Which error (`t_errno`).
    pub tli: TliError,
    /// The number of [`TliError::System`]; else 0.
    pub errno: i32,
}

impl Error {
    /// The line that t_error writes: the caller's words, then the error's.
    pub fn line(&self, words: &str) -> String {
        match words {
            "" => format!("{self}\n"),
            words => format!("{words}: {self}\n"),
        }
    }
}

/// The name of the number of buffers in t_sysconf, that of glibc's sysconf.
pub const SC_T_IOV_MAX: i32 = 66;

/// A limit of XTI by its name (t_sysconf); None for one that is none.
pub fn system_limit(name: i32) -> Option<usize> {
    (name == SC_T_IOV_MAX).then_some(crate::endpoint::BUFFERS_MAX)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_numbers_of_xti_and_texts_of_their_own() {
        let numbers: Vec<i32> = TliError::ALL.iter().map(|error| *error as i32).collect();
        assert_eq!(numbers, (1..=29).collect::<Vec<i32>>());
        for error in TliError::ALL {
            assert_eq!(TliError::from_number(error as u32), error);
            let same = |other: &&TliError| other.text() == error.text();
            assert_eq!(TliError::ALL.iter().filter(same).count(), 1, "{error}");
        }
        assert_eq!(TliError::from_number(99), TliError::Protocol);
    }

    #[test]
    fn line_says_the_words_the_error_and_the_number_of_the_system() {
        let error = Error::from(std::io::Error::from_raw_os_error(2));
        let line = error.line("t_open");
        assert!(
            line.starts_with("t_open: a system error: No such file"),
            "{line}"
        );
        assert_eq!(
            Error::from(TliError::Look).line(""),
            "an event waits: look at it first\n"
        );
        assert_eq!(system_limit(SC_T_IOV_MAX), Some(16));
        assert_eq!(system_limit(0), None);
    }
}
