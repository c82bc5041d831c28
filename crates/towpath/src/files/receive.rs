//! The receiving side of file transfers.

use super::group_range::GroupRange;
use super::holders::{Claimant, Holders};
use super::inbox;
use super::pace::PaceLimit;
use super::partial_file::{PartialFile, PartialPlace, plain_name};
use super::protocol::{self, ID_LEN, Offer, Opening, ResumePoint};
use super::tree::{self, CopiedTree, Direction, TreeRequest};
use super::{CHUNK, CLOSE_TIMEOUT, HASH_TIMEOUT, OFFER_TIMEOUT, PEER_TIMEOUT, TransferProgress};
use crate::peer_counts::PeerCounts;
use crate::push::{ModuleStack, PushedStream};
use crate::xtp::Endpoint;
use crate::xtp::group::{self, JoinSecret, Receiver, Stream};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Concurrent transfers; further peers wait.
const TRANSFERS_MAX: usize = 32;

/// Of these, those of one sender.
const PER_PEER_MAX: usize = TRANSFERS_MAX / 4;

/// How often a transfer checks whether to stop.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(200);

/// How often old partial files are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_secs(3600);

/// Bytes between two looks at the free space: 32 transfers overshoot by 512 MiB at most, which is
/// why each is checked for all its bytes when it begins.
const SPACE_CHECK_BYTES: u64 = 16 << 20;

/// Receives files into a directory.
pub struct FileReceiver {
    /// The endpoint that senders connect to.
    pub endpoint: Endpoint,
    /// The directory that files are received into; None to receive none.
    pub folder: Option<PathBuf>,
    /// The directory whose files others may fetch; None to give none.
    pub served: Option<PathBuf>,
    /// Whether a file replaces an existing one of the same name.
    pub overwrite: bool,
    /// What it accepts of anybody who reaches the endpoint.
    pub limits: ReceiveLimits,
    /// Modules on the circuits of its senders, who have the same; with them, no groups.
    pub modules: Option<ModuleStack>,
}

/// What a receiver accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiveLimits {
    /// Bytes of a file at most.
    pub size_max: u64,
    /// Bytes that stay free on the directory's file system.
    pub keep_free_bytes: u64,
    /// Groups that it joins when a sender names them.
    pub groups: Vec<GroupRange>,
    /// Concurrent transfers of a sender (of a /64 over IPv6) at most, of 32 in all.
    pub per_peer_max: usize,
}

impl Default for ReceiveLimits {
    /// Files of any size that leave 64 MiB free, so that others can still write, no groups, and a
    /// quarter of the transfers for each sender.
    fn default() -> ReceiveLimits {
        ReceiveLimits {
            size_max: u64::MAX,
            keep_free_bytes: 64 << 20,
            groups: Vec::new(),
            per_peer_max: PER_PEER_MAX,
        }
    }
}

/// What a transfer was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransferKind {
    /// A file came.
    File,
    /// A tree came.
    Tree(CopiedTree),
    /// A tree or file was given to a client that asked for it.
    Given(CopiedTree),
}

/// The outcome of a transfer.
#[derive(Debug)]
pub struct ReceivedFile {
    /// What it was.
    pub kind: TransferKind,
    /// The sender, or the client.
    pub peer: SocketAddr,
    /// The plain file name, or the path that was asked for; empty if the offer was not received or invalid.
    pub name: String,
    /// How far the transfer of a file got.
    pub progress: TransferProgress,
    /// What the modules on its circuit counted.
    pub module_counts: BTreeMap<String, u64>,
    /// The path of the file, or why the transfer failed.
    pub result: io::Result<PathBuf>,
}

impl ReceivedFile {
    /// Nothing of a transfer with `peer` yet.
    fn of(peer: SocketAddr) -> ReceivedFile {
        ReceivedFile {
            kind: TransferKind::File,
            peer,
            name: String::new(),
            progress: TransferProgress::default(),
            module_counts: BTreeMap::new(),
            result: Err(ErrorKind::Interrupted.into()),
        }
    }
}

/// Why a sender is refused by a host that only gives files.
const NOT_RECEIVING: &str = "this host receives no files; start it with --receive DIR";

