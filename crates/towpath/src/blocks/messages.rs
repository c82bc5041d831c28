//! Requests and replies as octets, numbers most significant octet first. A reader takes any octets:
//! what it does not understand is an error with a name.

use super::BLOCK_LEN;
use std::io;

/// Octets of the longest path.
pub(super) const PATH_MAX: usize = 1024;

/// Entries of a folder in a reply: with names of 255 octets they fill a block.
pub(super) const ENTRIES_MAX: usize = BLOCK_LEN / (255 + 19);

/// What a request wants; the code of its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Read = 1,
    Write = 2,
    Commit = 3,
    List = 4,
    Stat = 5,
    StatPart = 6,
}

impl Operation {
    pub(super) fn of_code(code: u64) -> Option<Operation> {
        Some(match code {
            1 => Operation::Read,
            2 => Operation::Write,
            3 => Operation::Commit,
            4 => Operation::List,
            5 => Operation::Stat,
            6 => Operation::StatPart,
            _ => return None,
        })
    }

    /// Whether it changes nothing: its reply, a failure too, is made again for a client that lacks it.
    pub(super) fn is_idempotent(self) -> bool {
        use Operation::{List, Read, Stat, StatPart};
        matches!(self, Read | List | Stat | StatPart)
    }
}

/// Codes of replies: those of users begin here (RFC 1045 section 2.13).
const FAILED: u64 = 0x80_0001;

/// Why a request failed, as the code of its reply; its octets say more.
pub(super) fn code_of(error: &io::Error) -> u64 {
    FAILED
        + match error.kind() {
            io::ErrorKind::NotFound => 1,
            io::ErrorKind::PermissionDenied => 2,
            io::ErrorKind::InvalidInput => 3,
            io::ErrorKind::AlreadyExists => 4,
            io::ErrorKind::StorageFull => 5,
            _ => 0,
        }
}

/// What a reply says; its octets, if it is no failure.
pub(super) fn outcome(code: Option<u64>, octets: Vec<u8>) -> io::Result<Vec<u8>> {
    let code = code.unwrap_or(0);
    if code < FAILED {
        return Ok(octets);
    }
    let kind = match code - FAILED {
        1 => io::ErrorKind::NotFound,
        2 => io::ErrorKind::PermissionDenied,
        3 => io::ErrorKind::InvalidInput,
        4 => io::ErrorKind::AlreadyExists,
        5 => io::ErrorKind::StorageFull,
        _ => io::ErrorKind::Other,
    };
    let text = String::from_utf8_lossy(&octets[..octets.len().min(PATH_MAX)]).into_owned();
    Err(io::Error::new(kind, text))
}

/// A request: which file, which part of it, and the octets of the part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FileRequest {
    /// Within the folder.
    pub(super) path: String,
    /// Tells one transfer to a path from another.
    pub(super) token: u64,
    /// Where the part begins; of a commit, the length of the file.
    pub(super) offset: u64,
    /// Octets wanted, or entries to be left out.
    pub(super) count: u32,
    /// Octets to be written.
    pub(super) data: Vec<u8>,
}

impl FileRequest {
    pub(super) fn emit(&self) -> Vec<u8> {
        let mut octets = Vec::with_capacity(22 + self.path.len() + self.data.len());
        octets.extend(self.token.to_be_bytes());
        octets.extend(self.offset.to_be_bytes());
        octets.extend(self.count.to_be_bytes());
        octets.extend((self.path.len() as u16).to_be_bytes());
        octets.extend(self.path.as_bytes());
        octets.extend(&self.data);
        octets
    }

    pub(super) fn parse(octets: &[u8]) -> io::Result<FileRequest> {
        let mut reader = Reader(octets);
        let (token, offset) = (reader.number::<8>()?, reader.number::<8>()?);
        let count = reader.number::<4>()? as u32;
        let len = reader.number::<2>()? as usize;
        if len > PATH_MAX {
            return Err(malformed("the path is longer than 1024 octets"));
        }
        let path = reader.text(len)?;
        Ok(FileRequest {
            path,
            token,
            offset,
            count,
            data: reader.0.to_vec(),
        })
    }
}

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A file.
    File,
    /// A folder.
    Folder,
    /// Something else, which is not served.
    Other,
}

impl FileKind {
    fn octet(self) -> u8 {
        match self {
            FileKind::File => 0,
            FileKind::Folder => 1,
            FileKind::Other => 2,
        }
    }
}

/// What is known of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStatus {
    /// What it is.
    pub kind: FileKind,
    /// Its octets.
    pub len: u64,
    /// When it was changed last, nanoseconds since 1970.
    pub modified_ns: u64,
}

