//! Packet sockets.

use crate::frame::{PORT_OFFSET, SOURCE_OFFSET};
use crate::packet::{HardwareType, OutgoingFrames, PacketSocketOptions};
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Opens a packet socket on interface number `index`.
pub(crate) fn open(
    index: u32,
    opening: &PacketSocketOptions,
) -> io::Result<(OwnedFd, HardwareType)> {
    let socket = open_unbound(opening)?;
    let hardware = bind(socket.as_fd(), index, opening.ethertype)?;
    let ignored = match opening.outgoing {
        OutgoingFrames::ReceivedOnce => hardware.0 == libc::ARPHRD_LOOPBACK,
        _ => false,
    };
    if ignored {
        ignore_outgoing(socket.as_fd())?;
    }
    Ok((socket, hardware))
}

/// Opens a socket that receives nothing until it is bound, so that no frame passes before the
/// filter is in place.
pub(super) fn open_unbound(opening: &PacketSocketOptions) -> io::Result<OwnedFd> {
    let waits = if opening.nonblocking {
        libc::SOCK_NONBLOCK
    } else {
        0
    };
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | waits;
    // SAFETY: creates a new descriptor.
    let raw = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    check(raw)?;
    // SAFETY: a new descriptor, owned from here on.
    let socket = unsafe { OwnedFd::from_raw_fd(raw) };
    let fd = socket.as_fd();
    let accepted = comparisons(opening);
    if !accepted.is_empty() {
        attach_filter(fd, &accepted)?;
    }
    if opening.source.is_some() {
        set_option(fd, libc::SOL_SOCKET, libc::SO_LOCK_FILTER, &1i32)?;
    }
    if opening.timestamped {
        set_option(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1i32)?;
    }
    if opening.outgoing == OutgoingFrames::Ignored {
        ignore_outgoing(fd)?;
    }
    if let Some(len) = opening.receive_buffer {
        let len = i32::try_from(len).unwrap_or(i32::MAX);
        // SO_RCVBUFFORCE needs CAP_NET_ADMIN; without it the kernel caps the buffer.
        set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &len)
            .or_else(|_| set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, &len))?;
    }
    Ok(socket)
}

fn ignore_outgoing(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_option(
        socket,
        libc::SOL_PACKET,
        libc::PACKET_IGNORE_OUTGOING,
        &1i32,
    )
}

/// A number at an offset of a frame, as a filter compares it.
struct Comparison {
    /// Size of the load, BPF_W or BPF_H.
    size: u32,
    offset: u32,
    value: u32,
}

/// What the frames that a socket receives have in common.
fn comparisons(opening: &PacketSocketOptions) -> Vec<Comparison> {
    let mut all = Vec::new();
    if let Some([a, b, c, d, e, f]) = opening.source {
        let front = u32::from_be_bytes([a, b, c, d]);
        let back = u16::from_be_bytes([e, f]).into();
        all.push(Comparison {
            size: libc::BPF_W,
            offset: SOURCE_OFFSET,
            value: front,
        });
        all.push(Comparison {
            size: libc::BPF_H,
            offset: SOURCE_OFFSET + 4,
            value: back,
        });
    }
    if let Some(port) = opening.port {
        all.push(Comparison {
            size: libc::BPF_H,
            offset: PORT_OFFSET,
            value: port.into(),
        });
    }
    all
}

/// Attaches a classic BPF program that accepts frames in which all comparisons hold.
fn attach_filter(socket: BorrowedFd<'_>, all: &[Comparison]) -> io::Result<()> {
    let step = |code: u32, jf, k| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf,
        k,
    };
    let mut program = Vec::new();
    for (index, one) in all.iter().enumerate() {
        // A mismatch jumps over what remains and the accepting return.
        let miss = 2 * (all.len() - index - 1) + 1;
        program.push(step(libc::BPF_LD | one.size | libc::BPF_ABS, 0, one.offset));
        let compare = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
        program.push(step(compare, miss as u8, one.value));
    }
    program.push(step(libc::BPF_RET | libc::BPF_K, 0, u32::MAX));
    program.push(step(libc::BPF_RET | libc::BPF_K, 0, 0));
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // The kernel copies the program during the call.
    set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)
}

/// Binds the socket to the interface and returns its hardware type.
pub(super) fn bind(socket: BorrowedFd<'_>, index: u32, ethertype: u16) -> io::Result<HardwareType> {
    // SAFETY: sockaddr_ll is plain data for which all zeros is a value.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    let mut len = mem::size_of_val(&address) as libc::socklen_t;
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = ethertype.to_be();
    address.sll_ifindex = index as i32;
    // SAFETY: the pointer and the length describe one live sockaddr_ll.
    let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) };
    check(result)?;
    // SAFETY: as above; the kernel writes no more than the length says.
    let result =
        unsafe { libc::getsockname(socket.as_raw_fd(), (&raw mut address).cast(), &raw mut len) };
    check(result)?;
    Ok(HardwareType(address.sll_hatype))
}

/// Joins the multicast hardware address `group` (PACKET_MR_MULTICAST), or leaves it.
pub(crate) fn set_member(
    socket: BorrowedFd<'_>,
    index: u32,
    group: [u8; 6],
    is_member: bool,
) -> io::Result<()> {
    let mut address = [0; 8];
    address[..6].copy_from_slice(&group);
    let member = libc::packet_mreq {
        mr_ifindex: index as i32,
        mr_type: libc::PACKET_MR_MULTICAST as u16,
        mr_alen: 6,
        mr_address: address,
    };
    let option = match is_member {
        true => libc::PACKET_ADD_MEMBERSHIP,
        false => libc::PACKET_DROP_MEMBERSHIP,
    };
    set_option(socket, libc::SOL_PACKET, option, &member)
}

/// Frames the kernel dropped since the last call because the buffer or ring was full.
pub(crate) fn drops(socket: BorrowedFd<'_>) -> io::Result<u64> {
    // SAFETY: tpacket_stats is plain data for which all zeros is a value.
    let mut counts: libc::tpacket_stats = unsafe { mem::zeroed() };
    let mut len = mem::size_of_val(&counts) as libc::socklen_t;
    // SAFETY: the pointer and the length describe one live tpacket_stats.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut counts).cast(),
            &raw mut len,
        )
    };
    check(result)?;
    Ok(counts.tp_drops.into())
}

/// Sets a socket option to a value of plain data.
pub(super) fn set_option<T: Copy>(
    socket: BorrowedFd<'_>,
    level: i32,
    name: i32,
    value: &T,
) -> io::Result<()> {
    // SAFETY: the pointer and the length describe one live value, which the kernel only reads.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            mem::size_of::<T>() as libc::socklen_t,
        )
    };
    check(result)
}

pub(super) fn check(result: i32) -> io::Result<()> {
    if result >= 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
