//! The sending side of file transfers.

use super::group_terms::{GroupTerms, check_group_words};
use super::partial_file::FileHasher;
use super::protocol::{self, ID_LEN, Offer, ResumePoint};
use super::{CHUNK, CLOSE_TIMEOUT, HASH_TIMEOUT, PEER_TIMEOUT, TransferProgress};
use crate::engine_setup::random_seed;
use crate::push::{ModuleStack, PushedStream};
use crate::socket::source_address_to;
use crate::xtp::Endpoint;
use crate::xtp::group::{self, AdmittedHost, GroupWords, Sender};
use engine::Address;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind, IoSliceMut, Read, Seek, SeekFrom};
use std::net::SocketAddr;
use std::path::Path;

/// A file that arrived complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentFile {
    /// Bytes of the file.
    pub size: u64,
    /// The offset at which the transfer resumed: bytes the receiver had already.
    pub resumed_from: u64,
    /// What the modules on its circuit counted.
    pub module_counts: BTreeMap<String, u64>,
}

/// Sends the file at `path` to the receiver at `to`, through `modules` that are the receiver's too;
/// calls `progress` as it advances.
///
/// # Errors
///
/// `InvalidData` when the receiver has other modules; the file system's; the receiver's reason when it refuses; `ConnectionRefused` or `TimedOut` when
/// it does not answer; those of a circuit that fails. The receiver keeps what arrived, and the next
/// transfer resumes there.
pub fn send(
    endpoint: &Endpoint,
    to: SocketAddr,
    path: &Path,
    modules: Option<&ModuleStack>,
    progress: &mut dyn FnMut(TransferProgress),
) -> io::Result<SentFile> {
    let (mut file, offer) = open_offer(path, None)?;
    let circuit = endpoint.connect(to, PEER_TIMEOUT)?;
    let mut circuit = PushedStream::new(circuit, modules, true)?;
    let sent = send_over(&mut circuit, &mut file, &offer, progress);
    if sent.is_err() {
        // So that the receiver does not wait for more data; it may be gone already.
        let _ = circuit.abort();
    }
    sent
}

fn send_over(
    circuit: &mut PushedStream,
    file: &mut File,
    offer: &Offer,
    progress: &mut dyn FnMut(TransferProgress),
) -> io::Result<SentFile> {
    offer.send(circuit)?;
    let resume_point = ResumePoint::receive(circuit, HASH_TIMEOUT)?;
    let (from, mut hasher) = resume_offset(file, &resume_point, offer.size)?;
    protocol::send_and_flush(circuit, &from.to_be_bytes())?;
    let mut buffer = Vec::new();
    send_content(
        file,
        from,
        offer.size,
        progress,
        |file, most| match fill_store(circuit, file, most, &mut hasher)? {
            true => Ok(most),
            false => send_chunk(file, most, (&mut buffer, &mut hasher), |bytes| {
                circuit.send(bytes, PEER_TIMEOUT)
            }),
        },
    )?;
    send_digest(circuit, &hasher)?;
    Ok(SentFile {
        size: offer.size,
        resumed_from: from,
        module_counts: circuit.counts(),
    })
}

