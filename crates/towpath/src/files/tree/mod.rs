//! Whole trees over XTP: folders, files and symbolic links, to a host or from one.
//!
//! * `request` - what the end that connects asks for.
//! * `frames` - what the two ends say then, and how it is encoded.
//! * `stream` - the circuit of a transfer, in frames.
//! * `path` - paths below the top of a tree, and where links may lead.
//! * `confined` - folders below a root, reached without following a link.
//! * `source` - the tree that is sent; `send` - its end of the transfer.
//! * `store` - the tree that is received; `receive` - its end.
//!
//! The sender walks its tree and offers each entry; the receiver answers what it lacks, and the content follows. Up to
//! 512 entries are under way at once, so that no file costs a round trip. A file gets its name once its SHA-256 was
//! verified. A transfer that broke off goes on when it is started again: what is there is recognised by its digest, and
//! the rest of a long file follows its partial file.
//!
//! What a peer names is confined on both ends: its paths have no `..` and are not absolute, no component of them is
//! followed through a symbolic link, and a link that may lead out of the tree is neither sent nor taken.

mod confined;
mod frames;
mod path;
mod receive;
mod request;
mod send;
mod source;
mod store;
mod stream;

pub(super) use request::{Direction, TreeRequest};

use super::holders::Claimant;
use super::partial_file::plain_name;
use super::protocol::{self, is_unprintable};
use super::{CLOSE_TIMEOUT, PEER_TIMEOUT, ReceiveLimits};
use crate::engine_setup::random_seed;
use crate::push::{ModuleStack, PushedStream};
use crate::xtp::Endpoint;
use confined::ConfinedFolder;
use path::TreePath;
use rustix::fs::{Mode, OFlags};
use source::{Entry, Source};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use store::TreeStore;
use stream::FrameStream;

/// Entries of a transfer that are under way at most: the receiver keeps their paths, of 3 KiB at most, which makes
/// 1.5 MiB a transfer.
const WINDOW: usize = 512;

/// How often a transfer looks whether it is to stop.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Failures that are kept with their reasons; more are counted.
const FAILURES_MAX: usize = 100;

/// How a tree is copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeOptions {
    /// Take a folder with all that is in it.
    pub recursive: bool,
    /// Keep permission bits and modification times. Otherwise what arrives is for its owner alone, and new.
    pub preserve: bool,
    /// Count the tree before it is sent, so that its progress is known as a share.
    pub totals: bool,
}

/// Progress of a tree's transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeProgress {
    /// Files that are complete at the receiver.
    pub files: u64,
    /// Bytes of files that were transferred, or were there already.
    pub bytes: u64,
    /// Files of the tree, if they were counted.
    pub files_total: Option<u64>,
    /// Their bytes.
    pub bytes_total: Option<u64>,
}

/// What came of a tree's transfer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopiedTree {
    /// Files that are complete at the receiver.
    pub files: u64,
    /// Of these, those that were there already.
    pub files_present: u64,
    /// Bytes of these files.
    pub size: u64,
    /// Bytes that were transferred.
    pub bytes: u64,
    /// Entries that did not arrive.
    pub failed: u64,
    /// The first hundred of them, with the reasons.
    pub failures: Vec<(String, String)>,
    /// What the modules on its circuit counted.
    pub module_counts: BTreeMap<String, u64>,
}

impl CopiedTree {
    fn fail(&mut self, path: &TreePath, reason: &str) {
        self.failed += 1;
        if self.failures.len() < FAILURES_MAX {
            let reason = reason.replace(is_unprintable, "?");
            self.failures.push((path.shown(), reason));
        }
    }
}

/// What both ends of a transfer are told.
pub struct TreeCall<'a> {
    /// The endpoint of the circuit.
    pub endpoint: &'a Endpoint,
    /// Modules on the circuit, which are the peer's too.
    pub modules: Option<&'a ModuleStack>,
    /// How it is copied.
    pub options: TreeOptions,
    /// Ends the transfer once it is set.
    pub stop: &'a AtomicBool,
}

