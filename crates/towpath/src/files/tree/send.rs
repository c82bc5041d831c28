//! The sending end of a tree's transfer, whichever end asked for it.

use super::super::partial_file::FileHasher;
use super::super::protocol::{Sha256, printable};
use super::frames::{Attributes, DATA_MAX, FRAME_MAX, ReceiverFrame, SenderFrame};
use super::path::TreePath;
use super::source::{Entry, Source};
use super::stream::{FrameStream, whole};
use super::{CopiedTree, STOP_POLL_INTERVAL, TreeProgress, WINDOW};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Octets that are given to the circuit at once.
const OUTPUT_LEN: usize = FRAME_MAX;

/// A file of the tree.
#[derive(Clone)]
struct OfferedFile {
    path: TreePath,
    attributes: Attributes,
    size: u64,
}

/// An entry that the receiver has not answered.
enum Asked {
    File(OfferedFile),
    /// A file that was offered with its digest.
    FileAgain(OfferedFile),
    Other(TreePath),
}

/// A file whose content was asked for, and what the receiver has of it: length and digest.
struct Due {
    file: OfferedFile,
    part: Option<(u64, Sha256)>,
}

/// The content that is sent now.
struct Outgoing {
    path: TreePath,
    size: u64,
    file: File,
    left: u64,
    hasher: FileHasher,
}

/// Where a sender is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Entries and contents.
    Entries,
    /// All of them were answered: the attributes of folders.
    FolderEnds,
    /// Everything was said.
    Finishing,
    /// The receiver has confirmed it.
    Finished,
}

/// What is known of a transfer at its sending end.
struct TreeSender<'a> {
    source: Source,
    preserve: bool,
    stage: Stage,
    asked: VecDeque<Asked>,
    /// Files that exist there, to be offered again with their digest.
    again: VecDeque<OfferedFile>,
    due: VecDeque<Due>,
    outgoing: Option<Outgoing>,
    /// Files whose content was sent, with their sizes, until the receiver says whether it has them.
    sent: VecDeque<(TreePath, u64)>,
    copied: &'a mut CopiedTree,
    progress: TreeProgress,
}

/// Sends the tree of `source`; what came of it is in `copied` also when it fails. With `totals` the receiver is told how much
/// there is.
/// Errors are those of the circuit, the receiver's reason when it gives up, `InvalidData` for a peer that breaks the
/// protocol, `Interrupted` once `stop` is set.
pub(super) fn send(
    stream: &mut FrameStream,
    source: Source,
    (preserve, totals): (bool, Option<(u64, u64)>),
    stop: &AtomicBool,
    copied: &mut CopiedTree,
    tell: &mut dyn FnMut(TreeProgress),
) -> io::Result<()> {
    let mut sender = TreeSender {
        source,
        preserve,
        stage: Stage::Entries,
        asked: VecDeque::new(),
        again: VecDeque::new(),
        due: VecDeque::new(),
        outgoing: None,
        sent: VecDeque::new(),
        copied,
        progress: TreeProgress::default(),
    };
    if let Some((files, bytes)) = totals {
        SenderFrame::Totals { files, bytes }.encode(&mut stream.output);
        sender.progress.files_total = Some(files);
        sender.progress.bytes_total = Some(bytes);
    }
    sender.run(stream, stop, tell)
}

