//! The receiving side.

use super::part::{Part, plain_name};
use super::talk::{self, Have, Hello, ID_LEN};
use super::{CHUNK, LINGER, PATIENCE, Progress, SUM_PATIENCE};
use crate::xtp::group::{self, Receiver, Stream};
use crate::xtp::{Circuit, Endpoint};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Transfers at once; peers beyond wait.
const TRANSFERS_MAX: usize = 32;

/// How often a transfer looks whether to stop.
const LOOK: Duration = Duration::from_millis(200);

/// A folder that files are received into.
pub struct Inbox {
    /// Where peers reach it.
    pub endpoint: Endpoint,
    /// The folder.
    pub folder: PathBuf,
    /// Whether a file takes the place of one of the same name.
    pub overwrite: bool,
}

/// What became of a transfer.
#[derive(Debug)]
pub struct Received {
    /// Who sent it.
    pub peer: SocketAddr,
    /// The name it has here, or should have had; empty when the peer never said one.
    pub name: String,
    /// How far it got: all of it, if it is there.
    pub progress: Progress,
    /// Where the file is, or why it is not.
    pub result: io::Result<PathBuf>,
}

impl Inbox {
    /// Receives files until `stop` is set; `tell` hears of each that came or failed. Senders are
    /// refused before this begins, unless the endpoint listens already.
    ///
    /// # Errors
    ///
    /// The kernel's, about the endpoint; what happens to one transfer ends only that one.
    pub fn run(&self, stop: &AtomicBool, tell: &(dyn Fn(Received) + Sync)) -> io::Result<()> {
        self.endpoint.listen(true);
        let busy = AtomicUsize::new(0);
        let result = std::thread::scope(|scope| {
            while !stop.load(Ordering::Relaxed) {
                if busy.load(Ordering::Relaxed) >= TRANSFERS_MAX {
                    std::thread::sleep(LOOK);
                    continue;
                }
                let circuit = match self.endpoint.accept(LOOK) {
                    Ok(circuit) => circuit,
                    Err(error) if error.kind() == ErrorKind::TimedOut => continue,
                    Err(error) => return Err(error),
                };
                busy.fetch_add(1, Ordering::Relaxed);
                let busy = &busy;
                scope.spawn(move || {
                    self.take(circuit, stop, tell);
                    busy.fetch_sub(1, Ordering::Relaxed);
                });
            }
            Ok(())
        });
        self.endpoint.listen(false);
        result
    }

    fn take(&self, mut circuit: Circuit, stop: &AtomicBool, tell: &(dyn Fn(Received) + Sync)) {
        let mut received = Received {
            peer: circuit.peer(),
            name: String::new(),
            progress: Progress::default(),
            result: Err(ErrorKind::Interrupted.into()),
        };
        received.result = self.try_take(&mut circuit, &mut received, stop);
        let refusal = received.result.as_ref().err().map(ToString::to_string);
        // A peer that is gone needs no answer.
        let answered = talk::answer(&mut circuit, refusal.as_deref());
        tell(received);
        if answered.is_ok() {
            let _ = circuit.close(LINGER);
        }
    }

    fn try_take(
        &self,
        circuit: &mut Circuit,
        received: &mut Received,
        stop: &AtomicBool,
    ) -> io::Result<PathBuf> {
        let hello = Hello::receive(circuit)?;
        received.progress.size = hello.size;
        received.name = plain_name(&hello.name).ok_or_else(|| {
            let text = format!("'{}' is no name of a file", hello.name);
            io::Error::new(ErrorKind::InvalidInput, text)
        })?;
        let mut part = Part::open(&self.folder, &received.name, hello.size, self.overwrite)?;
        // Joined before it is said, so that the sender does not wait for it.
        let group = hello.group.map(|group| self.join(group)).transpose()?;
        let have = Have {
            len: part.len(),
            sum: part.sum(),
        };
        have.send(circuit)?;
        let from = u64::from_be_bytes(talk::array(circuit, SUM_PATIENCE)?);
        if from > part.len() {
            let text = "the peer goes on from where nothing is";
            return Err(io::Error::new(ErrorKind::InvalidData, text));
        }
        part.keep(from)?;
        received.progress.from = from;
        received.progress.done = from;
        let mut progress = |part: &Part| received.progress.done = part.len();
        match group {
            None => {
                let receive = |room: &mut [u8], limit| circuit.recv(room, limit);
                fill(&mut part, hello.size, stop, &mut progress, receive)?;
            }
            Some(group) => {
                let mut stream = find(&group, &hello.id, stop)?;
                let receive = |room: &mut [u8], limit| stream.recv(room, limit);
                fill(&mut part, hello.size, stop, &mut progress, receive)?;
                let ended = stream.recv(&mut [0], PATIENCE)?.is_none();
                // All is here, whether or not the sender hears the goodbye.
                let _ = stream.close(PATIENCE);
                if !ended {
                    let text = "the peer sent more than it said";
                    return Err(io::Error::new(ErrorKind::InvalidData, text));
                }
            }
        }
        part.finish(&talk::array(circuit, SUM_PATIENCE)?)
    }

    fn join(&self, group: SocketAddr) -> io::Result<Receiver> {
        let local = self.endpoint.local_addr().ip();
        Receiver::join(group, local, &group::Settings::default())
    }
}

/// The stream of the transfer `id`: a group may carry several.
fn find(group: &Receiver, id: &[u8; ID_LEN], stop: &AtomicBool) -> io::Result<Stream> {
    let end = Instant::now() + PATIENCE;
    while !stop.load(Ordering::Relaxed) {
        let mut stream = match group.accept(LOOK) {
            Ok(stream) => stream,
            Err(error) if error.kind() == ErrorKind::TimedOut && Instant::now() < end => continue,
            Err(error) => return Err(error),
        };
        let mut first = [0; ID_LEN];
        let read = talk::fill(&mut first, |room| stream.recv(room, PATIENCE));
        if read.is_ok() && first == *id {
            return Ok(stream);
        }
    }
    Err(ErrorKind::Interrupted.into())
}

/// Adds bytes to `part` until it has `size`.
fn fill(
    part: &mut Part,
    size: u64,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Part),
    mut receive: impl FnMut(&mut [u8], Duration) -> io::Result<Option<usize>>,
) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    let mut heard = Instant::now();
    while part.len() < size {
        let most = usize::try_from(size - part.len()).unwrap_or(usize::MAX);
        let most = buffer.len().min(most);
        match receive(&mut buffer[..most], LOOK) {
            Ok(Some(len)) => {
                part.write(&buffer[..len.min(most)])?;
                heard = Instant::now();
                progress(part);
            }
            Ok(None) => {
                let text = "the peer ended before the file did";
                return Err(io::Error::new(ErrorKind::UnexpectedEof, text));
            }
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                if heard.elapsed() >= PATIENCE {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
        if stop.load(Ordering::Relaxed) {
            let text = "the receiver stops; send it again later, it goes on from here";
            return Err(io::Error::new(ErrorKind::Interrupted, text));
        }
    }
    Ok(())
}