/// Sends the file or folder at `path` to the receiver at `to`; calls `tell` as it advances. Entries that fail are in the
/// result, and do not end the transfer.
///
/// # Errors
///
/// `InvalidInput` for what is neither a file nor a folder; the receiver's reason when it refuses; `ConnectionRefused` or
/// `TimedOut` when it does not answer; those of a circuit that fails; `Interrupted`. What arrived stays, and the next
/// transfer goes on from there.
pub fn push(
    call: &TreeCall<'_>,
    to: SocketAddr,
    path: &Path,
    tell: &mut dyn FnMut(TreeProgress),
) -> io::Result<CopiedTree> {
    let source = Source::new(open_top(path)?, call.options.recursive)?;
    let totals = match call.options.totals {
        true => Some(count(&mut Source::new(
            open_top(path)?,
            call.options.recursive,
        )?)),
        false => None,
    };
    let request = TreeRequest {
        direction: Direction::Push,
        options: call.options,
        path: top_name(path)?,
    };
    call.run(to, &request, |stream, copied| {
        let how = (call.options.preserve, totals);
        send::send(stream, source, how, call.stop, copied, tell)
    })
}

/// Where a tree that was asked for goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullTarget<'a> {
    /// An existing folder.
    pub folder: &'a Path,
    /// The tree's name in it; None when the contents of a served folder go into the folder itself.
    pub name: Option<&'a str>,
    /// Whether files of the same names are replaced.
    pub overwrite: bool,
}

/// Fetches the file or folder at `path` of the folder that the host at `from` serves; calls `tell` as it advances. Entries
/// that fail are in the result, and do not end the transfer. Errors are those of [`push`].
pub fn pull(
    call: &TreeCall<'_>,
    from: SocketAddr,
    path: &str,
    target: &PullTarget<'_>,
    tell: &mut dyn FnMut(TreeProgress),
) -> io::Result<CopiedTree> {
    let claimant = Claimant {
        holders: Default::default(),
        peer: from.ip(),
    };
    let top = match target.name {
        Some(name) => TreePath::default().child(name.as_bytes()),
        None => Some(TreePath::default()),
    };
    let top =
        top.ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "it has no usable name"))?;
    let limits = ReceiveLimits::default();
    let how = (target.overwrite, call.options.preserve);
    let store = open_store(target.folder, top, how, &limits, claimant)?;
    let request = TreeRequest {
        direction: Direction::Pull,
        options: call.options,
        path: path.as_bytes().to_vec(),
    };
    call.run(from, &request, |stream, copied| {
        receive::receive(stream, store, call.stop, copied, tell)
    })
}

impl TreeCall<'_> {
    /// Connects, asks, and runs the transfer.
    fn run(
        &self,
        peer: SocketAddr,
        request: &TreeRequest,
        transfer: impl FnOnce(&mut FrameStream, &mut CopiedTree) -> io::Result<()>,
    ) -> io::Result<CopiedTree> {
        let circuit = self.endpoint.connect(peer, PEER_TIMEOUT)?;
        let mut circuit = PushedStream::new(circuit, self.modules, true)?;
        let mut copied = CopiedTree::default();
        let asked = request.send(&mut circuit);
        let asked = asked.and_then(|()| protocol::recv_status(&mut circuit, PEER_TIMEOUT));
        let mut stream = FrameStream::new(circuit);
        let done = asked.and_then(|()| transfer(&mut stream, &mut copied));
        copied.module_counts = stream.circuit.counts();
        match done {
            Ok(()) => {
                // All has arrived; an unacknowledged close does not matter.
                let _ = stream.circuit.close(CLOSE_TIMEOUT);
                Ok(copied)
            }
            Err(error) => {
                // So that the peer does not wait; it may be gone already.
                let _ = stream.circuit.abort();
                Err(error)
            }
        }
    }
}

/// Receives a tree that a sender pushes into `folder`, once its request was accepted.
/// Errors are those of [`receive::receive`], and why the request is refused, which the sender is told.
pub(super) fn take_pushed(
    circuit: PushedStream,
    request: &TreeRequest,
    (folder, overwrite): (&Path, bool),
    limits: &ReceiveLimits,
    claimant: Claimant,
    stop: &AtomicBool,
) -> (io::Result<()>, CopiedTree) {
    let name = plain_name(&String::from_utf8_lossy(&request.path));
    let top = name.and_then(|name| TreePath::default().child(name.as_bytes()));
    let top =
        top.ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "the tree has no usable name"));
    let how = (overwrite, request.options.preserve);
    let store = top.and_then(|top| open_store(folder, top, how, limits, claimant));
    serve(circuit, store, |stream, store, copied| {
        receive::receive(stream, store, stop, copied, &mut |_| ())
    })
}