/// Sends the file at `path` to all receivers at `hosts` at once, each byte once, to the multicast
/// address `group`, with `words` for the group, which the receivers are told. Returns the result of
/// each host, in order. A host that fails does not delay the others; data that all hosts have from an
/// earlier transfer are not sent again.
///
/// # Errors
///
/// `InvalidInput` for words that files have no use for ([`check_group_words`]), the file system's, and those of the
/// group as a whole.
pub fn send_to_group(
    endpoint: &Endpoint,
    hosts: &[SocketAddr],
    (group, words): (SocketAddr, &GroupWords),
    path: &Path,
    progress: &mut dyn FnMut(TransferProgress),
) -> io::Result<Vec<io::Result<SentFile>>> {
    check_group_words(words).map_err(crate::options::invalid)?;
    let (mut file, mut offer) = open_offer(path, Some(group))?;
    offer.terms = GroupTerms::of(words);
    let mut members: Vec<io::Result<(PushedStream, ResumePoint)>> = hosts
        .iter()
        .map(|&host| {
            let circuit = endpoint.connect(host, PEER_TIMEOUT)?;
            let mut circuit = PushedStream::new(circuit, None, true)?;
            offer.send(&mut circuit)?;
            let resume_point = ResumePoint::receive(&mut circuit, HASH_TIMEOUT)?;
            Ok((circuit, resume_point))
        })
        .collect();
    // The transfer resumes at the smallest offset of all hosts.
    let mut from = offer.size;
    for (_, resume_point) in members.iter().flatten() {
        from = from.min(resume_offset(&mut file, resume_point, offer.size)?.0);
    }
    for member in &mut members {
        if let Ok((circuit, _)) = member
            && let Err(error) = protocol::send_and_flush(circuit, &from.to_be_bytes())
        {
            *member = Err(error);
        }
    }
    let mut settings = group::GroupEndpointConfig::default();
    words.apply(&mut settings);
    endpoint.share_introspection(&mut settings);
    let hasher = send_content_to_group(&mut file, &offer, from, settings, &members, progress)?;
    let size = offer.size;
    let finish = |member: io::Result<(PushedStream, ResumePoint)>| {
        let (mut circuit, _) = member?;
        send_digest(&mut circuit, &hasher)?;
        Ok(SentFile {
            size,
            resumed_from: from,
            module_counts: BTreeMap::new(),
        })
    };
    Ok(members.into_iter().map(finish).collect())
}

/// Multicasts the content to the members whose circuits are open.
fn send_content_to_group(
    file: &mut File,
    offer: &Offer,
    from: u64,
    mut settings: group::GroupEndpointConfig,
    members: &[io::Result<(PushedStream, ResumePoint)>],
    progress: &mut dyn FnMut(TransferProgress),
) -> io::Result<FileHasher> {
    let mut hasher = FileHasher::new();
    file.rewind()?;
    if !hasher.update_from_file(file, from)? {
        return Err(file_shrunk());
    }
    // A stranger who joins would count as one of the hosts, and could hold up all of them. The
    // secrets came over the associations by which the hosts were asked.
    let admitted: Vec<AdmittedHost> = members
        .iter()
        .flatten()
        .map(|(circuit, resume_point)| AdmittedHost {
            address: circuit.peer().ip(),
            join_secret: Some(resume_point.join_secret),
        })
        .collect();
    let (Some((first, _)), Some(group)) = (members.iter().flatten().next(), offer.group) else {
        return Ok(hasher);
    };
    settings.config.members_min = admitted.len();
    if offer.terms.replicate {
        let at_port = |host: &AdmittedHost| SocketAddr::new(host.address, group.port());
        let addresses = admitted.iter().map(at_port).map(Address::Socket);
        settings.config.replicate = addresses.collect();
    }
    settings.config.admitted = Some(admitted);
    let mut sender = Sender::open(group, source_address_to(first.peer())?, &settings)?;
    match sender.wait_ready(PEER_TIMEOUT) {
        // A member that did not join reports the missing stream on its own circuit.
        Err(error) if error.kind() == ErrorKind::TimedOut && !sender.members().is_empty() => {}
        other => other?,
    }
    sender.send(&offer.id, PEER_TIMEOUT)?;
    let mut buffer = Vec::new();
    send_content(file, from, offer.size, progress, |file, most| {
        send_chunk(file, most, (&mut buffer, &mut hasher), |bytes| {
            sender.send(bytes, PEER_TIMEOUT)
        })
    })?;
    match sender.close(PEER_TIMEOUT) {
        // Each member reports on its circuit whether the file is complete.
        Err(error) if error.kind() == ErrorKind::TimedOut => {}
        other => drop(other?),
    }
    Ok(hasher)
}

