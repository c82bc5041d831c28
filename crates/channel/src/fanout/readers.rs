//! The receivers of one ring, as its sender knows them.

use super::RECEIVERS_MAX;
use crate::error::ChannelError;
use crate::geometry::Geometry;
use crate::opening;
use crate::wait::has_hung_up;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

/// The receivers that a sender admitted, by number.
#[derive(Debug)]
pub(crate) struct Readers {
    /// The ring; None in models.
    memory: Option<OwnedFd>,
    all: Vec<Reader>,
    /// How many of them read.
    reading: u32,
}

#[derive(Debug)]
struct Reader {
    socket: UnixStream,
    state: ReaderState,
}

/// Whether a receiver is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReaderState {
    Reads,
    /// It has closed its end.
    Closed,
    /// Its process or its end is gone without a close.
    Gone,
}

impl Readers {
    pub(crate) fn new(memory: Option<OwnedFd>) -> Self {
        Self {
            memory,
            all: Vec::new(),
            reading: 0,
        }
    }

    /// The number of the next receiver.
    pub(crate) fn count(&self) -> u32 {
        self.all.len() as u32
    }

    /// Offers the ring to the process at the other end of `socket`; its number.
    ///
    /// # Errors
    /// [`ChannelError::ReceiversFull`]; a peer of another user; what the system refuses.
    pub(crate) fn admit(
        &mut self,
        socket: UnixStream,
        geometry: Geometry,
    ) -> Result<u32, ChannelError> {
        let number = self.count();
        let memory = match &self.memory {
            Some(memory) if number < RECEIVERS_MAX => memory,
            _ => return Err(ChannelError::ReceiversFull),
        };
        opening::offer_member(&socket, memory, geometry, number)?;
        self.add(socket);
        Ok(number)
    }

    pub(crate) fn add(&mut self, socket: UnixStream) {
        self.all.push(Reader {
            socket,
            state: ReaderState::Reads,
        });
        self.reading += 1;
    }

    /// Those that neither have closed their end nor were found gone.
    pub(crate) fn reading(&self) -> u32 {
        self.reading
    }

    /// The numbers of those that read.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> {
        let reads = |(_, reader): &(u32, &Reader)| reader.state == ReaderState::Reads;
        (0..).zip(&self.all).filter(reads).map(|(number, _)| number)
    }

    /// Those that were found gone without having closed their end.
    pub(crate) fn killed(&self) -> u32 {
        let gone = |reader: &&Reader| reader.state == ReaderState::Gone;
        self.all.iter().filter(gone).count() as u32
    }

    /// Those whose bit is set in `closed` read no more.
    pub(crate) fn note_closed(&mut self, closed: u32) {
        for (number, reader) in self.all.iter_mut().enumerate() {
            if reader.state == ReaderState::Reads && closed & 1 << number != 0 {
                reader.state = ReaderState::Closed;
                self.reading -= 1;
            }
        }
    }

    /// Notes whose socket has hung up; `closed` is read after the sockets, as a close comes before its hang-up. One system
    /// call for each that reads.
    ///
    /// # Errors
    /// A poll that the system refuses.
    pub(crate) fn look(&mut self, closed: impl FnOnce() -> u32) -> Result<(), ChannelError> {
        let mut hung_up = Vec::new();
        for (number, reader) in self.all.iter().enumerate() {
            if reader.state == ReaderState::Reads && has_hung_up(&reader.socket)? {
                hung_up.push(number);
            }
        }
        self.note_closed(closed());
        for number in hung_up {
            let reader = &mut self.all[number];
            if reader.state == ReaderState::Reads {
                reader.state = ReaderState::Gone;
                self.reading -= 1;
            }
        }
        Ok(())
    }

    /// Hangs up without a close, as the kernel does for a process that is gone.
    #[cfg(all(test, not(feature = "loom")))]
    pub(crate) fn hang_up(&self) {
        for reader in &self.all {
            reader.socket.shutdown(std::net::Shutdown::Both).unwrap();
        }
    }
}