impl TreeSender<'_> {
    fn run(
        &mut self,
        stream: &mut FrameStream,
        stop: &AtomicBool,
        tell: &mut dyn FnMut(TreeProgress),
    ) -> io::Result<()> {
        // No time to wait while there is something to say.
        let mut limit = Duration::ZERO;
        loop {
            stream.fill(limit)?;
            while let Some((frame, len)) = whole(ReceiverFrame::decode(stream.arrived()))? {
                self.handle(frame)?;
                stream.take(len);
            }
            if self.stage == Stage::Finished {
                return Ok(());
            }
            let has_more = self.fill_output(&mut stream.output);
            tell(self.progress);
            let has_room = stream.send()?;
            limit = match (has_room, has_more) {
                (true, true) => Duration::ZERO,
                (true, false) => {
                    stream.circuit.flush()?;
                    STOP_POLL_INTERVAL
                }
                (false, _) => {
                    stream.circuit.wait(STOP_POLL_INTERVAL)?;
                    Duration::ZERO
                }
            };
            stream.check(self.hashed_bytes())?;
            if stop.load(Ordering::Relaxed) {
                let text = "stopped; start the transfer again to go on where it broke off";
                return Err(io::Error::new(ErrorKind::Interrupted, text));
            }
        }
    }

    /// What the receiver may have to hash before it answers; at the end it makes everything durable, which takes as long
    /// as that at most.
    fn hashed_bytes(&self) -> u64 {
        match (self.stage, self.asked.front()) {
            (Stage::Finishing, _) => u64::MAX,
            (_, Some(Asked::File(file) | Asked::FileAgain(file))) => file.size,
            _ => 0,
        }
    }

    fn outstanding(&self) -> usize {
        self.asked.len() + self.again.len() + self.due.len() + self.sent.len()
    }

    /// Adds frames until a batch is full; false when there is nothing more to say for now.
    fn fill_output(&mut self, output: &mut Vec<u8>) -> bool {
        while output.len() < OUTPUT_LEN {
            if !self.add_frame(output) {
                return false;
            }
        }
        true
    }

    /// Adds the next frame, if there is one: entries first, so that the receiver always has some to look up.
    fn add_frame(&mut self, output: &mut Vec<u8>) -> bool {
        if let Some(outgoing) = self.outgoing.take() {
            self.add_data(outgoing, output);
            return true;
        }
        if let Some(file) = self.again.pop_front() {
            self.offer_again(file, output);
            return true;
        }
        if self.stage == Stage::Entries && self.outstanding() < WINDOW {
            match self.source.next_entry() {
                Some(entry) => self.add_entry(entry, output),
                None => self.stage = Stage::FolderEnds,
            }
            return true;
        }
        if let Some(due) = self.due.pop_front() {
            self.begin(due, output);
            return true;
        }
        match self.stage {
            Stage::FolderEnds if self.outstanding() == 0 || self.ends_folders() => {
                self.add_folder_end(output)
            }
            _ => false,
        }
    }

    /// Whether only ends of folders are unanswered.
    fn ends_folders(&self) -> bool {
        let is_end = |asked: &Asked| matches!(asked, Asked::Other(_));
        let rest = self.again.len() + self.due.len() + self.sent.len();
        rest == 0 && self.asked.len() < WINDOW && self.asked.iter().all(is_end)
    }

    fn add_folder_end(&mut self, output: &mut Vec<u8>) -> bool {
        let end = if self.preserve {
            self.source.next_folder_end()
        } else {
            None
        };
        if let Some((path, attributes)) = end {
            self.asked.push_back(Asked::Other(path.clone()));
            SenderFrame::FolderEnd { path, attributes }.encode(output);
            return true;
        }
        if self.outstanding() > 0 {
            return false;
        }
        SenderFrame::Finish.encode(output);
        self.stage = Stage::Finishing;
        true
    }

    fn add_entry(&mut self, entry: Entry, output: &mut Vec<u8>) {
        match entry {
            Entry::File {
                path,
                attributes,
                size,
            } => {
                let file = OfferedFile {
                    path,
                    attributes,
                    size,
                };
                add_offer(&file, None, output);
                self.asked.push_back(Asked::File(file));
            }
            Entry::Folder { path } => {
                self.asked.push_back(Asked::Other(path.clone()));
                SenderFrame::Folder { path }.encode(output);
            }
            Entry::Link { path, target } => {
                self.asked.push_back(Asked::Other(path.clone()));
                let target = &target;
                SenderFrame::Link { path, target }.encode(output);
            }
            Entry::LeftOut { path, reason } => {
                self.copied.fail(&path, &reason);
                let reason = reason.as_bytes();
                SenderFrame::LeftOut { path, reason }.encode(output);
            }
        }
    }

    /// Offers a file of which the receiver has one of the same name and size, with its digest.
    fn offer_again(&mut self, file: OfferedFile, output: &mut Vec<u8>) {
        let mut hasher = FileHasher::new();
        let hashed = self
            .source
            .open_file(&file.path)
            .and_then(|mut open| hasher.update_from_file(&mut open, file.size));
        match hashed {
            Ok(true) => {
                add_offer(&file, Some(hasher.digest()), output);
                self.asked.push_back(Asked::FileAgain(file));
            }
            Ok(false) => self.leave_out(file.path, SHRUNK, output),
            Err(error) => self.leave_out(file.path, &error.to_string(), output),
        }
    }

    fn leave_out(&mut self, path: TreePath, reason: &str, output: &mut Vec<u8>) {
        self.copied.fail(&path, reason);
        let reason = reason.as_bytes();
        SenderFrame::LeftOut { path, reason }.encode(output);
    }

    /// Begins a content that was asked for.
    fn begin(&mut self, due: Due, output: &mut Vec<u8>) {
        let Due {
            file: offered,
            part,
        } = due;
        let opened = self.source.open_file(&offered.path).and_then(|mut file| {
            let (from, hasher) = resume_offset(&mut file, part)?;
            Ok((file, from, hasher))
        });
        let (file, from, hasher) = match opened {
            Ok(opened) => opened,
            Err(error) => return self.give_up(&offered.path, &error.to_string(), output),
        };
        self.progress.bytes += from;
        SenderFrame::Content { from }.encode(output);
        let outgoing = Outgoing {
            path: offered.path,
            size: offered.size,
            file,
            left: offered.size - from,
            hasher,
        };
        self.add_data(outgoing, output);
    }

    /// Adds the next octets of a content, and its end behind the last of them.
    fn add_data(&mut self, mut outgoing: Outgoing, output: &mut Vec<u8>) {
        if outgoing.left > 0 {
            match read_chunk(&mut outgoing, output) {
                Ok(0) => return self.give_up(&outgoing.path, SHRUNK, output),
                Ok(len) => {
                    self.progress.bytes += len as u64;
                    self.copied.bytes += len as u64;
                }
                Err(error) => return self.give_up(&outgoing.path, &error.to_string(), output),
            }
        }
        if outgoing.left > 0 {
            self.outgoing = Some(outgoing);
            return;
        }
        let sha256 = outgoing.hasher.digest();
        SenderFrame::End { sha256 }.encode(output);
        self.sent.push_back((outgoing.path, outgoing.size));
    }

    fn give_up(&mut self, path: &TreePath, reason: &str, output: &mut Vec<u8>) {
        self.copied.fail(path, reason);
        let reason = reason.as_bytes();
        SenderFrame::GiveUp { reason }.encode(output);
    }

    fn handle(&mut self, frame: ReceiverFrame<'_>) -> io::Result<()> {
        match frame {
            ReceiverFrame::WantAll => self.want(None)?,
            ReceiverFrame::WantRest { len, sha256 } => self.want(Some((len, sha256)))?,
            ReceiverFrame::Exists => match self.asked.pop_front() {
                Some(Asked::File(file)) => self.again.push_back(file),
                _ => return Err(out_of_order()),
            },
            ReceiverFrame::Done => match self.asked.pop_front().ok_or_else(out_of_order)? {
                Asked::Other(_) => {}
                Asked::FileAgain(file) => {
                    self.copied.files_present += 1;
                    self.progress.bytes += file.size;
                    self.note_file(file.size);
                }
                Asked::File(_) => return Err(out_of_order()),
            },
            ReceiverFrame::Refused { reason } => {
                match self.asked.pop_front().ok_or_else(out_of_order)? {
                    Asked::File(OfferedFile { path, .. })
                    | Asked::FileAgain(OfferedFile { path, .. })
                    | Asked::Other(path) => {
                        self.copied.fail(&path, &String::from_utf8_lossy(reason))
                    }
                }
            }
            ReceiverFrame::Stored => {
                let (_, size) = self.sent.pop_front().ok_or_else(out_of_order)?;
                self.note_file(size);
            }
            ReceiverFrame::Failed { reason } => {
                let (path, _) = self.sent.pop_front().ok_or_else(out_of_order)?;
                self.copied.fail(&path, &String::from_utf8_lossy(reason));
            }
            ReceiverFrame::Finished { reason: b"" } if self.stage == Stage::Finishing => {
                self.stage = Stage::Finished;
            }
            ReceiverFrame::Finished { reason } => {
                return Err(io::Error::other(printable(reason)));
            }
        }
        Ok(())
    }

    /// The receiver wants the next file, from what it has on.
    fn want(&mut self, part: Option<(u64, Sha256)>) -> io::Result<()> {
        let (Asked::File(file) | Asked::FileAgain(file)) =
            self.asked.pop_front().ok_or_else(out_of_order)?
        else {
            return Err(out_of_order());
        };
        if part.is_some_and(|(len, _)| len > file.size) {
            return Err(out_of_order());
        }
        self.due.push_back(Due { file, part });
        Ok(())
    }

    fn note_file(&mut self, size: u64) {
        self.copied.files += 1;
        self.copied.size += size;
        self.progress.files += 1;
    }
}

