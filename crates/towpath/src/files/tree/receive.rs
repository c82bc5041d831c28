//! The receiving end of a tree's transfer, whichever end asked for it.

use super::super::partial_file::{FileHasher, PartialFile};
use super::super::protocol::Sha256;
use super::frames::{Attributes, ReceiverFrame, SenderFrame};
use super::path::TreePath;
use super::store::{Found, SMALL_MAX, TreeStore, set_attributes};
use super::stream::{FrameStream, whole};
use super::{CopiedTree, STOP_POLL_INTERVAL, TreeProgress, WINDOW};
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// A file whose content the sender was asked for.
struct Wanted {
    path: TreePath,
    attributes: Attributes,
    size: u64,
    part: Option<Box<PartialFile>>,
}

/// The content that comes now.
enum Incoming {
    /// Short: in memory until it was verified.
    Small(Wanted, Vec<u8>),
    /// Into a partial file.
    Large(Wanted, Box<PartialFile>),
    /// It cannot be stored; it is skipped, and why is said at its end.
    Useless(TreePath, String),
}

/// What is known of a transfer at its receiving end.
pub(super) struct TreeReceiver<'a> {
    store: TreeStore,
    wanted: VecDeque<Wanted>,
    incoming: Option<Incoming>,
    /// Bytes that the sender has to read and hash before it goes on.
    hashed_bytes: u64,
    copied: CopiedTree,
    progress: TreeProgress,
    tell: &'a mut dyn FnMut(TreeProgress),
}

/// Receives a tree into `store`; what came of it is in `copied` also when it fails.
/// Errors are those of the circuit, `StorageFull`, `InvalidData` for a peer that breaks the protocol, `Interrupted`
/// once `stop` is set.
pub(super) fn receive(
    stream: &mut FrameStream,
    store: TreeStore,
    stop: &AtomicBool,
    copied: &mut CopiedTree,
    tell: &mut dyn FnMut(TreeProgress),
) -> io::Result<()> {
    let mut receiver = TreeReceiver {
        store,
        wanted: VecDeque::new(),
        incoming: None,
        hashed_bytes: 0,
        copied: CopiedTree::default(),
        progress: TreeProgress::default(),
        tell,
    };
    let mut result = receiver.run(stream, stop);
    if result.is_ok() {
        result = receiver.store.sync();
    }
    *copied = receiver.copied;
    let reason = result.as_ref().err().map(ToString::to_string);
    let reason = reason.as_deref().unwrap_or_default().as_bytes();
    ReceiverFrame::Finished { reason }.encode(&mut stream.output);
    // If it cannot be sent, the peer is gone, and the result says so already, or does not depend on it.
    let _ = stream.send_all();
    result
}