impl FileStatus {
    pub(super) fn emit(&self) -> Vec<u8> {
        let mut octets = vec![self.kind.octet()];
        octets.extend(self.len.to_be_bytes());
        octets.extend(self.modified_ns.to_be_bytes());
        octets
    }

    pub(super) fn parse(octets: &[u8]) -> io::Result<FileStatus> {
        FileStatus::read(&mut Reader(octets))
    }

    fn read(reader: &mut Reader<'_>) -> io::Result<FileStatus> {
        let kind = match reader.number::<1>()? {
            0 => FileKind::File,
            1 => FileKind::Folder,
            _ => FileKind::Other,
        };
        Ok(FileStatus {
            kind,
            len: reader.number::<8>()?,
            modified_ns: reader.number::<8>()?,
        })
    }
}

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// What is known of it.
    pub status: FileStatus,
}

/// The entries of a reply.
pub(super) fn emit_entries(entries: &[Entry]) -> Vec<u8> {
    let mut octets = Vec::new();
    for entry in entries {
        octets.extend(entry.status.emit());
        octets.extend((entry.name.len() as u16).to_be_bytes());
        octets.extend(entry.name.as_bytes());
    }
    octets
}

/// See [`emit_entries`].
pub(super) fn parse_entries(octets: &[u8]) -> io::Result<Vec<Entry>> {
    let mut reader = Reader(octets);
    let mut entries = Vec::new();
    while !reader.0.is_empty() && entries.len() < ENTRIES_MAX {
        let status = FileStatus::read(&mut reader)?;
        let len = reader.number::<2>()? as usize;
        let name = reader.text(len)?;
        entries.push(Entry { name, status });
    }
    Ok(entries)
}

/// What is left of a message.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn number<const LEN: usize>(&mut self) -> io::Result<u64> {
        let (front, rest) = self
            .0
            .split_first_chunk::<LEN>()
            .ok_or_else(|| malformed("the message ends too early"))?;
        self.0 = rest;
        Ok(front
            .iter()
            .fold(0, |number, octet| number << 8 | u64::from(*octet)))
    }

    fn text(&mut self, len: usize) -> io::Result<String> {
        let (front, rest) = self
            .0
            .split_at_checked(len)
            .ok_or_else(|| malformed("the message ends too early"))?;
        self.0 = rest;
        let text = std::str::from_utf8(front);
        Ok(text
            .map_err(|_| malformed("the path is no UTF-8"))?
            .to_owned())
    }
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::SplitMix64;

    #[test]
    fn requests_statuses_and_entries_make_the_round_trip() {
        let request = FileRequest {
            path: "a/b".to_owned(),
            token: 7,
            offset: 1 << 40,
            count: 16_384,
            data: vec![1, 2, 3],
        };
        assert_eq!(FileRequest::parse(&request.emit()).expect("whole"), request);
        let status = FileStatus {
            kind: FileKind::Folder,
            len: 5,
            modified_ns: 9,
        };
        assert_eq!(FileStatus::parse(&status.emit()).expect("whole"), status);
        let entries = vec![
            Entry {
                name: "x".to_owned(),
                status,
            },
            Entry {
                name: "yy".repeat(100),
                status,
            },
        ];
        assert_eq!(
            parse_entries(&emit_entries(&entries)).expect("whole"),
            entries
        );
    }

    #[test]
    fn drawn_octets_are_parsed_or_refused() {
        let mut random = SplitMix64::new(1);
        let mut parsed = 0;
        for _ in 0..20_000 {
            let len = random.below(60);
            let mut octets: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
            if octets.len() > 21 {
                octets[20] = 0;
                octets[21] %= 16;
            }
            parsed += u32::from(FileRequest::parse(&octets).is_ok());
            let _ = parse_entries(&octets);
            let _ = FileStatus::parse(&octets);
        }
        assert!(parsed > 100, "{parsed} were parsed");
    }

    #[test]
    fn failures_keep_their_kind_and_their_text() {
        for kind in [
            io::ErrorKind::NotFound,
            io::ErrorKind::PermissionDenied,
            io::ErrorKind::InvalidInput,
            io::ErrorKind::AlreadyExists,
            io::ErrorKind::StorageFull,
            io::ErrorKind::Other,
        ] {
            let code = code_of(&io::Error::from(kind));
            let error = outcome(Some(code), b"why".to_vec()).expect_err("a failure");
            assert_eq!((error.kind(), error.to_string().as_str()), (kind, "why"));
        }
        assert_eq!(outcome(Some(0), vec![1]).expect("no failure"), [1]);
    }
}
