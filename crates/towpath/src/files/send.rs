//! The sending side.

use super::part::Summing;
use super::talk::{self, Have, Hello, ID_LEN};
use super::{CHUNK, LINGER, PATIENCE, Progress, SUM_PATIENCE};
use crate::xtp::group::{self, Sender};
use crate::xtp::{Circuit, Endpoint};
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// A file that arrived whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Bytes of the file.
    pub size: u64,
    /// Of these, bytes that were there from an earlier try.
    pub from: u64,
}

/// Sends the file at `path` to the receiver at `to`; `progress` hears how far it is.
///
/// # Errors
///
/// The file system's, the receiver's own words when it refuses, `ConnectionRefused` or `TimedOut`
/// when it does not answer, and those of a circuit that breaks. What arrived stays there for the
/// next try.
pub fn send(
    endpoint: &Endpoint,
    to: SocketAddr,
    path: &Path,
    progress: &mut dyn FnMut(Progress),
) -> io::Result<Sent> {
    let (mut file, hello) = offer(path, None)?;
    let mut circuit = endpoint.connect(to, PATIENCE)?;
    let sent = send_on(&mut circuit, &mut file, &hello, progress);
    if sent.is_err() {
        // So that the receiver does not wait for more; if it is gone, so be it.
        let _ = circuit.abort();
    }
    sent
}

fn send_on(
    circuit: &mut Circuit,
    file: &mut File,
    hello: &Hello,
    progress: &mut dyn FnMut(Progress),
) -> io::Result<Sent> {
    hello.send(circuit)?;
    let have = Have::receive(circuit, SUM_PATIENCE)?;
    let (from, mut summing) = agree(file, &have, hello.size)?;
    talk::say(circuit, &from.to_be_bytes())?;
    pour(file, from, hello.size, &mut summing, progress, |bytes| {
        circuit.send(bytes, PATIENCE)
    })?;
    end(circuit, &summing)?;
    Ok(Sent {
        size: hello.size,
        from,
    })
}

/// Sends the file at `path` to all receivers at `hosts` at once, each byte once, to the multicast
/// address `group`. The result of each host, in order. A host that fails does not hold up the
/// others; what all have of an earlier try is not sent again.
///
/// # Errors
///
/// The file system's, and those of the group as a whole.
pub fn send_to_group(
    endpoint: &Endpoint,
    hosts: &[SocketAddr],
    group: SocketAddr,
    path: &Path,
    progress: &mut dyn FnMut(Progress),
) -> io::Result<Vec<io::Result<Sent>>> {
    let (mut file, hello) = offer(path, Some(group))?;
    let mut members: Vec<io::Result<(Circuit, Have)>> = hosts
        .iter()
        .map(|&host| {
            let mut circuit = endpoint.connect(host, PATIENCE)?;
            hello.send(&mut circuit)?;
            let have = Have::receive(&mut circuit, SUM_PATIENCE)?;
            Ok((circuit, have))
        })
        .collect();
    // All begin where the first of them must.
    let mut from = hello.size;
    for (_, have) in members.iter().flatten() {
        from = from.min(agree(&mut file, have, hello.size)?.0);
    }
    for member in &mut members {
        if let Ok((circuit, _)) = member
            && let Err(error) = talk::say(circuit, &from.to_be_bytes())
        {
            *member = Err(error);
        }
    }
    let summing = send_bytes(&mut file, &hello, from, group, &members, progress)?;
    let size = hello.size;
    let finish = |member: io::Result<(Circuit, Have)>| {
        let (mut circuit, _) = member?;
        end(&mut circuit, &summing)?;
        Ok(Sent { size, from })
    };
    Ok(members.into_iter().map(finish).collect())
}

