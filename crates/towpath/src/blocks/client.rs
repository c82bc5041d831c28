//! The client of a storage server.

use super::messages::{self, ENTRIES_MAX, Entry, FileRequest, FileStatus, Operation};
use super::{BLOCK_LEN, SERVICE_NAME};
use crate::vmtp::{Call, CallFailed, Client, Endpoint, EndpointConfig, EntityId, Note, discovery};
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// Blocks on their way at a time: 8 of 16 KiB.
const WINDOW: usize = 8;

/// Octets of data in a request, which has a path in front: such a request is one packet group.
const WRITE_LEN: usize = BLOCK_LEN - messages::PATH_MAX - 22;

/// What a transfer has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Octets of the file.
    pub total: u64,
    /// Octets that were there when it began.
    pub resumed_at: u64,
}

/// A client of a storage server.
pub struct BlockClient {
    endpoint: Endpoint,
    caller: EntityId,
    server: EntityId,
    limit: Duration,
}

impl BlockClient {
    /// A client of the server at `at`, each of whose blocks may take up to `limit`.
    ///
    /// # Errors
    ///
    /// Those of binding a socket.
    pub fn new(at: SocketAddr, limit: Duration) -> io::Result<BlockClient> {
        let any = match at.is_ipv4() {
            true => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            false => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        };
        let endpoint = Endpoint::bind(any, &EndpointConfig::default())?;
        let server = discovery::entity_of_name(SERVICE_NAME);
        endpoint.locate(server, at);
        let caller = endpoint.create_client()?.entity();
        Ok(BlockClient {
            endpoint,
            caller,
            server,
            limit,
        })
    }

    /// What is known of a file.
    ///
    /// # Errors
    ///
    /// The server's, or `TimedOut`.
    pub fn stat(&self, path: &str) -> io::Result<FileStatus> {
        let client = self.endpoint.client_of(self.caller);
        let reply = self.call(&client, Operation::Stat, &request(path))?;
        FileStatus::parse(&reply)
    }

    /// The entries of a folder, by name.
    ///
    /// # Errors
    ///
    /// The server's, or `TimedOut`.
    pub fn list(&self, path: &str) -> io::Result<Vec<Entry>> {
        let client = self.endpoint.client_of(self.caller);
        let mut all: Vec<Entry> = Vec::new();
        loop {
            let asked = FileRequest {
                count: all.len() as u32,
                ..request(path)
            };
            let reply = self.call(&client, Operation::List, &asked)?;
            let entries = messages::parse_entries(&reply)?;
            let is_last = entries.len() < ENTRIES_MAX;
            all.extend(entries);
            if is_last {
                all.sort_by(|a, b| a.name.cmp(&b.name));
                return Ok(all);
            }
        }
    }

