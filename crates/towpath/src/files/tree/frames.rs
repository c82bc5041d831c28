//! What the ends of a tree's transfer say to one another: frames, and how they are encoded.
//!
//! The sender says what there is, and the receiver answers each entry in their order with what it lacks of it; contents
//! follow in the order of those answers. Nobody waits for an answer before the next entry, so that many small files
//! take no round trip each. All numbers are big-endian.

use super::super::protocol::{SHA256_LEN, Sha256};
use super::path::{PATH_MAX, TreePath};
use std::io::{self, ErrorKind};

/// Octets of content in a frame at most.
pub(super) const DATA_MAX: usize = 64 << 10;

/// Longest reason, octets.
const REASON_MAX: usize = 512;

/// Octets of the longest frame.
pub(super) const FRAME_MAX: usize = 1 + 4 + DATA_MAX;

/// Permission bits and modification time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attributes {
    /// Read, write and execute of owner, group and others: nine bits.
    pub(super) mode: u16,
    /// Seconds since 1970, and nanoseconds below 10^9.
    pub(super) mtime_s: i64,
    pub(super) mtime_ns: u32,
}

/// What a sender says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SenderFrame<'a> {
    /// Files and bytes that will come, for a progress bar.
    Totals { files: u64, bytes: u64 },
    /// A file, with its digest if the receiver said that one of its name and size exists.
    File {
        path: TreePath,
        attributes: Attributes,
        size: u64,
        sha256: Option<Sha256>,
    },
    /// A folder; its attributes follow in `FolderEnd`.
    Folder { path: TreePath },
    /// A symbolic link.
    Link { path: TreePath, target: &'a [u8] },
    /// All of a folder has arrived.
    FolderEnd {
        path: TreePath,
        attributes: Attributes,
    },
    /// The content of the next file that was wanted begins at this offset.
    Content { from: u64 },
    /// Octets of it.
    Data(&'a [u8]),
    /// It is whole: the digest of the whole file.
    End { sha256: Sha256 },
    /// The next file that was wanted, or the one whose content has begun, does not come.
    GiveUp { reason: &'a [u8] },
    /// Something of the tree that the sender does not send.
    LeftOut { path: TreePath, reason: &'a [u8] },
    /// Nothing follows.
    Finish,
}

/// What a receiver says: to each entry one of the first five in the entries' order, to each content `Stored` or
/// `Failed` in the contents' order, and at last `Finished`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ReceiverFrame<'a> {
    /// Send the file from its beginning.
    WantAll,
    /// So much of the file is here, with this digest; send the rest, or all.
    WantRest { len: u64, sha256: Sha256 },
    /// A file of this name and size exists: offer it again with its digest.
    Exists,
    /// Nothing is lacking.
    Done,
    /// It is not taken.
    Refused { reason: &'a [u8] },
    /// The file has its name.
    Stored,
    /// The content was of no use.
    Failed { reason: &'a [u8] },
    /// All that came is on the disk; or why the transfer ends.
    Finished { reason: &'a [u8] },
}

/// Why octets give no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameError {
    /// More octets have to come.
    Incomplete,
    /// No peer of this protocol sends that.
    Invalid(&'static str),
}

impl From<FrameError> for io::Error {
    fn from(error: FrameError) -> io::Error {
        match error {
            FrameError::Incomplete => ErrorKind::UnexpectedEof.into(),
            FrameError::Invalid(what) => io::Error::new(ErrorKind::InvalidData, what),
        }
    }
}

impl SenderFrame<'_> {
    /// First octet of `Data`, whose length of four octets and octets follow.
    pub(super) const DATA_KIND: u8 = 7;

    /// The frame at the beginning of `octets`, and how many it takes.
    pub(super) fn decode(octets: &[u8]) -> Result<(SenderFrame<'_>, usize), FrameError> {
        let mut cursor = Cursor { octets, at: 0 };
        let frame = match cursor.octet()? {
            1 => SenderFrame::Totals {
                files: cursor.u64()?,
                bytes: cursor.u64()?,
            },
            2 => SenderFrame::File {
                path: cursor.path()?,
                attributes: cursor.attributes()?,
                size: cursor.u64()?,
                sha256: match cursor.octet()? {
                    0 => None,
                    1 => Some(cursor.array()?),
                    _ => return Err(FrameError::Invalid("the peer's file entry is invalid")),
                },
            },
            3 => SenderFrame::Folder {
                path: cursor.path()?,
            },
            4 => SenderFrame::Link {
                path: cursor.path()?,
                target: cursor.text(PATH_MAX)?,
            },
            5 => SenderFrame::FolderEnd {
                path: cursor.path()?,
                attributes: cursor.attributes()?,
            },
            6 => SenderFrame::Content {
                from: cursor.u64()?,
            },
            Self::DATA_KIND => SenderFrame::Data(cursor.data()?),
            8 => SenderFrame::End {
                sha256: cursor.array()?,
            },
            9 => SenderFrame::GiveUp {
                reason: cursor.text(REASON_MAX)?,
            },
            10 => SenderFrame::LeftOut {
                path: cursor.path()?,
                reason: cursor.text(REASON_MAX)?,
            },
            11 => SenderFrame::Finish,
            _ => return Err(FrameError::Invalid("the peer's frame is of no known kind")),
        };
        Ok((frame, cursor.at))
    }

    pub(super) fn encode(&self, to: &mut Vec<u8>) {
        match self {
            SenderFrame::Totals { files, bytes } => {
                to.push(1);
                to.extend(files.to_be_bytes());
                to.extend(bytes.to_be_bytes());
            }
            SenderFrame::File {
                path,
                attributes,
                size,
                sha256,
            } => {
                to.push(2);
                put_text(to, path.octets(), PATH_MAX);
                put_attributes(to, attributes);
                to.extend(size.to_be_bytes());
                to.push(u8::from(sha256.is_some()));
                to.extend(sha256.iter().flatten());
            }
            SenderFrame::Folder { path } => {
                to.push(3);
                put_text(to, path.octets(), PATH_MAX);
            }
            SenderFrame::Link { path, target } => {
                to.push(4);
                put_text(to, path.octets(), PATH_MAX);
                put_text(to, target, PATH_MAX);
            }
            SenderFrame::FolderEnd { path, attributes } => {
                to.push(5);
                put_text(to, path.octets(), PATH_MAX);
                put_attributes(to, attributes);
            }
            SenderFrame::Content { from } => {
                to.push(6);
                to.extend(from.to_be_bytes());
            }
            SenderFrame::Data(octets) => {
                to.push(Self::DATA_KIND);
                to.extend((octets.len() as u32).to_be_bytes());
                to.extend(*octets);
            }
            SenderFrame::End { sha256 } => {
                to.push(8);
                to.extend(sha256);
            }
            SenderFrame::GiveUp { reason } => put_reason(to, 9, reason),
            SenderFrame::LeftOut { path, reason } => {
                to.push(10);
                put_text(to, path.octets(), PATH_MAX);
                put_text(to, reason, REASON_MAX);
            }
            SenderFrame::Finish => to.push(11),
        }
    }
}

impl ReceiverFrame<'_> {
    /// The frame at the beginning of `octets`, and how many it takes.
    pub(super) fn decode(octets: &[u8]) -> Result<(ReceiverFrame<'_>, usize), FrameError> {
        let mut cursor = Cursor { octets, at: 0 };
        let frame = match cursor.octet()? {
            1 => ReceiverFrame::WantAll,
            2 => ReceiverFrame::WantRest {
                len: cursor.u64()?,
                sha256: cursor.array()?,
            },
            3 => ReceiverFrame::Exists,
            4 => ReceiverFrame::Done,
            5 => ReceiverFrame::Refused {
                reason: cursor.text(REASON_MAX)?,
            },
            6 => ReceiverFrame::Stored,
            7 => ReceiverFrame::Failed {
                reason: cursor.text(REASON_MAX)?,
            },
            8 => ReceiverFrame::Finished {
                reason: cursor.text(REASON_MAX)?,
            },
            _ => return Err(FrameError::Invalid("the peer's answer is of no known kind")),
        };
        Ok((frame, cursor.at))
    }

    pub(super) fn encode(&self, to: &mut Vec<u8>) {
        match self {
            ReceiverFrame::WantAll => to.push(1),
            ReceiverFrame::WantRest { len, sha256 } => {
                to.push(2);
                to.extend(len.to_be_bytes());
                to.extend(sha256);
            }
            ReceiverFrame::Exists => to.push(3),
            ReceiverFrame::Done => to.push(4),
            ReceiverFrame::Refused { reason } => put_reason(to, 5, reason),
            ReceiverFrame::Stored => to.push(6),
            ReceiverFrame::Failed { reason } => put_reason(to, 7, reason),
            ReceiverFrame::Finished { reason } => put_reason(to, 8, reason),
        }
    }
}

fn put_reason(to: &mut Vec<u8>, kind: u8, reason: &[u8]) {
    to.push(kind);
    put_text(to, reason, REASON_MAX);
}

/// A length of two octets, and as much of the text as may be.
fn put_text(to: &mut Vec<u8>, text: &[u8], most: usize) {
    let text = &text[..text.len().min(most)];
    to.extend((text.len() as u16).to_be_bytes());
    to.extend(text);
}

fn put_attributes(to: &mut Vec<u8>, attributes: &Attributes) {
    to.extend(attributes.mode.to_be_bytes());
    to.extend(attributes.mtime_s.to_be_bytes());
    to.extend(attributes.mtime_ns.to_be_bytes());
}

/// Reads octets in order.
struct Cursor<'a> {
    octets: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], FrameError> {
        let end = self.at + len;
        let taken = self.octets.get(self.at..end);
        self.at = end;
        taken.ok_or(FrameError::Incomplete)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], FrameError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn octet(&mut self) -> Result<u8, FrameError> {
        Ok(self.array::<1>()?[0])
    }

    fn u64(&mut self) -> Result<u64, FrameError> {
        self.array().map(u64::from_be_bytes)
    }

    fn text(&mut self, most: usize) -> Result<&'a [u8], FrameError> {
        let len = usize::from(u16::from_be_bytes(self.array()?));
        match len <= most {
            true => self.take(len),
            false => Err(FrameError::Invalid(
                "the peer's text exceeds the maximum length",
            )),
        }
    }

    fn data(&mut self) -> Result<&'a [u8], FrameError> {
        let len = u32::from_be_bytes(self.array()?) as usize;
        match (1..=DATA_MAX).contains(&len) {
            true => self.take(len),
            false => Err(FrameError::Invalid(
                "the peer's data have an invalid length",
            )),
        }
    }

    fn path(&mut self) -> Result<TreePath, FrameError> {
        let octets = self.text(PATH_MAX)?;
        TreePath::parse(octets).ok_or(FrameError::Invalid("the peer's path leaves the tree"))
    }

    fn attributes(&mut self) -> Result<Attributes, FrameError> {
        let attributes = Attributes {
            mode: u16::from_be_bytes(self.array()?),
            mtime_s: i64::from_be_bytes(self.array()?),
            mtime_ns: u32::from_be_bytes(self.array()?),
        };
        match attributes.mode <= 0o777 && attributes.mtime_ns < 1_000_000_000 {
            true => Ok(attributes),
            false => Err(FrameError::Invalid("the peer's mode or time is invalid")),
        }
    }
}

/// Decodes `octets` as a sender's and as a receiver's frames, and encodes each again; how many there were.
///
/// # Panics
///
/// When a frame is not encoded as it came, or exceeds the longest.
pub(super) fn decode_all(octets: &[u8]) -> usize {
    let mut count = 0;
    let mut rest = octets;
    while let Ok((frame, len)) = SenderFrame::decode(rest) {
        let mut again = Vec::new();
        frame.encode(&mut again);
        assert_eq!(again, rest[..len], "a sender's frame");
        assert!(len <= FRAME_MAX);
        (rest, count) = (&rest[len..], count + 1);
    }
    rest = octets;
    while let Ok((frame, len)) = ReceiverFrame::decode(rest) {
        let mut again = Vec::new();
        frame.encode(&mut again);
        assert_eq!(again, rest[..len], "a receiver's frame");
        (rest, count) = (&rest[len..], count + 1);
    }
    count
}

const _: () = assert!(FRAME_MAX > 3 * PATH_MAX + SHA256_LEN);

#[cfg(test)]
mod tests;
