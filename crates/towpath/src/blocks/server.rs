//! The server of a folder.

use super::folder::Folder;
use super::messages::{self, FileRequest, Operation};
use super::{BLOCK_LEN, SERVICE_NAME};
use crate::vmtp::{Endpoint, EntityId, Note, Reliability, Request};
use std::io;
use std::path::Path;
use std::time::Duration;

/// How often a server that is idle looks whether it is to end.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A server of a folder at an endpoint.
pub struct BlockServer<'a> {
    endpoint: &'a Endpoint,
    folder: Folder,
    entity: EntityId,
}

/// Serves `folder` at `endpoint` with `threads` threads until `is_over`, which is asked every 50 ms
/// of silence.
///
/// # Errors
///
/// Those of opening the folder, or `Other` for an endpoint without room for an entity.
pub fn serve(
    endpoint: &Endpoint,
    folder: &Path,
    threads: usize,
    is_over: impl Fn() -> bool + Sync,
) -> io::Result<()> {
    let server = BlockServer::new(endpoint, folder)?;
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while !is_over() {
                    server.serve_one(LOOK_EVERY);
                }
            });
        }
    });
    Ok(())
}

impl BlockServer<'_> {
    /// A server of `folder` at `endpoint`. Errors are those of [`serve`].
    pub fn new<'a>(endpoint: &'a Endpoint, folder: &Path) -> io::Result<BlockServer<'a>> {
        let folder = Folder::open(folder)?;
        let entity = endpoint.hold_name(SERVICE_NAME)?;
        Ok(BlockServer {
            endpoint,
            folder,
            entity,
        })
    }

    /// Answers the next request, waiting for it up to `limit`.
    pub fn serve_one(&self, limit: Duration) {
        let Ok(request) = self.endpoint.receive(limit) else {
            return;
        };
        if request.to != self.entity {
            return self.endpoint.refuse(request);
        }
        let operation = Operation::of_code(request.note.tag.unwrap_or(0));
        let is_idempotent = operation.is_some_and(Operation::is_idempotent);
        let (reply, note) = match self.execute(operation, &request) {
            Ok(reply) => (reply, note(0, is_idempotent)),
            Err(error) => {
                let text = error.to_string().into_bytes();
                (text, note(messages::code_of(&error), is_idempotent))
            }
        };
        self.endpoint.reply_noted(request, reply, &note);
    }

    /// The reply.
    fn execute(&self, operation: Option<Operation>, request: &Request) -> io::Result<Vec<u8>> {
        let operation = operation.ok_or_else(|| {
            let text = "the request is none of a storage server's";
            io::Error::new(io::ErrorKind::InvalidInput, text)
        })?;
        let asked = FileRequest::parse(&request.octets)?;
        let (path, folder) = (asked.path.as_str(), &self.folder);
        Ok(match operation {
            Operation::Read => folder.read(path, asked.offset, asked.count)?,
            Operation::Write => {
                if asked.data.len() > BLOCK_LEN {
                    let text = "a block has at most 16384 octets";
                    return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
                }
                folder.write(path, asked.token, asked.offset, &asked.data)?;
                Vec::new()
            }
            Operation::Commit => {
                folder.commit(path, asked.token, asked.offset)?;
                Vec::new()
            }
            Operation::List => {
                let entries = folder.list(path, asked.count)?;
                messages::emit_entries(&entries)
            }
            Operation::Stat => folder.stat(path)?.emit(),
            Operation::StatPart => folder.stat_part(path, asked.token)?.emit(),
        })
    }
}

fn note(code: u64, is_idempotent: bool) -> Note {
    Note {
        tag: Some(code),
        reliability: match is_idempotent {
            true => Reliability::Retransmissions(0),
            false => Reliability::Full,
        },
        ..Note::default()
    }
}
