//! Messages: a kind, a band, an optional control part and blocks of data.

use crate::block::{Block, Pool};
use smallvec::SmallVec;

/// The kind of a message. Those from [`MessageKind::IoctlAck`] on have high priority: they ignore flow
/// control and are in no band. The numbers are those of SVR4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum MessageKind {
    /// User data (M_DATA).
    Data = 0x00,
    /// Control of a protocol, with data behind it or not (M_PROTO).
    Proto = 0x01,
    /// A line break (M_BREAK).
    Break = 0x08,
    /// A descriptor on its way to the other end of a pipe (M_PASSFP).
    PassDescriptor = 0x09,
    /// A signal for who reads the stream, in order with the data (M_SIG).
    Signal = 0x0b,
    /// A delay of a device (M_DELAY).
    Delay = 0x0c,
    /// Control between modules (M_CTL).
    Control = 0x0d,
    /// A request of the head for a module or the driver (M_IOCTL).
    Ioctl = 0x0e,
    /// New options for the head (M_SETOPTS).
    SetOptions = 0x10,
    /// Reserved for modules (M_RSE).
    Reserved = 0x11,
    /// A request was carried out (M_IOCACK).
    IoctlAck = 0x81,
    /// A request was refused (M_IOCNAK).
    IoctlNak = 0x82,
    /// Control of a protocol that goes before all (M_PCPROTO).
    HighProto = 0x83,
    /// A signal that goes before all (M_PCSIG).
    HighSignal = 0x84,
    /// A reader waits at the head (M_READ).
    ReaderWaits = 0x85,
    /// Queues are to be flushed (M_FLUSH).
    Flush = 0x86,
    /// Output stops (M_STOP).
    Stop = 0x87,
    /// Output goes on (M_START).
    Start = 0x88,
    /// The other end has gone (M_HANGUP).
    HangUp = 0x89,
    /// The stream has failed (M_ERROR).
    Error = 0x8a,
    /// Reserved for modules, high priority (M_PCRSE).
    HighReserved = 0x8e,
    /// Input stops (M_STOPI).
    StopInput = 0x8f,
    /// Input goes on (M_STARTI).
    StartInput = 0x90,
}

impl MessageKind {
    /// Whether it passes all queues before ordinary messages.
    #[inline]
    pub fn is_high_priority(self) -> bool {
        self as u8 >= 0x80
    }

    /// Whether a flush of data alone removes it (FLUSHDATA).
    pub fn is_data(self) -> bool {
        matches!(
            self,
            MessageKind::Data | MessageKind::Proto | MessageKind::HighProto | MessageKind::Delay
        )
    }
}

/// What a flush removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushScope {
    /// Data and control of protocols: M_DATA, M_PROTO, M_PCPROTO, M_DELAY (FLUSHDATA).
    Data,
    /// All messages (FLUSHALL).
    All,
}

/// Which queues a flush empties (FLUSHR, FLUSHW, FLUSHBAND).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushRequest {
    /// The read queues.
    pub read: bool,
    /// The write queues.
    pub write: bool,
    /// Only this band.
    pub band: Option<u8>,
}

/// A request of the head: which one, and who asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoctlRequest {
    /// Number of the command.
    pub command: u32,
    /// Number of the request, repeated in its answer.
    pub id: u32,
    /// In an answer: the value that the caller gets, or the error number.
    pub value: i32,
}

/// New options of a head; None leaves one as it is (struct stroptions).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeadOptions {
    /// How reads treat the boundaries of messages.
    pub read_mode: Option<crate::head::ReadMode>,
    /// How reads treat control parts.
    pub read_control: Option<crate::head::ReadControl>,
    /// Octets of room in front of what users write (SO_WROFF).
    pub write_offset: Option<usize>,
    /// Least octets of a message that a write makes (SO_MINPSZ).
    pub packet_min: Option<usize>,
    /// Most octets of a message that a write makes (SO_MAXPSZ).
    pub packet_max: Option<usize>,
    /// High water mark of the read queue (SO_HIWAT).
    pub high_water: Option<usize>,
    /// Low water mark of the read queue (SO_LOWAT).
    pub low_water: Option<usize>,
    /// Whether the head tells below that a reader waits (SO_MREADON, SO_MREADOFF).
    pub notify_readers: Option<bool>,
    /// Octets of a message into which short writes are collected (SO_STRHOLD); 0 for none. It leaves when it is full,
    /// before anything else that goes down, and with the next run: for streams without boundaries alone.
    pub hold: Option<usize>,
}