impl FileReceiver {
    /// Receives files until `stop` is set; calls `on_received` after each transfer. Senders are
    /// refused before this begins, unless the endpoint listens already. Partial files untouched for
    /// a week are removed. Errors are those of the endpoint; an error of one transfer ends only that transfer.
    pub fn run(
        &self,
        stop: &AtomicBool,
        on_received: &(dyn Fn(ReceivedFile) + Sync),
    ) -> io::Result<()> {
        self.endpoint.listen(true);
        let busy = AtomicUsize::new(0);
        let peers = Mutex::new(PeerCounts::new(self.limits.per_peer_max));
        let holders = Arc::new(Holders::default());
        let result = std::thread::scope(|scope| {
            let mut next_sweep_at = Instant::now();
            while !stop.load(Ordering::Relaxed) {
                if Instant::now() >= next_sweep_at {
                    if let Some(folder) = &self.folder {
                        inbox::remove_old_partial_files(folder, SystemTime::now());
                    }
                    next_sweep_at = Instant::now() + SWEEP_INTERVAL;
                }
                if busy.load(Ordering::Relaxed) >= TRANSFERS_MAX {
                    std::thread::sleep(STOP_POLL_INTERVAL);
                    continue;
                }
                let circuit = match self.endpoint.accept(STOP_POLL_INTERVAL) {
                    Ok(circuit) => circuit,
                    Err(error) if error.kind() == ErrorKind::TimedOut => continue,
                    Err(error) => return Err(error),
                };
                let (busy, peers) = (&busy, &peers);
                // A module that cannot be on the circuit, such as a file that cannot be made, ends it.
                let Ok(circuit) = PushedStream::new(circuit, self.modules.as_ref(), false) else {
                    continue;
                };
                let peer = circuit.peer().ip();
                if !lock(peers).add(peer) {
                    self.refuse_share(circuit, on_received);
                    continue;
                }
                busy.fetch_add(1, Ordering::Relaxed);
                let claimant = Claimant {
                    holders: Arc::clone(&holders),
                    peer,
                };
                scope.spawn(move || {
                    self.serve_transfer(circuit, claimant, stop, on_received);
                    lock(peers).remove(peer);
                    busy.fetch_sub(1, Ordering::Relaxed);
                });
            }
            Ok(())
        });
        self.endpoint.listen(false);
        result
    }

    /// Refuses a transfer of a peer that has its share, without waiting for what it has to say.
    fn refuse_share(&self, mut circuit: PushedStream, on_received: &(dyn Fn(ReceivedFile) + Sync)) {
        let text = format!(
            "this receiver takes {} transfers of a sender at once; send the file later, or start the \
             receiver with a higher --per-peer",
            self.limits.per_peer_max
        );
        // If it cannot be sent, the peer is gone. What was sent arrives after the circuit is dropped.
        let sent = protocol::send_status(&mut circuit, Some(&text));
        let _ = sent.and_then(|()| circuit.finish());
        let mut received = ReceivedFile::of(circuit.peer());
        received.result = Err(io::Error::new(ErrorKind::QuotaExceeded, text));
        on_received(received);
    }

    fn serve_transfer(
        &self,
        mut circuit: PushedStream,
        claimant: Claimant,
        stop: &AtomicBool,
        on_received: &(dyn Fn(ReceivedFile) + Sync),
    ) {
        let mut received = ReceivedFile::of(circuit.peer());
        received.result = match Opening::receive(&mut circuit) {
            Ok(Opening::Tree(request)) => {
                self.serve_tree(circuit, &request, claimant, stop, &mut received);
                return on_received(received);
            }
            Ok(Opening::File(offer)) => {
                self.receive_file(&mut circuit, &offer, claimant, &mut received, stop)
            }
            Err(error) => Err(error),
        };
        let refusal = received.result.as_ref().err().map(ToString::to_string);
        // If the status cannot be sent, the peer is gone, and there is nothing to close.
        let answered = protocol::send_status(&mut circuit, refusal.as_deref());
        received.module_counts = circuit.counts();
        on_received(received);
        if answered.is_ok() {
            let _ = circuit.close(CLOSE_TIMEOUT);
        }
    }

