//! Setting up channels: one message with their segments' descriptors, over a Unix socket.

use crate::error::{ChannelError, system};
use crate::geometry::{Geometry, OPENING_LEN};
use crate::sys::Segment;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// Segments of one opening, at most: a channel each way.
const SEGMENTS_MAX: usize = 2;

/// Makes `N` segments and passes them to the peer.
pub(crate) fn offer<const N: usize>(
    socket: &UnixStream,
    geometry: Geometry,
) -> Result<[Segment; N], ChannelError> {
    make_and_send(socket, geometry, &geometry.encode())
}

/// The same for channels whose modules have these names.
pub(crate) fn offer_with<const N: usize>(
    socket: &UnixStream,
    geometry: Geometry,
    modules: &str,
) -> Result<[Segment; N], ChannelError> {
    make_and_send(socket, geometry, &geometry.encode_with(modules))
}

fn make_and_send<const N: usize>(
    socket: &UnixStream,
    geometry: Geometry,
    opening: &[u8],
) -> Result<[Segment; N], ChannelError> {
    const { assert!(N <= SEGMENTS_MAX) };
    check_user(socket)?;
    let mut segments = Vec::with_capacity(N);
    let mut descriptors = Vec::with_capacity(N);
    for _ in 0..N {
        let (segment, descriptor) = Segment::create(geometry.segment_len())?;
        segments.push(segment);
        descriptors.push(descriptor);
    }
    send(socket, opening, &descriptors)?;
    exactly(segments)
}

fn send(socket: &UnixStream, opening: &[u8], descriptors: &[OwnedFd]) -> Result<(), ChannelError> {
    let descriptors: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SEGMENTS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fits =
        descriptors.is_empty() || control.push(SendAncillaryMessage::ScmRights(&descriptors));
    debug_assert!(fits, "room for {SEGMENTS_MAX}");
    let parts = [IoSlice::new(opening)];
    rustix::net::sendmsg(socket, &parts, &mut control, SendFlags::NOSIGNAL)
        .map_err(system("sendmsg of a channel's opening"))?;
    Ok(())
}

/// Takes the `N` segments of the peer, and checks them.
pub(crate) fn accept<const N: usize>(
    socket: &UnixStream,
) -> Result<([Segment; N], Geometry), ChannelError> {
    check_user(socket)?;
    let (opening, descriptors) = receive::<OPENING_LEN>(socket)?;
    let geometry = Geometry::decode(&opening)?;
    Ok((adopt(descriptors, geometry)?, geometry))
}

/// Octets of the names of one direction's modules, at most.
pub(crate) const NAMES_MAX: usize = 63;

/// Octets of the names in an opening, at most: those of both directions, and a stroke between.
const WORDS_MAX: usize = 2 * NAMES_MAX + 1;

/// The same, if the channels' modules are called `modules`.
pub(crate) fn accept_with<const N: usize>(
    socket: &UnixStream,
    modules: &str,
) -> Result<([Segment; N], Geometry), ChannelError> {
    check_user(socket)?;
    let (opening, descriptors) = receive::<{ OPENING_LEN + WORDS_MAX }>(socket)?;
    let (geometry, peer) = Geometry::decode_with(&opening)?;
    if peer != modules {
        return Err(ChannelError::OtherModules {
            own: modules.into(),
            peer: peer.escape_debug().to_string(),
        });
    }
    Ok((adopt(descriptors, geometry)?, geometry))
}

/// Maps the segments of an opening, after checks.
fn adopt<const N: usize>(
    descriptors: Vec<OwnedFd>,
    geometry: Geometry,
) -> Result<[Segment; N], ChannelError> {
    let descriptors: [OwnedFd; N] = exactly(descriptors)?;
    let adopt = |descriptor: &OwnedFd| Segment::adopt(descriptor, geometry.segment_len());
    let segments: Result<Vec<Segment>, ChannelError> = descriptors.iter().map(adopt).collect();
    exactly(segments?)
}

/// Octets of the message by which an arena's owner admits a member: an opening, then its number.
const ADMISSION_LEN: usize = OPENING_LEN + 4;

/// Octets of the message by which a member says to another who it is: the arena's identity, its number.
const HELLO_LEN: usize = 12;

/// Passes the memory of an arena to a process that becomes the member of `number`.
pub(crate) fn offer_member(
    socket: &UnixStream,
    memory: &OwnedFd,
    geometry: Geometry,
    number: u32,
) -> Result<(), ChannelError> {
    check_user(socket)?;
    let mut admission = geometry.encode().to_vec();
    admission.extend(number.to_le_bytes());
    let copy = memory.try_clone().map_err(|source| ChannelError::System {
        action: "dup of an arena's descriptor",
        source,
    })?;
    send(socket, &admission, &[copy])
}