/// Opens a file and makes the offer for it.
fn open_offer(path: &Path, group: Option<SocketAddr>) -> io::Result<(File, Offer)> {
    let file = File::open(path)?;
    let about = file.metadata()?;
    if !about.is_file() {
        let text = "not a regular file; send files one by one, or an archive of a directory";
        return Err(io::Error::new(ErrorKind::InvalidInput, text));
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut id = [0; ID_LEN];
    for part in id.chunks_exact_mut(8) {
        part.copy_from_slice(&random_seed().to_be_bytes());
    }
    let offer = Offer {
        name: name.into_owned(),
        size: about.len(),
        id,
        group,
        terms: GroupTerms::default(),
    };
    Ok((file, offer))
}

/// The offset at which to resume, and the running hash up to it.
fn resume_offset(
    file: &mut File,
    resume_point: &ResumePoint,
    size: u64,
) -> io::Result<(u64, FileHasher)> {
    let mut hasher = FileHasher::new();
    file.rewind()?;
    if resume_point.len <= size
        && hasher.update_from_file(file, resume_point.len)?
        && hasher.digest() == resume_point.sha256
    {
        return Ok((resume_point.len, hasher));
    }
    Ok((0, FileHasher::new()))
}

/// Sends the bytes `from` to `size` of a file, by `send` so many at most of those that follow; it returns how many.
fn send_content(
    file: &mut File,
    from: u64,
    size: u64,
    progress: &mut dyn FnMut(TransferProgress),
    mut send: impl FnMut(&mut File, usize) -> io::Result<usize>,
) -> io::Result<()> {
    file.seek(SeekFrom::Start(from))?;
    let mut done = from;
    progress(TransferProgress {
        resumed_from: from,
        done,
        size,
    });
    while done < size {
        let most = CHUNK.min(usize::try_from(size - done).unwrap_or(usize::MAX));
        done += send(file, most)? as u64;
        progress(TransferProgress {
            resumed_from: from,
            done,
            size,
        });
    }
    Ok(())
}

/// Reads the next bytes of a file, `most` at most, adds them to its hash and sends them; how many.
fn send_chunk(
    file: &mut File,
    most: usize,
    (buffer, hasher): (&mut Vec<u8>, &mut FileHasher),
    send: impl FnOnce(&[u8]) -> io::Result<()>,
) -> io::Result<usize> {
    buffer.resize(CHUNK, 0);
    let len = file.read(&mut buffer[..most])?;
    if len == 0 {
        return Err(file_shrunk());
    }
    hasher.update(&buffer[..len]);
    send(&buffer[..len])?;
    Ok(len)
}

/// Reads the next `len` bytes of a file where the circuit sends from, which saves a copy, and adds them to its hash; false where
/// modules are on the circuit.
fn fill_store(
    circuit: &mut PushedStream,
    file: &mut File,
    len: usize,
    hasher: &mut FileHasher,
) -> io::Result<bool> {
    let Some(store) = circuit.reserve(len, PEER_TIMEOUT)? else {
        return Ok(false);
    };
    let mut pieces: Vec<&mut [u8]> = store.collect();
    read_pieces(file, &mut pieces)?;
    pieces.iter().for_each(|piece| hasher.update(piece));
    circuit.commit()?;
    Ok(true)
}

/// Fills all of `pieces` with the next bytes of a file.
fn read_pieces(file: &mut File, pieces: &mut [&mut [u8]]) -> io::Result<()> {
    let mut slices: Vec<IoSliceMut<'_>> = pieces
        .iter_mut()
        .map(|piece| IoSliceMut::new(piece))
        .collect();
    let mut left = &mut slices[..];
    while !left.is_empty() {
        match file.read_vectored(left) {
            Ok(0) => return Err(file_shrunk()),
            Ok(len) => IoSliceMut::advance_slices(&mut left, len),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn file_shrunk() -> io::Error {
    let text = "the file got shorter while it was sent; send it again";
    io::Error::new(ErrorKind::UnexpectedEof, text)
}

/// Sends the SHA-256 of the file and receives whether it matched.
fn send_digest(circuit: &mut PushedStream, hasher: &FileHasher) -> io::Result<()> {
    circuit.send_last(&hasher.digest(), PEER_TIMEOUT)?;
    protocol::recv_status(circuit, HASH_TIMEOUT)?;
    // The file has arrived; an unacknowledged close does not matter.
    let _ = circuit.drain(CLOSE_TIMEOUT);
    Ok(())
}
