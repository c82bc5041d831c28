//! TCP_INFO and MPTCP_INFO.

use crate::connection_info::ConnectionInfo;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// The fields of `struct tcp_info` that are reported; counts since the connection was opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TcpInfo {
    /// Segments retransmitted.
    pub(crate) retransmissions: u32,
    /// Segments sent, acknowledgements included.
    pub(crate) segments_sent: u32,
    /// Segments received, acknowledgements included.
    pub(crate) segments_received: u32,
    /// Smoothed RTT.
    pub(crate) rtt_us: u32,
    /// Sending maximum segment size, octets.
    pub(crate) mss: u32,
    /// The peer has ended its direction: its FIN has arrived.
    pub(crate) peer_ended: bool,
}

/// States of linux/tcp_states.h in which no FIN has arrived: ESTABLISHED, FIN-WAIT-1, FIN-WAIT-2 (RFC
/// 9293 s. 3.3.2).
const STATES_BEFORE_FIN: [u8; 3] = [1, 4, 5];

/// Reads TCP_INFO; fields an older kernel lacks are 0.
pub(crate) fn tcp_info(socket: BorrowedFd<'_>) -> io::Result<TcpInfo> {
    // SAFETY: tcp_info is plain data for which all zeros is a value.
    let mut info: libc::tcp_info = unsafe { mem::zeroed() };
    getsockopt(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info)?;
    Ok(TcpInfo {
        retransmissions: info.tcpi_total_retrans,
        segments_sent: info.tcpi_segs_out,
        segments_received: info.tcpi_segs_in,
        mss: info.tcpi_snd_mss,
        rtt_us: info.tcpi_rtt,
        peer_ended: !STATES_BEFORE_FIN.contains(&info.tcpi_state),
    })
}

/// Octets of `struct tcp_info` of linux/tcp.h in kernel 6.x, and room for more.
const TCP_INFO_ROOM: usize = 512;

/// Reads the connection's state from TCP_INFO; None for fields that an older kernel lacks.
pub(crate) fn tcp_connection_info(socket: BorrowedFd<'_>) -> io::Result<ConnectionInfo> {
    let mut octets = [0u8; TCP_INFO_ROOM];
    let len = getsockopt(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut octets)?;
    Ok(connection_info_in(octets.get(..len).unwrap_or(&octets)))
}

/// The fields of `struct tcp_info`, by their offsets in linux/tcp.h: the structure only grows at its
/// end, and the kernel says how much of it it has written.
fn connection_info_in(info: &[u8]) -> ConnectionInfo {
    let short = |at: usize| Some(u64::from(u32::from_ne_bytes(field(info, at)?)));
    let long = |at: usize| Some(u64::from_ne_bytes(field(info, at)?));
    let (mss, window) = (short(16), short(80));
    // tcp_packets_in_flight of net/tcp.h: sent, less what was selectively acknowledged or is held for
    // lost, and what of that was sent again.
    let packets_in_flight = || {
        let gone = short(28)? + short(32)?;
        Some((short(24)? + short(36)?).saturating_sub(gone))
    };
    let octets = |packets: Option<u64>| Some(packets? * mss?);
    ConnectionInfo {
        congestion_window: octets(window),
        send_window: short(228),
        in_flight: octets(packets_in_flight()),
        smoothed_rtt: short(68).map(Duration::from_micros),
        retransmissions: short(100),
        delivery_rate: long(160),
        // All ones: no limit, as long as the connection is not paced.
        sending_rate: long(104).filter(|rate| *rate != u64::MAX),
    }
}

fn field<const N: usize>(info: &[u8], at: usize) -> Option<[u8; N]> {
    info.get(at..at + N)?.try_into().ok()
}

/// State of an MPTCP connection: the front of `struct mptcp_info` of linux/mptcp.h.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MptcpInfo {
    /// Subflows beside the first.
    pub(crate) subflows: u8,
    add_addr_signal: u8,
    add_addr_accepted: u8,
    subflows_max: u8,
    add_addr_signal_max: u8,
    add_addr_accepted_max: u8,
    padding: [u8; 2],
    /// MPTCP_INFO_FLAG_* bits.
    pub(crate) flags: u32,
}