/// Takes the memory of an arena: its segment, which has `len_of` its geometry's octets, and identity, its geometry, and the member's
/// number.
pub(crate) fn accept_member(
    socket: &UnixStream,
    len_of: impl FnOnce(Geometry) -> usize,
) -> Result<(Segment, u64, Geometry, u32), ChannelError> {
    check_user(socket)?;
    let (admission, descriptors) = receive::<ADMISSION_LEN>(socket)?;
    let Some((opening, number)) = admission.split_first_chunk::<OPENING_LEN>() else {
        return Err(ChannelError::Opening);
    };
    let geometry = Geometry::decode(opening)?;
    let number = number.try_into().map_err(|_| ChannelError::Opening)?;
    let [memory] = exactly(descriptors)?;
    let segment = Segment::adopt(&memory, len_of(geometry))?;
    Ok((
        segment,
        identity(&memory)?,
        geometry,
        u32::from_le_bytes(number),
    ))
}

/// The inode of a memory, which the kernel gives to no other while it lives.
pub(crate) fn identity(memory: &OwnedFd) -> Result<u64, ChannelError> {
    let status = rustix::fs::fstat(memory).map_err(system("fstat of an arena's memory"))?;
    Ok(status.st_ino)
}

/// Says to another member of an arena which one this is.
pub(crate) fn send_hello(
    socket: &UnixStream,
    identity: u64,
    number: u32,
) -> Result<(), ChannelError> {
    check_user(socket)?;
    let mut hello = identity.to_le_bytes().to_vec();
    hello.extend(number.to_le_bytes());
    send(socket, &hello, &[])
}

/// Which arena, and which of its members, is at the other end.
pub(crate) fn receive_hello(socket: &UnixStream) -> Result<(u64, u32), ChannelError> {
    check_user(socket)?;
    let (hello, _) = receive::<HELLO_LEN>(socket)?;
    let (identity, number) = hello
        .split_first_chunk::<8>()
        .ok_or(ChannelError::Opening)?;
    let number = number.try_into().map_err(|_| ChannelError::Opening)?;
    Ok((u64::from_le_bytes(*identity), u32::from_le_bytes(number)))
}

/// At most `LEN` octets of an opening, and the descriptors that came with it. More of them than one
/// opening has are closed by the kernel.
fn receive<const LEN: usize>(socket: &UnixStream) -> Result<(Vec<u8>, Vec<OwnedFd>), ChannelError> {
    let mut opening = [0; LEN];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SEGMENTS_MAX + 1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut opening)];
    let received = rustix::net::recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)
        .map_err(system("recvmsg of a channel's opening"))?;
    let rights = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(rights) => Some(rights),
        _ => None,
    });
    let descriptors: Vec<OwnedFd> = rights.flatten().collect();
    match received.bytes {
        0 => Err(ChannelError::PeerGone),
        len => Ok((opening[..len].to_vec(), descriptors)),
    }
}

/// The descriptors, or segments, of an opening that must have `N` of them.
fn exactly<T, const N: usize>(items: Vec<T>) -> Result<[T; N], ChannelError> {
    let found = items.len();
    items
        .try_into()
        .map_err(|_| ChannelError::Descriptors { found, expected: N })
}

/// Only processes of one user share memory: the kernel names the peer's.
fn check_user(socket: &UnixStream) -> Result<(), ChannelError> {
    let peer = rustix::net::sockopt::socket_peercred(socket)
        .map_err(system("SO_PEERCRED of a channel's socket"))?;
    let (peer, own) = (peer.uid.as_raw(), rustix::process::geteuid().as_raw());
    if peer == own {
        Ok(())
    } else {
        Err(ChannelError::OtherUser { peer, own })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn opening_without_a_descriptor_is_refused() {
        let (mut near, far) = UnixStream::pair().unwrap();
        near.write_all(&Geometry::new(64, 8).unwrap().encode())
            .unwrap();
        assert!(matches!(
            accept::<1>(&far),
            Err(ChannelError::Descriptors {
                found: 0,
                expected: 1
            })
        ));
    }

    #[test]
    fn opening_of_a_pair_is_refused_as_that_of_one_channel() {
        let (near, far) = UnixStream::pair().unwrap();
        let [_there, _back] = offer(&near, Geometry::new(64, 8).unwrap()).unwrap();
        assert!(matches!(
            accept::<1>(&far),
            Err(ChannelError::Descriptors {
                found: 2,
                expected: 1
            })
        ));
    }

    #[test]
    fn opening_of_other_octets_is_refused() {
        let (mut near, far) = UnixStream::pair().unwrap();
        near.write_all(b"GET / HTTP/1.0\r\n").unwrap();
        assert!(matches!(accept::<1>(&far), Err(ChannelError::Opening)));
    }

    #[test]
    fn opening_of_a_peer_that_hung_up_is_an_error() {
        let (near, far) = UnixStream::pair().unwrap();
        drop(near);
        assert!(matches!(accept::<1>(&far), Err(ChannelError::PeerGone)));
    }

    #[test]
    fn opening_accepted_has_the_geometry_offered() {
        let (near, far) = UnixStream::pair().unwrap();
        let geometry = Geometry::new(4096, 8).unwrap();
        let [own] = offer(&near, geometry).unwrap();
        let ([peer], accepted) = accept(&far).unwrap();
        assert_eq!(accepted, geometry);
        let (last, _) = geometry.place(7, 0);
        own.write(last, b"x");
        let mut octet = [0];
        peer.read(last, &mut octet);
        assert_eq!(&octet, b"x");
    }
}