    /// Gets a file. An interrupted transfer goes on where it stopped, unless the file was changed.
    ///
    /// # Errors
    ///
    /// The server's, those of writing the file, or `TimedOut`.
    pub fn get(&self, path: &str, to: &Path) -> io::Result<Progress> {
        let status = self.stat(path)?;
        let part = part_path(to, token_of(&[status.len, status.modified_ns]))?;
        let file = OpenOptions::new();
        let file = file
            .clone()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&part)?;
        // All below the length is there: blocks are written in order.
        let resumed_at = file.metadata()?.len().min(status.len);
        let client = self.endpoint.client_of(self.caller);
        let mut calls: VecDeque<(u64, usize, Call)> = VecDeque::new();
        let (mut asked, mut written) = (resumed_at, resumed_at);
        while written < status.len {
            while asked < status.len && calls.len() < WINDOW {
                let len = (status.len - asked).min(BLOCK_LEN as u64);
                let read = FileRequest {
                    offset: asked,
                    count: len as u32,
                    ..request(path)
                };
                let call = self.begin(&client, Operation::Read, &read);
                calls.push_back((asked, len as usize, call));
                asked += len;
            }
            let Some((offset, len, call)) = calls.pop_front() else {
                break;
            };
            let block = self.take(&client, &call)?;
            if block.len() != len {
                let text = format!("{path} got shorter while it was read; get it again");
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
            }
            file.write_all_at(&block, offset)?;
            written += len as u64;
        }
        if self.stat(path)? != status {
            std::fs::remove_file(&part)?;
            let text = format!("{path} was changed while it was read; get it again");
            return Err(io::Error::other(text));
        }
        file.sync_all()?;
        std::fs::rename(&part, to)?;
        Ok(Progress {
            total: status.len,
            resumed_at,
        })
    }

    /// Puts a file. An interrupted transfer of the same file goes on where it stopped.
    ///
    /// # Errors
    ///
    /// The server's, those of reading the file, or `TimedOut`.
    pub fn put(&self, from: &Path, path: &str) -> io::Result<Progress> {
        let file = File::open(from)?;
        let metadata = file.metadata()?;
        let modified = metadata.modified()?.duration_since(UNIX_EPOCH);
        let modified_ns = modified.unwrap_or_default().as_nanos() as u64;
        let token = token_of(&[metadata.len(), modified_ns]);
        let client = self.endpoint.client_of(self.caller);
        let asked = FileRequest {
            token,
            ..request(path)
        };
        let resumed_at = match self.call(&client, Operation::StatPart, &asked) {
            Ok(status) => FileStatus::parse(&status)?.len.min(metadata.len()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
        // The last blocks may have been written out of order.
        let resumed_at = resumed_at.saturating_sub((WINDOW * WRITE_LEN) as u64);
        self.write_blocks(&client, &file, &asked, resumed_at..metadata.len())?;
        let commit = FileRequest {
            offset: metadata.len(),
            ..asked
        };
        self.call(&client, Operation::Commit, &commit)?;
        Ok(Progress {
            total: metadata.len(),
            resumed_at,
        })
    }

    fn write_blocks(
        &self,
        client: &Client<'_>,
        file: &File,
        asked: &FileRequest,
        range: std::ops::Range<u64>,
    ) -> io::Result<()> {
        let mut calls: VecDeque<Call> = VecDeque::new();
        let mut at = range.start;
        // An empty file is written too.
        let mut is_first = true;
        while at < range.end || !calls.is_empty() || is_first {
            if (at < range.end || is_first) && calls.len() < WINDOW {
                is_first = false;
                let mut data = vec![0; (range.end - at).min(WRITE_LEN as u64) as usize];
                file.read_exact_at(&mut data, at)?;
                let len = data.len() as u64;
                let write = FileRequest {
                    offset: at,
                    data,
                    ..asked.clone()
                };
                calls.push_back(self.begin(client, Operation::Write, &write));
                at += len;
                continue;
            }
            if let Some(call) = calls.pop_front() {
                self.take(client, &call)?;
            }
        }
        Ok(())
    }

    fn call(
        &self,
        client: &Client<'_>,
        operation: Operation,
        request: &FileRequest,
    ) -> io::Result<Vec<u8>> {
        let call = self.begin(client, operation, request);
        self.take(client, &call)
    }

    fn begin(&self, client: &Client<'_>, operation: Operation, request: &FileRequest) -> Call {
        let note = Note {
            tag: Some(operation as u64),
            ..Note::default()
        };
        client.begin(self.server, request.emit(), &note)
    }

    fn take(&self, client: &Client<'_>, call: &Call) -> io::Result<Vec<u8>> {
        let taken = client.take(call, self.limit);
        let reply = taken
            .ok_or_else(no_answer)?
            .map_err(|error| match error.kind() {
                io::ErrorKind::TimedOut => no_answer(),
                // A write is refused with a text, of which a server that dies sends a part.
                _ if CallFailed::of(&error).is_some_and(CallFailed::is_partial_reply) => {
                    no_answer()
                }
                io::ErrorKind::ConnectionRefused => io::Error::new(
                    error.kind(),
                    "there is no storage server; start `towpath blocks serve DIR` there",
                ),
                _ => error,
            })?;
        messages::outcome(reply.note.tag, reply.octets)
    }
}

fn no_answer() -> io::Error {
    let text = "the storage server does not answer; check its address, and that it runs";
    io::Error::new(io::ErrorKind::TimedOut, text)
}

fn request(path: &str) -> FileRequest {
    FileRequest {
        path: path.to_owned(),
        ..FileRequest::default()
    }
}

/// Tells one state of a file from another.
fn token_of(numbers: &[u64]) -> u64 {
    let octets: Vec<u8> = numbers
        .iter()
        .flat_map(|number| number.to_be_bytes())
        .collect();
    engine::siphash([0, 0], &octets)
}

/// The hidden name of a file that is not whole.
fn part_path(to: &Path, token: u64) -> io::Result<PathBuf> {
    let name = to
        .file_name()
        .and_then(|name| name.to_str())
        .ok_or_else(|| {
            let text = format!("{} is no name of a file", to.display());
            io::Error::new(io::ErrorKind::InvalidInput, text)
        })?;
    Ok(to.with_file_name(format!(".{name}.{token:016x}.part")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    const LIMIT: Duration = Duration::from_secs(20);

    /// A folder, removed on drop.
    struct Scratch(PathBuf);

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn with_server(folder: &Path, act: impl FnOnce(&BlockClient)) {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let endpoint = Endpoint::bind(any, &EndpointConfig::default()).expect("a port");
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let is_over = || over.load(Ordering::Relaxed);
                super::super::serve(&endpoint, folder, 1, is_over)
            });
            let client = BlockClient::new(endpoint.local_addr(), LIMIT).expect("a client");
            // The service's name is held when it answers.
            while client.stat("").is_err() {}
            act(&client);
            over.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn interrupted_transfers_go_on_where_they_stopped() {
        let scratch =
            Scratch(std::env::temp_dir().join(format!("towpath-blocks-{}", std::process::id())));
        let served = scratch.0.join("served");
        std::fs::create_dir_all(&served).expect("a folder");
        let (file, copy) = (served.join("file"), scratch.0.join("copy"));
        std::fs::write(&file, vec![7; 500_000]).expect("room");
        with_server(&served, |client| {
            let status = client.stat("file").expect("it is there");
            let token = token_of(&[status.len, status.modified_ns]);
            let part = part_path(&copy, token).expect("a name");
            std::fs::write(&part, vec![1; 300_000]).expect("room");
            let progress = client.get("file", &copy).expect("it is got");
            assert_eq!(progress.resumed_at, 300_000);
            let mut got = std::fs::read(&copy).expect("it is here");
            assert!(got.len() == 500_000 && got[299_999] == 1 && got[300_000] == 7);
            // What is put goes on, too, some blocks before the end of what was written.
            got[0] = 9;
            std::fs::write(&copy, &got).expect("room");
            let modified = copy
                .metadata()
                .and_then(|data| data.modified())
                .expect("a time");
            let modified = modified.duration_since(UNIX_EPOCH).expect("after 1970");
            let token = token_of(&[500_000, modified.as_nanos() as u64]);
            let part = served.join(format!(".put.{token:016x}.part"));
            std::fs::write(&part, vec![3; 400_000]).expect("room");
            let progress = client.put(&copy, "put").expect("it is put");
            let resumed_at = 400_000 - (WINDOW * WRITE_LEN) as u64;
            assert_eq!(progress.resumed_at, resumed_at);
            let put = std::fs::read(served.join("put")).expect("it is there");
            assert!(put[0] == 3 && put[resumed_at as usize..] == got[resumed_at as usize..]);
        });
    }
}
