//! TCP_INFO and MPTCP_INFO.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};

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

/// Fills the front of `value` with the kernel's answer, at most its size.
///
/// Private to this file: `T` must be plain data that holds any bytes.
fn getsockopt<T: Copy>(
    socket: BorrowedFd<'_>,
    level: i32,
    name: i32,
    value: &mut T,
) -> io::Result<()> {
    let mut len = mem::size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointers describe the live value and its length, and both types this is called
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
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
