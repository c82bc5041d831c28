//! The receiving side of file transfers.

use super::partial_file::{PartialFile, plain_name};
use super::protocol::{self, ID_LEN, Offer, ResumePoint};
use super::{CHUNK, CLOSE_TIMEOUT, HASH_TIMEOUT, PEER_TIMEOUT, TransferProgress};
use crate::xtp::group::{self, Receiver, Stream};
use crate::xtp::{Circuit, Endpoint};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Concurrent transfers; further peers wait.
const TRANSFERS_MAX: usize = 32;

/// How often a transfer checks whether to stop.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Receives files into a directory.
pub struct FileReceiver {
    /// The endpoint that senders connect to.
    pub endpoint: Endpoint,
    /// The directory.
    pub folder: PathBuf,
    /// Whether a file replaces an existing one of the same name.
    pub overwrite: bool,
}

/// The outcome of a transfer.
#[derive(Debug)]
pub struct ReceivedFile {
    /// The sender.
    pub peer: SocketAddr,
    /// The plain file name; empty if the offer was not received or invalid.
    pub name: String,
    /// How far the transfer got.
    pub progress: TransferProgress,
    /// The path of the file, or why the transfer failed.
    pub result: io::Result<PathBuf>,
}

impl FileReceiver {
    /// Receives files until `stop` is set; calls `on_received` after each transfer. Senders are
    /// refused before this begins, unless the endpoint listens already.
    ///
    /// # Errors
    ///
    /// Errors of the endpoint; an error of one transfer ends only that transfer.
    pub fn run(
        &self,
        stop: &AtomicBool,
        on_received: &(dyn Fn(ReceivedFile) + Sync),
    ) -> io::Result<()> {
        self.endpoint.listen(true);
        let busy = AtomicUsize::new(0);
        let result = std::thread::scope(|scope| {
            while !stop.load(Ordering::Relaxed) {
                if busy.load(Ordering::Relaxed) >= TRANSFERS_MAX {
                    std::thread::sleep(STOP_POLL_INTERVAL);
                    continue;
                }
                let circuit = match self.endpoint.accept(STOP_POLL_INTERVAL) {
                    Ok(circuit) => circuit,
                    Err(error) if error.kind() == ErrorKind::TimedOut => continue,
                    Err(error) => return Err(error),
                };
                busy.fetch_add(1, Ordering::Relaxed);
                let busy = &busy;
                scope.spawn(move || {
                    self.serve_transfer(circuit, stop, on_received);
                    busy.fetch_sub(1, Ordering::Relaxed);
                });
            }
            Ok(())
        });
        self.endpoint.listen(false);
        result
    }

    fn serve_transfer(
        &self,
        mut circuit: Circuit,
        stop: &AtomicBool,
        on_received: &(dyn Fn(ReceivedFile) + Sync),
    ) {
        let mut received = ReceivedFile {
            peer: circuit.peer(),
            name: String::new(),
            progress: TransferProgress::default(),
            result: Err(ErrorKind::Interrupted.into()),
        };
        received.result = self.receive_file(&mut circuit, &mut received, stop);
        let refusal = received.result.as_ref().err().map(ToString::to_string);
        // If the status cannot be sent, the peer is gone, and there is nothing to close.
        let answered = protocol::send_status(&mut circuit, refusal.as_deref());
        on_received(received);
        if answered.is_ok() {
            let _ = circuit.close(CLOSE_TIMEOUT);
        }
    }

    fn receive_file(
        &self,
        circuit: &mut Circuit,
        received: &mut ReceivedFile,
        stop: &AtomicBool,
    ) -> io::Result<PathBuf> {
        let offer = Offer::receive(circuit)?;
        received.progress.size = offer.size;
        received.name = plain_name(&offer.name).ok_or_else(|| {
            let text = format!("'{}' is not a file name", offer.name);
            io::Error::new(ErrorKind::InvalidInput, text)
        })?;
        let mut partial =
            PartialFile::open(&self.folder, &received.name, offer.size, self.overwrite)?;
        // Join before replying, so that the sender need not wait for the join.
        let group = offer
            .group
            .map(|group| self.join_group(group))
            .transpose()?;
        let resume_point = ResumePoint {
            len: partial.len(),
            sha256: partial.digest(),
        };
        resume_point.send(circuit)?;
        let from = u64::from_be_bytes(protocol::recv_array(circuit, HASH_TIMEOUT)?);
        if from > partial.len() {
            let text = "the peer resumes beyond the end of the partial file";
            return Err(io::Error::new(ErrorKind::InvalidData, text));
        }
        partial.truncate_to(from)?;
        received.progress.resumed_from = from;
        received.progress.done = from;
        let mut progress = |partial: &PartialFile| received.progress.done = partial.len();
        match group {
            None => {
                let receive = |room: &mut [u8], limit| circuit.recv(room, limit);
                receive_into(&mut partial, offer.size, stop, &mut progress, receive)?;
            }
            Some(group) => {
                let mut stream = accept_stream(&group, &offer.id, stop)?;
                let receive = |room: &mut [u8], limit| stream.recv(room, limit);
                receive_into(&mut partial, offer.size, stop, &mut progress, receive)?;
                let ended = stream.recv(&mut [0], PEER_TIMEOUT)?.is_none();
                // The data are complete, even if the sender does not acknowledge the close.
                let _ = stream.close(PEER_TIMEOUT);
                if !ended {
                    let text = "the peer sent more bytes than it offered";
                    return Err(io::Error::new(ErrorKind::InvalidData, text));
                }
            }
        }
        partial.finish(&protocol::recv_array(circuit, HASH_TIMEOUT)?)
    }

    fn join_group(&self, group: SocketAddr) -> io::Result<Receiver> {
        let local = self.endpoint.local_addr().ip();
        Receiver::join(group, local, &group::GroupEndpointConfig::default())
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

/// Receives into `partial` until it has `size` bytes.
fn receive_into(
    partial: &mut PartialFile,
    size: u64,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&PartialFile),
    mut receive: impl FnMut(&mut [u8], Duration) -> io::Result<Option<usize>>,
) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    let mut last_received_at = Instant::now();
    while partial.len() < size {
        let most = usize::try_from(size - partial.len()).unwrap_or(usize::MAX);
        let most = buffer.len().min(most);
        match receive(&mut buffer[..most], STOP_POLL_INTERVAL) {
            Ok(Some(len)) => {
                partial.write(&buffer[..len.min(most)])?;
                last_received_at = Instant::now();
                progress(partial);
            }
            Ok(None) => {
                let text = "the peer ended the transfer before the end of the file";
                return Err(io::Error::new(ErrorKind::UnexpectedEof, text));
            }
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                if last_received_at.elapsed() >= PEER_TIMEOUT {
                    return Err(error);
                }
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