    fn serve_tree(
        &self,
        mut circuit: PushedStream,
        request: &TreeRequest,
        claimant: Claimant,
        stop: &AtomicBool,
        received: &mut ReceivedFile,
    ) {
        received.name = protocol::printable(&request.path);
        let folder = match request.direction {
            Direction::Push => &self.folder,
            Direction::Pull => &self.served,
        };
        let Some(folder) = folder else {
            let text = match request.direction {
                Direction::Push => NOT_RECEIVING,
                Direction::Pull => "this host gives no files; start it with --serve DIR",
            };
            // If it cannot be sent, the peer is gone.
            let sent = protocol::send_status(&mut circuit, Some(text));
            let _ = sent.and_then(|()| circuit.close(CLOSE_TIMEOUT));
            received.result = Err(io::Error::new(ErrorKind::PermissionDenied, text));
            return;
        };
        let (done, copied) = match request.direction {
            Direction::Push => {
                let into = (folder.as_path(), self.overwrite);
                tree::take_pushed(circuit, request, into, &self.limits, claimant, stop)
            }
            Direction::Pull => tree::give_pulled(circuit, request, folder, stop),
        };
        received.module_counts.clone_from(&copied.module_counts);
        received.result = done.map(|()| match request.direction {
            Direction::Push => folder.join(plain_name(&received.name).unwrap_or_default()),
            Direction::Pull => folder.join(&received.name),
        });
        received.kind = match request.direction {
            Direction::Push => TransferKind::Tree(copied),
            Direction::Pull => TransferKind::Given(copied),
        };
    }

    fn receive_file(
        &self,
        circuit: &mut PushedStream,
        offer: &Offer,
        claimant: Claimant,
        received: &mut ReceivedFile,
        stop: &AtomicBool,
    ) -> io::Result<PathBuf> {
        let refused = || io::Error::new(ErrorKind::PermissionDenied, NOT_RECEIVING);
        let folder = self.folder.as_deref().ok_or_else(refused)?;
        received.progress.size = offer.size;
        received.name = plain_name(&offer.name).ok_or_else(|| {
            let text = format!("'{}' is not a file name", offer.name);
            io::Error::new(ErrorKind::InvalidInput, text)
        })?;
        self.check_offer(offer)?;
        let place = PartialPlace::in_folder(folder, &received.name)?;
        let mut partial = PartialFile::open(folder, place, offer.size, self.overwrite, &claimant)?;
        inbox::check_space(
            folder,
            offer.size - partial.len(),
            self.limits.keep_free_bytes,
        )?;
        // Join before replying, so that the sender need not wait for the join.
        let join_secret = random_join_secret();
        let group = self.join_group(offer, join_secret)?;
        let resume_point = ResumePoint {
            len: partial.len(),
            sha256: partial.digest(),
            join_secret,
        };
        resume_point.send(circuit)?;
        let timeout = start_timeout(group.is_some(), partial.len());
        let from = u64::from_be_bytes(protocol::recv_array(circuit, timeout)?);
        if from > partial.len() {
            let text = "the peer resumes beyond the end of the partial file";
            return Err(io::Error::new(ErrorKind::InvalidData, text));
        }
        partial.truncate_to(from)?;
        received.progress.resumed_from = from;
        received.progress.done = from;
        let mut next_check = from;
        let mut progress = |partial: &PartialFile| {
            received.progress.done = partial.len();
            if partial.len() < next_check {
                return Ok(());
            }
            next_check = partial.len() + SPACE_CHECK_BYTES;
            inbox::check_space(folder, 0, self.limits.keep_free_bytes)
        };
        match group {
            None => {
                let receive = |room: &mut [u8], limit| circuit.recv(room, limit);
                receive_into(&mut partial, offer.size, stop, &mut progress, receive)?;
            }
            Some(group) => {
                receive_from_group(&group, offer, stop, &mut partial, &mut progress)?;
            }
        }
        // The sender hashed what it sent; a group's waits for all members to have it.
        partial.finish(
            &protocol::recv_array(circuit, 2 * PEER_TIMEOUT)?,
            |_| Ok(()),
        )
    }

    /// Refuses what the limits do not allow.
    fn check_offer(&self, offer: &Offer) -> io::Result<()> {
        let refuse = |text: String| Err(io::Error::new(ErrorKind::InvalidInput, text));
        let most = self.limits.size_max;
        if offer.size > most {
            return refuse(format!(
                "the file has {} bytes and this receiver takes {most} at most (--max-size)",
                offer.size
            ));
        }
        match offer.group {
            Some(group) if !self.limits.groups.iter().any(|r| r.contains(group.ip())) => {
                refuse(format!(
                    "this receiver does not join {}; start it with --groups {}",
                    group.ip(),
                    group.ip()
                ))
            }
            _ => Ok(()),
        }
    }

