//! What the transports have in common in sending with notes, in receiving in parts and in lending
//! memory.

use crate::contract::{LentArrival, Note, Part, Reserved};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

/// Sends with a note on a transport without notes: `Ok` for a note that says nothing.
///
/// # Errors
///
/// `Unsupported` for any other.
pub fn check_plain(note: &Note) -> io::Result<()> {
    if note.is_plain() {
        return Ok(());
    }
    let text = "this transport carries nothing with a message; send it without a note";
    Err(io::Error::new(io::ErrorKind::Unsupported, text))
}

/// What a receive of a byte stream brought, as a part.
pub fn part_of_stream(received: Option<usize>) -> Option<Part> {
    received.map(Part::of_stream)
}

/// A reservation on a transport that copies what is sent.
///
/// # Errors
///
/// `Unsupported`.
pub fn no_reservation<'a>() -> io::Result<Reserved<'a>> {
    let text = "this transport copies what is sent; send it from a buffer";
    Err(io::Error::new(io::ErrorKind::Unsupported, text))
}

/// A commit on a transport that copies what is sent.
///
/// # Errors
///
/// `Unsupported`.
pub fn no_commit() -> io::Result<()> {
    no_reservation().map(drop)
}

/// A loan on a transport that copies what arrived.
///
/// # Errors
///
/// `Unsupported`.
pub fn no_arrival<'a>() -> io::Result<Option<LentArrival<'a>>> {
    let text = "this transport copies what arrived; receive it into a buffer";
    Err(io::Error::new(io::ErrorKind::Unsupported, text))
}

/// Methods of a [`Circuit`](crate::Circuit) of a transport that copies what is sent and what arrived.
macro_rules! lends_nothing {
    () => {
        fn reserve(&mut self, _len: usize) -> std::io::Result<$crate::contract::Reserved<'_>> {
            $crate::parts::no_reservation()
        }

        fn commit(&mut self, _note: &$crate::contract::Note) -> std::io::Result<()> {
            $crate::parts::no_commit()
        }

        fn take_arrival(&mut self) -> std::io::Result<Option<$crate::contract::LentArrival<'_>>> {
            $crate::parts::no_arrival()
        }
    };
}
pub(crate) use lends_nothing;

/// The method of a [`Circuit`](crate::Circuit) of a transport that carries nothing with a message.
macro_rules! carries_no_notes {
    () => {
        #[inline]
        fn send_noted(
            &mut self,
            message: &[u8],
            note: &$crate::contract::Note,
        ) -> std::io::Result<()> {
            $crate::parts::check_plain(note)?;
            self.send(message)
        }
    };
}
pub(crate) use carries_no_notes;

/// The methods of a [`Circuit`](crate::Circuit) of a byte stream that copies what is sent and what arrived, and carries nothing
/// beside it.
macro_rules! copies_stream {
    () => {
        $crate::parts::carries_no_notes! {}

        fn receive_part(
            &mut self,
            buffer: &mut [u8],
        ) -> std::io::Result<Option<$crate::contract::Part>> {
            Ok($crate::parts::part_of_stream(self.recv(buffer)?))
        }

        $crate::parts::lends_nothing! {}
    };
}
pub(crate) use copies_stream;

/// The methods of a [`Circuit`](crate::Circuit) that has one way to send and one to receive, with a flag whether to block.
macro_rules! blocks_by_flag {
    ($($send:ident).+, $($receive:ident).+) => {
        #[inline]
        fn try_send(&mut self, message: &[u8]) -> std::io::Result<()> {
            self$(.$send)+(message, false)
        }

        #[inline]
        fn try_recv(&mut self, buffer: &mut [u8]) -> std::io::Result<Option<usize>> {
            self$(.$receive)+(buffer, false)
        }

        #[inline]
        fn send(&mut self, message: &[u8]) -> std::io::Result<()> {
            self$(.$send)+(message, true)
        }

        #[inline]
        fn recv(&mut self, buffer: &mut [u8]) -> std::io::Result<Option<usize>> {
            self$(.$receive)+(buffer, true)
        }
    };
}
pub(crate) use blocks_by_flag;

/// The methods of a [`Circuit`](crate::Circuit) of a transport without connections: no direction is ended.
macro_rules! connectionless {
    () => {
        fn finish(&mut self) -> std::io::Result<()> {
            Ok(())
        }

        fn connection_info(
            &self,
        ) -> Result<$crate::contract::ConnectionInfo, $crate::contract::NoConnectionInfo> {
            Err($crate::connection_info::NO_CONNECTION)
        }
    };
}
pub(crate) use connectionless;