/// What rare kinds carry besides octets.
#[derive(Debug)]
pub enum Extra {
    /// Of [`MessageKind::Flush`].
    Flush(FlushRequest),
    /// Of [`MessageKind::Ioctl`] and its answers.
    Ioctl(IoctlRequest),
    /// Of [`MessageKind::SetOptions`].
    Options(HeadOptions),
    /// Of [`MessageKind::Error`]: error numbers for reads and for writes; 0 ends an error, None leaves it.
    Errors {
        /// For reads.
        read: Option<i32>,
        /// For writes.
        write: Option<i32>,
    },
    /// Of [`MessageKind::Signal`]: its number.
    Signal(i32),
    /// Of [`MessageKind::PassDescriptor`].
    Descriptor(std::os::fd::OwnedFd),
    /// The same: a stream of the runtime.
    Stream(crate::StreamId),
}

/// One message.
#[derive(Debug)]
pub struct Message {
    kind: MessageKind,
    band: u8,
    /// The control part, of [`MessageKind::Proto`] and [`MessageKind::HighProto`].
    pub control: Option<Block>,
    /// The data part.
    pub data: SmallVec<[Block; 2]>,
    /// What rare kinds carry.
    pub extra: Option<Box<Extra>>,
}

impl Message {
    /// A message without octets.
    pub fn new(kind: MessageKind) -> Message {
        Message {
            kind,
            band: 0,
            control: None,
            data: SmallVec::new(),
            extra: None,
        }
    }

    /// User data of one block.
    pub fn data(block: Block) -> Message {
        let mut message = Message::new(MessageKind::Data);
        message.data.push(block);
        message
    }

    /// Control of a protocol, with data behind it or not.
    pub fn proto(control: Block, data: Option<Block>) -> Message {
        let mut message = Message::new(MessageKind::Proto);
        message.control = Some(control);
        message.data.extend(data);
        message
    }

    /// Control of a protocol that goes before all.
    pub fn high_proto(control: Block) -> Message {
        let mut message = Message::new(MessageKind::HighProto);
        message.control = Some(control);
        message
    }

    /// A flush.
    pub fn flush(request: FlushRequest) -> Message {
        Message::with_extra(MessageKind::Flush, Extra::Flush(request))
    }

    /// A message of a rare kind.
    pub fn with_extra(kind: MessageKind, extra: Extra) -> Message {
        let mut message = Message::new(kind);
        message.extra = Some(Box::new(extra));
        message
    }

    /// Its kind.
    #[inline]
    pub fn kind(&self) -> MessageKind {
        self.kind
    }

    /// Its priority band; 0 when it has high priority.
    #[inline]
    pub fn band(&self) -> u8 {
        self.band
    }

    /// The same message in a band. A message with high priority stays in none.
    pub fn in_band(mut self, band: u8) -> Message {
        self.band = if self.kind.is_high_priority() {
            0
        } else {
            band
        };
        self
    }

    /// The same message as another kind.
    pub fn into_kind(mut self, kind: MessageKind) -> Message {
        self.kind = kind;
        let band = self.band;
        self.in_band(band)
    }

    /// Octets of all its blocks, as flow control counts them.
    #[inline]
    pub fn octets(&self) -> usize {
        self.control.as_ref().map_or(0, Block::len) + self.data_octets()
    }

    /// Octets of its data part (msgdsize).
    #[inline]
    pub fn data_octets(&self) -> usize {
        self.data.iter().map(Block::len).sum()
    }