const SHRUNK: &str = "the file got shorter while it was sent; send it again";

fn add_offer(file: &OfferedFile, sha256: Option<Sha256>, output: &mut Vec<u8>) {
    let OfferedFile {
        path,
        attributes,
        size,
    } = file.clone();
    let frame = SenderFrame::File {
        path,
        attributes,
        size,
        sha256,
    };
    frame.encode(output);
}

/// Where the content begins, and the digest up to there: behind what the receiver has, if that is the file's beginning.
fn resume_offset(file: &mut File, part: Option<(u64, Sha256)>) -> io::Result<(u64, FileHasher)> {
    let mut hasher = FileHasher::new();
    let Some((len, sha256)) = part else {
        return Ok((0, hasher));
    };
    if hasher.update_from_file(file, len)? && hasher.digest() == sha256 {
        return Ok((len, hasher));
    }
    file.seek(SeekFrom::Start(0))?;
    Ok((0, FileHasher::new()))
}

/// Reads the next octets of a file into a frame; 0 at its end.
fn read_chunk(outgoing: &mut Outgoing, output: &mut Vec<u8>) -> io::Result<usize> {
    let most = DATA_MAX.min(usize::try_from(outgoing.left).unwrap_or(DATA_MAX));
    let start = output.len();
    let data_at = start + 5;
    output.resize(data_at + most, 0);
    let len = match outgoing.file.read(&mut output[data_at..]) {
        Ok(len) if len > 0 => len,
        other => {
            output.truncate(start);
            return other;
        }
    };
    output.truncate(data_at + len);
    outgoing.hasher.update(&output[data_at..]);
    output[start] = SenderFrame::DATA_KIND;
    output[start + 1..data_at].copy_from_slice(&(len as u32).to_be_bytes());
    outgoing.left -= len as u64;
    Ok(len)
}

fn out_of_order() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "the peer's answer is out of order")
}