/// SOL_MPTCP of linux/socket.h.
const SOL_MPTCP: i32 = 284;
/// MPTCP_INFO of linux/mptcp.h.
const MPTCP_INFO: i32 = 1;
/// MPTCP_INFO_FLAG_FALLBACK of linux/mptcp.h.
const MPTCP_INFO_FLAG_FALLBACK: u32 = 1;

impl MptcpInfo {
    /// Whether the connection fell back to plain TCP (RFC 8684 s. 3.7).
    pub(crate) fn fell_back(&self) -> bool {
        self.flags & MPTCP_INFO_FLAG_FALLBACK != 0
    }
}

/// Reads MPTCP_INFO; fails on a plain TCP connection.
pub(crate) fn mptcp_info(socket: BorrowedFd<'_>) -> io::Result<MptcpInfo> {
    let mut info = MptcpInfo::default();
    getsockopt(socket, SOL_MPTCP, MPTCP_INFO, &mut info)?;
    Ok(info)
}

/// Fills the front of `value` with the kernel's answer, at most its size; returns how many octets.
///
/// Private to this file: `T` must be plain data that holds any bytes.
fn getsockopt<T: Copy>(
    socket: BorrowedFd<'_>,
    level: i32,
    name: i32,
    value: &mut T,
) -> io::Result<usize> {
    let mut len = mem::size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointers describe the live value and its length, and all types this is called
    // with are plain integers that hold any bytes.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw mut *value).cast(),
            &raw mut len,
        )
    };
    if result == 0 {
        Ok(len as usize)
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    /// A `struct tcp_info` of 232 octets: 20 segments of 1000 octets sent, 3 selectively acknowledged, 2
    /// lost, 1 sent again; window 32, of the peer 40,000 octets; 7 ms; 5 retransmissions; rates 2 and 1 MB/s.
    fn sample() -> Vec<u8> {
        let mut info = vec![0; 232];
        let shorts = [
            (16, 1000u32),
            (24, 20),
            (28, 3),
            (32, 2),
            (36, 1),
            (68, 7000),
            (80, 32),
            (100, 5),
            (228, 40_000),
        ];
        for (at, value) in shorts {
            info[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        }
        for (at, value) in [(104, 2_000_000u64), (160, 1_000_000)] {
            info[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        }
        info
    }

    #[test]
    fn tcp_info_is_octets_and_microseconds() {
        let all = ConnectionInfo {
            congestion_window: Some(32_000),
            send_window: Some(40_000),
            in_flight: Some(16_000),
            smoothed_rtt: Some(Duration::from_millis(7)),
            retransmissions: Some(5),
            delivery_rate: Some(1_000_000),
            sending_rate: Some(2_000_000),
        };
        assert_eq!(connection_info_in(&sample()), all);
        let mut unpaced = sample();
        unpaced[104..112].fill(0xff);
        assert_eq!(connection_info_in(&unpaced).sending_rate, None);
    }

    #[test]
    fn shorter_tcp_info_leaves_fields_out() {
        // Linux 2.6.32 ends at tcpi_total_retrans; 4.9 before it has the delivery rate.
        let old = connection_info_in(&sample()[..104]);
        assert_eq!(old.retransmissions, Some(5));
        assert_eq!((old.sending_rate, old.delivery_rate), (None, None));
        assert_eq!(old.send_window, None);
        let cut_off = |len: usize| connection_info_in(&sample()[..len]);
        assert!((0..168).all(|len| cut_off(len).delivery_rate.is_none()));
        assert_eq!(connection_info_in(&[]), ConnectionInfo::default());
    }

    #[test]
    fn connection_of_this_kernel_has_window_and_round_trip() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let to = listener.local_addr().expect("an address");
        let mut client = TcpStream::connect(to).expect("a connection");
        let (mut server, _) = listener.accept().expect("its other end");
        client.write_all(&[1; 5000]).expect("a write");
        server.read_exact(&mut [0; 5000]).expect("the octets");
        let info = tcp_connection_info(client.as_fd()).expect("TCP_INFO");
        assert!(info.congestion_window > Some(0), "{info:?}");
        assert!(info.smoothed_rtt > Some(Duration::ZERO), "{info:?}");
        assert_eq!(info.retransmissions, Some(0));
    }
}