/// Sends what a client asks for from below `folder`.
/// Errors are those of [`send::send`], and why the request is refused, which the client is told.
pub(super) fn give_pulled(
    circuit: PushedStream,
    request: &TreeRequest,
    folder: &Path,
    stop: &AtomicBool,
) -> (io::Result<()>, CopiedTree) {
    let options = request.options;
    let opened = open_served(folder, request);
    serve(circuit, opened, |stream, (source, totals), copied| {
        let how = (options.preserve, totals);
        send::send(stream, source, how, stop, copied, &mut |_| ())
    })
}

/// Answers a request, and runs the transfer if it is granted.
fn serve<T>(
    mut circuit: PushedStream,
    granted: io::Result<T>,
    transfer: impl FnOnce(&mut FrameStream, T, &mut CopiedTree) -> io::Result<()>,
) -> (io::Result<()>, CopiedTree) {
    let mut copied = CopiedTree::default();
    let refusal = granted.as_ref().err().map(ToString::to_string);
    let answered = protocol::send_status(&mut circuit, refusal.as_deref());
    let mut stream = FrameStream::new(circuit);
    let granted = granted.and_then(|granted| answered.map(|()| granted));
    let done = granted.and_then(|granted| transfer(&mut stream, granted, &mut copied));
    copied.module_counts = stream.circuit.counts();
    // What was said last shall arrive; if the peer is gone, nothing does.
    let _ = stream.circuit.close(CLOSE_TIMEOUT);
    (done, copied)
}

/// The folder that a tree is received into.
fn open_store(
    folder: &Path,
    top: TreePath,
    (overwrite, preserve): (bool, bool),
    limits: &ReceiveLimits,
    claimant: Claimant,
) -> io::Result<TreeStore> {
    super::inbox::check_space(folder, 0, limits.keep_free_bytes)?;
    let base = open_folder(folder)?;
    Ok(TreeStore {
        folder: folder.to_owned(),
        root: ConfinedFolder::new(base.try_clone()?),
        base,
        claimant,
        top,
        staging: format!(".{:016x}{:016x}.part", random_seed(), random_seed()),
        overwrite,
        preserve,
        size_max: limits.size_max,
        keep_free_bytes: limits.keep_free_bytes,
        unchecked_bytes: 0,
    })
}

fn open_folder(folder: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(folder, flags, Mode::empty())?)
}

/// Opens what the user named: a link there is followed, a pipe not waited for.
fn open_top(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// The name of what the user named, also of `.` and `..`.
fn top_name(path: &Path) -> io::Result<Vec<u8>> {
    let whole = match path.file_name() {
        Some(_) => path.to_owned(),
        None => path.canonicalize()?,
    };
    let name = whole.file_name().unwrap_or_default();
    Ok(name.as_encoded_bytes().to_vec())
}

/// What a client asked for, and how much there is if it wants to know.
fn open_served(folder: &Path, request: &TreeRequest) -> io::Result<(Source, Option<(u64, u64)>)> {
    let TreeRequest { options, path, .. } = request;
    let plain = path.strip_suffix(b"/").unwrap_or(path);
    let plain = if plain == b"." { b"" } else { plain };
    let refuse = |text: &str| io::Error::new(ErrorKind::InvalidInput, text);
    let place = TreePath::parse(plain)
        .ok_or_else(|| refuse("the path leads out of the folder that is served"))?;
    let mut root = ConfinedFolder::new(open_folder(folder)?);
    let mut open = || -> io::Result<OwnedFd> {
        match place.octets().is_empty() {
            true => root.open_folder(&place),
            false => root.open_file(&place).map(OwnedFd::from),
        }
    };
    let opened = open().map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP) => refuse("it is a symbolic link; name what it leads to"),
        _ => error,
    })?;
    let source = Source::new(opened, options.recursive)?;
    let totals = match options.totals {
        true => Some(count(&mut Source::new(open()?, options.recursive)?)),
        false => None,
    };
    Ok((source, totals))
}

/// Files of a tree and their bytes.
fn count(source: &mut Source) -> (u64, u64) {
    let (mut files, mut bytes) = (0, 0u64);
    while let Some(entry) = source.next_entry() {
        if let Entry::File { size, .. } = entry {
            files += 1;
            bytes = bytes.saturating_add(size);
        }
    }
    (files, bytes)
}

/// Decodes octets as frames of either end; how many there were. For fuzzing.
///
/// # Panics
///
/// When a frame is not encoded as it came.
pub(super) fn decode_frames(octets: &[u8]) -> usize {
    frames::decode_all(octets)
}