/// Sends the bytes to those members that are there.
fn send_bytes(
    file: &mut File,
    hello: &Hello,
    from: u64,
    group: SocketAddr,
    members: &[io::Result<(Circuit, Have)>],
    progress: &mut dyn FnMut(Progress),
) -> io::Result<Summing> {
    let mut summing = Summing::new();
    file.rewind()?;
    if !summing.add_file(file, from)? {
        return Err(shorter());
    }
    let there: Vec<&Circuit> = members
        .iter()
        .flatten()
        .map(|(circuit, _)| circuit)
        .collect();
    let Some(first) = there.first() else {
        return Ok(summing);
    };
    let settings = group::Settings::for_members(there.len());
    let mut sender = Sender::open(group, local_towards(first)?, &settings)?;
    match sender.wait_ready(PATIENCE) {
        // Those who did not join miss the stream, and say so themselves.
        Err(error) if error.kind() == ErrorKind::TimedOut && !sender.members().is_empty() => {}
        other => other?,
    }
    sender.send(&hello.id, PATIENCE)?;
    pour(file, from, hello.size, &mut summing, progress, |bytes| {
        sender.send(bytes, PATIENCE)
    })?;
    match sender.close(PATIENCE) {
        // Each says on its circuit whether the file is whole.
        Err(error) if error.kind() == ErrorKind::TimedOut => {}
        other => drop(other?),
    }
    Ok(summing)
}

/// The address from which this host speaks to a circuit's peer.
fn local_towards(circuit: &Circuit) -> io::Result<IpAddr> {
    let peer = circuit.peer();
    let socket = std::net::UdpSocket::bind(crate::socket::unspecified(&peer))?;
    // Nothing is sent.
    socket.connect(peer)?;
    Ok(socket.local_addr()?.ip())
}

/// Opens a file and says what comes.
fn offer(path: &Path, group: Option<SocketAddr>) -> io::Result<(File, Hello)> {
    let file = File::open(path)?;
    let about = file.metadata()?;
    if !about.is_file() {
        let text = "it is no plain file; send files one by one, or an archive of a folder";
        return Err(io::Error::new(ErrorKind::InvalidInput, text));
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut id = [0; ID_LEN];
    for part in id.chunks_exact_mut(8) {
        part.copy_from_slice(&RandomState::new().build_hasher().finish().to_be_bytes());
    }
    let hello = Hello {
        name: name.into_owned(),
        size: about.len(),
        id,
        group,
    };
    Ok((file, hello))
}

/// From where to go on, and the sum up to there.
fn agree(file: &mut File, have: &Have, size: u64) -> io::Result<(u64, Summing)> {
    let mut summing = Summing::new();
    file.rewind()?;
    if have.len <= size && summing.add_file(file, have.len)? && summing.sum() == have.sum {
        return Ok((have.len, summing));
    }
    Ok((0, Summing::new()))
}

/// Sends the bytes of a file from `from` to `size`.
fn pour(
    file: &mut File,
    from: u64,
    size: u64,
    summing: &mut Summing,
    progress: &mut dyn FnMut(Progress),
    mut send: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    file.seek(SeekFrom::Start(from))?;
    let mut buffer = vec![0; CHUNK];
    let mut done = from;
    progress(Progress { from, done, size });
    while done < size {
        let most = buffer
            .len()
            .min(usize::try_from(size - done).unwrap_or(usize::MAX));
        let len = file.read(&mut buffer[..most])?;
        if len == 0 {
            return Err(shorter());
        }
        summing.add(&buffer[..len]);
        send(&buffer[..len])?;
        done += len as u64;
        progress(Progress { from, done, size });
    }
    Ok(())
}

fn shorter() -> io::Error {
    let text = "the file got shorter while it was sent; send it again";
    io::Error::new(ErrorKind::UnexpectedEof, text)
}

/// Sends the sum of all bytes and hears whether it is that of the file that arrived.
fn end(circuit: &mut Circuit, summing: &Summing) -> io::Result<()> {
    circuit.send_last(&summing.sum(), PATIENCE)?;
    talk::agreed(circuit, SUM_PATIENCE)?;
    // It is there; whether the peer hears the end changes nothing.
    let _ = circuit.drain(LINGER);
    Ok(())
}