    /// Joins the group of an offer, if it has one, or listens at its port for a sender that replicates.
    fn join_group(&self, offer: &Offer, join_secret: JoinSecret) -> io::Result<Option<Receiver>> {
        let Some(group) = offer.group else {
            return Ok(None);
        };
        let local = self.endpoint.local_addr().ip();
        let mut settings = group::GroupEndpointConfig::default();
        settings.config.join_secret = Some(join_secret);
        offer.terms.apply(&mut settings);
        self.endpoint.share_introspection(&mut settings);
        match offer.terms.replicate {
            true => Receiver::listen(SocketAddr::new(local, group.port()), &settings),
            false => Receiver::join(group, local, &settings),
        }
        .map(Some)
    }
}

fn random_join_secret() -> JoinSecret {
    let random = crate::engine_setup::random_secret();
    JoinSecret::new(random.octets().first_chunk().copied().unwrap_or_default())
}

fn lock(peers: &Mutex<PeerCounts>) -> MutexGuard<'_, PeerCounts> {
    peers.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long the sender may take between the reply to its offer and the first byte: it hashes as much
/// as this side has of the file, at 50 MB/s or faster; a group's sender first asks all other hosts.
fn start_timeout(is_group: bool, have_bytes: u64) -> Duration {
    match is_group {
        true => HASH_TIMEOUT,
        false => (OFFER_TIMEOUT + Duration::from_secs(have_bytes / 50_000_000)).min(HASH_TIMEOUT),
    }
}

/// Accepts the stream of transfer `id`; a group may carry several.
fn accept_stream(group: &Receiver, id: &[u8; ID_LEN], stop: &AtomicBool) -> io::Result<Stream> {
    let end = Instant::now() + PEER_TIMEOUT;
    while !stop.load(Ordering::Relaxed) {
        let mut stream = match group.accept(STOP_POLL_INTERVAL) {
            Ok(stream) => stream,
            Err(error) if error.kind() == ErrorKind::TimedOut && Instant::now() < end => continue,
            Err(error) => return Err(error),
        };
        let mut first = [0; ID_LEN];
        let read = protocol::recv_exact(&mut first, |room| stream.recv(room, PEER_TIMEOUT));
        if read.is_ok() && first == *id {
            return Ok(stream);
        }
    }
    Err(ErrorKind::Interrupted.into())
}

/// Receives the stream of an offer to a group into `partial`.
fn receive_from_group(
    group: &Receiver,
    offer: &Offer,
    stop: &AtomicBool,
    partial: &mut PartialFile,
    progress: &mut dyn FnMut(&PartialFile) -> io::Result<()>,
) -> io::Result<()> {
    let mut stream = accept_stream(group, &offer.id, stop)?;
    let receive = |room: &mut [u8], limit| stream.recv(room, limit);
    receive_into(partial, offer.size, stop, progress, receive)?;
    let ended = stream.recv(&mut [0], PEER_TIMEOUT)?.is_none();
    // The data are complete, even if the sender does not acknowledge the close.
    let _ = stream.close(PEER_TIMEOUT);
    match ended {
        true => Ok(()),
        false => {
            let text = "the peer sent more bytes than it offered";
            Err(io::Error::new(ErrorKind::InvalidData, text))
        }
    }
}

/// Receives into `partial` until it has `size` bytes.
fn receive_into(
    partial: &mut PartialFile,
    size: u64,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&PartialFile) -> io::Result<()>,
    mut receive: impl FnMut(&mut [u8], Duration) -> io::Result<Option<usize>>,
) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    let mut pace = PaceLimit::new(Instant::now());
    while partial.len() < size {
        let most = usize::try_from(size - partial.len()).unwrap_or(usize::MAX);
        let most = buffer.len().min(most);
        match receive(&mut buffer[..most], STOP_POLL_INTERVAL) {
            Ok(Some(len)) => {
                partial.write(&buffer[..len.min(most)])?;
                check_pace(&mut pace, len)?;
                progress(partial)?;
            }
            Ok(None) => {
                let text = "the peer ended the transfer before the end of the file";
                return Err(io::Error::new(ErrorKind::UnexpectedEof, text));
            }
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                partial.check_held()?;
                check_pace(&mut pace, 0)?;
            }
            Err(error) => return Err(error),
        }
        if stop.load(Ordering::Relaxed) {
            let text = "the receiver is stopping; send the file again later to resume here";
            return Err(io::Error::new(ErrorKind::Interrupted, text));
        }
    }
    Ok(())
}

fn check_pace(pace: &mut PaceLimit, len: usize) -> io::Result<()> {
    if pace.is_kept(Instant::now(), len) {
        return Ok(());
    }
    let text = "the data come slower than 1 KiB/s; send the file again later to resume here";
    Err(io::Error::new(ErrorKind::TimedOut, text))
}