/// The methods of a [`Circuit`](crate::Circuit) that is ready when its `socket` is.
macro_rules! ready_as_socket {
    () => {
        fn wait(
            &mut self,
            interest: $crate::contract::Interest,
            deadline: std::time::Instant,
        ) -> std::io::Result<()> {
            $crate::socket::wait(self.socket.as_fd(), interest, deadline)
        }

        fn descriptor(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
            Some(self.socket.as_fd())
        }
    };
}
pub(crate) use ready_as_socket;

/// System calls of sends and receives, as a circuit counts them.
pub(crate) fn call_counts((sends, receives): (u64, u64)) -> BTreeMap<String, u64> {
    BTreeMap::from([
        ("send_calls".into(), sends),
        ("receive_calls".into(), receives),
    ])
}

/// Adds the packets that the system dropped because a buffer was full, where it counts them.
pub(crate) fn add_receive_drops(drops: Option<u64>, counts: &mut BTreeMap<String, u64>) {
    counts.extend(drops.map(|drops| ("receive_drops".into(), drops)));
}

/// What is left of a message that did not fit into the user's buffer.
#[derive(Debug, Default)]
pub struct MessageRest {
    bytes: Vec<u8>,
    left: Range<usize>,
}

impl MessageRest {
    /// Whether nothing is left.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// Room for `len` bytes, to receive into what exceeds the user's buffer. Nothing may be left.
    pub fn room(&mut self, len: usize) -> &mut [u8] {
        debug_assert!(self.is_empty());
        if self.bytes.len() < len {
            self.bytes.resize(len, 0);
        }
        &mut self.bytes[..len]
    }

    /// Keeps what is in [`room`](MessageRest::room) of a message of `len` bytes, the first
    /// `buffer_len` of which are in the user's buffer: the first part.
    pub fn keep(&mut self, len: usize, buffer_len: usize) -> Part {
        self.left = 0..len.saturating_sub(buffer_len).min(self.bytes.len());
        Part {
            len: len.min(buffer_len),
            end: self.is_empty(),
            note: Note::default(),
        }
    }

    /// The next part of what is left.
    pub fn next(&mut self, buffer: &mut [u8]) -> Part {
        let len = self.left.len().min(buffer.len());
        let end = self.left.start + len;
        buffer[..len].copy_from_slice(&self.bytes[self.left.start..end]);
        self.left.start = end;
        Part {
            len,
            end: self.is_empty(),
            note: Note::default(),
        }
    }

    /// What is left as one message, of which `buffer` gets what fits; returns how many bytes.
    #[cold]
    pub fn take(&mut self, buffer: &mut [u8]) -> usize {
        let part = self.next(buffer);
        self.left = 0..0;
        part.len
    }
}

/// Copies a message into the user's buffer; what exceeds it is dropped.
pub fn hand_out(octets: &[u8], buffer: &mut [u8]) -> usize {
    let len = octets.len().min(buffer.len());
    buffer[..len].copy_from_slice(&octets[..len]);
    len
}

/// The first part of a message; `rest` keeps the rest for the next receive.
pub fn first_part(octets: &[u8], buffer: &mut [u8], rest: &mut MessageRest) -> Part {
    let len = hand_out(octets, buffer);
    let left = &octets[len..];
    rest.room(left.len()).copy_from_slice(left);
    rest.keep(octets.len(), buffer.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rest_is_handed_out_in_parts_and_whole() {
        let mut rest = MessageRest::default();
        rest.room(6)[..5].copy_from_slice(b"56789");
        assert_eq!((rest.keep(9, 4).len, rest.is_empty()), (4, false));
        let mut buffer = [0; 3];
        let part = rest.next(&mut buffer);
        assert_eq!((&buffer, part.len, part.end), (b"567", 3, false));
        let part = rest.next(&mut buffer);
        assert_eq!((&buffer[..2], part.len, part.end), (&b"89"[..], 2, true));
        assert!(rest.keep(4, 4).end && rest.is_empty());
        rest.room(3).copy_from_slice(b"abc");
        assert!(!rest.keep(3, 0).end);
        assert_eq!(rest.take(&mut buffer[..2]), 2);
        assert!(rest.is_empty(), "the rest of it is dropped");
    }
}