    /// Its blocks, at least 1: what flow control counts besides octets, so that empty messages
    /// cannot fill the memory.
    #[inline]
    pub fn blocks(&self) -> usize {
        (usize::from(self.control.is_some()) + self.data.len()).max(1)
    }

    /// A second message with the same octets (dupmsg). What rare kinds carry is not copied.
    pub fn duplicate(&self) -> Message {
        Message {
            kind: self.kind,
            band: self.band,
            control: self.control.as_ref().map(Block::duplicate),
            data: self.data.iter().map(Block::duplicate).collect(),
            extra: None,
        }
    }

    /// Copies the data part from octet `at` on into `buffer`; returns how many.
    pub fn copy_data(&self, at: usize, buffer: &mut [u8]) -> usize {
        let (mut skip, mut done) = (at, 0);
        for block in &self.data {
            let octets = block.octets();
            let from = skip.min(octets.len());
            skip -= from;
            let len = (octets.len() - from).min(buffer.len() - done);
            buffer[done..done + len].copy_from_slice(&octets[from..from + len]);
            done += len;
        }
        done
    }

    /// Drops the first `len` octets of the data part, and blocks that become empty.
    pub fn trim_front(&mut self, mut len: usize, pool: &mut Pool) {
        while len > 0 && !self.data.is_empty() {
            let first = &mut self.data[0];
            if first.len() > len {
                first.keep(len..first.len());
                return;
            }
            len -= first.len();
            pool.release(self.data.remove(0));
        }
    }

    /// Makes the data part one block with `headroom` octets of room in front (pullupmsg).
    pub fn pull_up(&mut self, headroom: usize, pool: &mut Pool) {
        if self.data.len() == 1 && self.data[0].headroom() >= headroom {
            return;
        }
        let mut whole = pool.allocate(headroom, self.data_octets());
        for block in self.data.drain(..) {
            whole.append(block.octets());
            pool.release(block);
        }
        self.data.push(whole);
    }

    /// Gives its blocks back (freemsg).
    #[inline]
    pub fn release(mut self, pool: &mut Pool) {
        if let Some(control) = self.control.take() {
            pool.release(control);
        }
        // Taken one by one: an iterator would move the whole vector first.
        while let Some(block) = self.data.pop() {
            pool.release(block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(pool: &mut Pool, parts: &[&[u8]]) -> Message {
        let mut message = Message::new(MessageKind::Data);
        message.data = parts.iter().map(|part| pool.copy(0, part)).collect();
        message
    }

    #[test]
    fn data_of_several_blocks_is_copied_from_any_octet() {
        let mut pool = Pool::default();
        let message = message(&mut pool, &[b"ab", b"", b"cde"]);
        for at in 0..=5 {
            let mut buffer = [0; 3];
            let len = message.copy_data(at, &mut buffer);
            assert_eq!(&buffer[..len], &b"abcde"[at..(at + 3).min(5)]);
        }
    }

    #[test]
    fn trimmed_message_keeps_the_rest() {
        let mut pool = Pool::default();
        for len in 0..=5 {
            let mut message = message(&mut pool, &[b"ab", b"cde"]);
            message.trim_front(len, &mut pool);
            message.pull_up(8, &mut pool);
            assert_eq!(message.data[0].octets(), &b"abcde"[len..]);
            assert!(message.data[0].prepend(b"headers!"));
        }
    }

    #[test]
    fn high_priority_has_no_band() {
        let message = Message::new(MessageKind::HighProto).in_band(3);
        assert_eq!(message.band(), 0);
        assert_eq!(
            Message::new(MessageKind::Data)
                .in_band(3)
                .into_kind(MessageKind::Flush)
                .band(),
            0
        );
    }

    #[test]
    fn empty_message_counts_as_a_block() {
        assert_eq!(Message::new(MessageKind::Data).blocks(), 1);
        assert_eq!(Message::new(MessageKind::Data).octets(), 0);
    }
}