impl TreeReceiver<'_> {
    fn run(&mut self, stream: &mut FrameStream, stop: &AtomicBool) -> io::Result<()> {
        let mut answers = Vec::new();
        loop {
            while let Some((frame, len)) = whole(SenderFrame::decode(stream.arrived()))? {
                let over = self.handle(frame, &mut answers)?;
                stream.output.append(&mut answers);
                stream.take(len);
                if over {
                    return Ok(());
                }
            }
            (self.tell)(self.progress);
            stream.send_all()?;
            stream.fill(STOP_POLL_INTERVAL)?;
            stream.check(self.hashed_bytes)?;
            if stop.load(Ordering::Relaxed) {
                let text = "the receiver is stopping; send the tree again later to resume here";
                return Err(io::Error::new(ErrorKind::Interrupted, text));
            }
            if let Some(Incoming::Large(_, part)) = &self.incoming {
                part.check_held()?;
            }
        }
    }

    /// Handles a frame and encodes the answer to it; true after the last one.
    fn handle(&mut self, frame: SenderFrame<'_>, answers: &mut Vec<u8>) -> io::Result<bool> {
        match frame {
            SenderFrame::Totals { files, bytes } => {
                self.progress.files_total = Some(files);
                self.progress.bytes_total = Some(bytes);
            }
            SenderFrame::File {
                path,
                attributes,
                size,
                sha256,
            } => {
                self.store.book(0)?;
                let wanted = Wanted {
                    path,
                    attributes,
                    size,
                    part: None,
                };
                self.answer_file(wanted, sha256, answers)?;
            }
            SenderFrame::Folder { path } => {
                self.store.book(0)?;
                let made = self.store.make_folder(&path);
                self.answer_done(&path, made, answers);
            }
            SenderFrame::Link { path, target } => {
                self.store.book(0)?;
                let made = self.store.make_link(&path, target);
                self.answer_done(&path, made, answers);
            }
            SenderFrame::FolderEnd { path, attributes } => {
                let finished = self.store.finish_folder(&path, &attributes);
                self.answer_done(&path, finished, answers);
            }
            SenderFrame::Content { from } => self.begin(from)?,
            SenderFrame::Data(octets) => self.append(octets)?,
            SenderFrame::End { sha256 } => self.end(&sha256, answers)?,
            SenderFrame::GiveUp { reason } => self.give_up(reason)?,
            SenderFrame::LeftOut { path, reason } => {
                self.copied.fail(&path, &String::from_utf8_lossy(reason));
            }
            SenderFrame::Finish => {
                let is_over = self.wanted.is_empty() && self.incoming.is_none();
                return is_over.then_some(true).ok_or_else(out_of_order);
            }
        }
        Ok(false)
    }

    /// Answers the offer of a file.
    fn answer_file(
        &mut self,
        mut wanted: Wanted,
        sha256: Option<Sha256>,
        answers: &mut Vec<u8>,
    ) -> io::Result<()> {
        if self.wanted.len() >= WINDOW {
            return Err(invalid_data(
                "the peer offers more files at once than it may",
            ));
        }
        if let Some(sha256) = sha256 {
            self.hashed_bytes = self.hashed_bytes.saturating_sub(wanted.size);
            match self.store.is_same(&wanted.path, wanted.size, &sha256) {
                Ok(true) => {
                    self.copied.files += 1;
                    self.copied.files_present += 1;
                    self.note_file(wanted.size);
                    ReceiverFrame::Done.encode(answers);
                }
                Ok(false) => self.want_all(wanted, answers),
                Err(error) => self.refuse(&wanted.path, &error, answers),
            }
            return Ok(());
        }
        match self.store.look_up(&wanted.path, wanted.size) {
            Ok(Found::Nothing) => self.want_all(wanted, answers),
            Ok(Found::SameSize) => {
                self.hashed_bytes = self.hashed_bytes.saturating_add(wanted.size);
                ReceiverFrame::Exists.encode(answers);
            }
            Ok(Found::Part(part)) if part.len() == 0 => {
                wanted.part = Some(part);
                self.want_all(wanted, answers);
            }
            Ok(Found::Part(part)) => {
                self.hashed_bytes = self.hashed_bytes.saturating_add(part.len());
                let (len, sha256) = (part.len(), part.digest());
                ReceiverFrame::WantRest { len, sha256 }.encode(answers);
                wanted.part = Some(part);
                self.wanted.push_back(wanted);
            }
            Err(error) => self.refuse(&wanted.path, &error, answers),
        }
        Ok(())
    }

    fn want_all(&mut self, wanted: Wanted, answers: &mut Vec<u8>) {
        ReceiverFrame::WantAll.encode(answers);
        self.wanted.push_back(wanted);
    }

    fn answer_done(&mut self, path: &TreePath, done: io::Result<()>, answers: &mut Vec<u8>) {
        match done {
            Ok(()) => ReceiverFrame::Done.encode(answers),
            Err(error) => self.refuse(path, &error, answers),
        }
    }

    fn refuse(&mut self, path: &TreePath, error: &io::Error, answers: &mut Vec<u8>) {
        let reason = error.to_string();
        self.copied.fail(path, &reason);
        let reason = reason.as_bytes();
        ReceiverFrame::Refused { reason }.encode(answers);
    }

    /// The next wanted content begins at `from`.
    fn begin(&mut self, from: u64) -> io::Result<()> {
        let mut wanted = self.wanted.pop_front().ok_or_else(out_of_order)?;
        if self.incoming.is_some() {
            return Err(out_of_order());
        }
        let part = wanted.part.take();
        let part_len = part.as_ref().map_or(0, |part| part.len());
        self.hashed_bytes = self.hashed_bytes.saturating_sub(part_len);
        if from > part_len {
            return Err(invalid_data(
                "the peer resumes beyond the end of the partial file",
            ));
        }
        self.store.book(wanted.size - from)?;
        self.progress.bytes += from;
        if wanted.size <= SMALL_MAX && part.is_none() {
            let content = Vec::with_capacity(wanted.size as usize);
            self.incoming = Some(Incoming::Small(wanted, content));
            return Ok(());
        }
        let part = match part {
            Some(part) => Ok(part),
            None => self
                .store
                .open_partial(&wanted.path, wanted.size)
                .map(Box::new),
        };
        let part = part.and_then(|mut part| part.truncate_to(from).map(|()| part));
        self.incoming = Some(match part {
            Ok(part) => Incoming::Large(wanted, part),
            Err(error) => Incoming::Useless(wanted.path, error.to_string()),
        });
        Ok(())
    }

    /// Octets of the content that comes.
    fn append(&mut self, octets: &[u8]) -> io::Result<()> {
        self.progress.bytes += octets.len() as u64;
        self.copied.bytes += octets.len() as u64;
        match self.incoming.as_mut().ok_or_else(out_of_order)? {
            Incoming::Small(wanted, content) => {
                if (content.len() + octets.len()) as u64 > wanted.size {
                    return Err(invalid_data("the peer sends more bytes than it offered"));
                }
                content.extend_from_slice(octets);
            }
            Incoming::Large(wanted, part) => {
                if part.len() + octets.len() as u64 > wanted.size {
                    return Err(invalid_data("the peer sends more bytes than it offered"));
                }
                if let Err(error) = part.write(octets) {
                    let (path, reason) = (wanted.path.clone(), error.to_string());
                    self.incoming = Some(Incoming::Useless(path, reason));
                }
            }
            Incoming::Useless(..) => {}
        }
        Ok(())
    }

    /// The content is whole: the file gets its name if it is the sender's.
    fn end(&mut self, sha256: &Sha256, answers: &mut Vec<u8>) -> io::Result<()> {
        let incoming = self.incoming.take().ok_or_else(out_of_order)?;
        let (path, size, stored) = match incoming {
            Incoming::Small(wanted, content) => {
                let stored = self.store_small(&wanted, &content, sha256);
                (wanted.path, wanted.size, stored)
            }
            Incoming::Large(
                Wanted {
                    path,
                    attributes,
                    size,
                    ..
                },
                part,
            ) => {
                let preserve = self.store.preserve;
                let stored = match part.len() == size {
                    true => part.finish(sha256, |file| {
                        set_attributes(file.as_fd(), &attributes, preserve)
                    }),
                    false => Err(invalid_data("the file arrived cut short")),
                };
                (path, size, stored.map(drop))
            }
            Incoming::Useless(path, reason) => (path, 0, Err(io::Error::other(reason))),
        };
        match stored {
            Ok(()) => {
                self.copied.files += 1;
                self.progress.files += 1;
                self.copied.size += size;
                ReceiverFrame::Stored.encode(answers);
            }
            Err(error) => {
                let reason = error.to_string();
                self.copied.fail(&path, &reason);
                let reason = reason.as_bytes();
                ReceiverFrame::Failed { reason }.encode(answers);
            }
        }
        Ok(())
    }

    fn store_small(&mut self, wanted: &Wanted, content: &[u8], sha256: &Sha256) -> io::Result<()> {
        let mut hasher = FileHasher::new();
        hasher.update(content);
        if content.len() as u64 != wanted.size || hasher.digest() != *sha256 {
            return Err(invalid_data("the file arrived corrupted; send it again"));
        }
        self.store
            .store_small(&wanted.path, content, &wanted.attributes)
    }

    /// The sender cannot send the next wanted file, or the rest of this one. A part of it stays.
    fn give_up(&mut self, reason: &[u8]) -> io::Result<()> {
        let path = match self.incoming.take() {
            Some(Incoming::Small(wanted, _) | Incoming::Large(wanted, _)) => wanted.path,
            Some(Incoming::Useless(path, _)) => path,
            None => self.wanted.pop_front().ok_or_else(out_of_order)?.path,
        };
        self.copied.fail(&path, &String::from_utf8_lossy(reason));
        Ok(())
    }

    /// A file that was here is done.
    fn note_file(&mut self, size: u64) {
        self.copied.size += size;
        self.progress.files += 1;
        self.progress.bytes += size;
    }
}

fn out_of_order() -> io::Error {
    invalid_data("the peer's frame is out of order")
}

fn invalid_data(text: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, text)
}
