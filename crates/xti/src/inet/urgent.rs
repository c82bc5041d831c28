//! Expedited data of TCP: one octet of urgent data, which the kernel keeps beside the others
//! (RFC 6093; tcp(7), MSG_OOB).

use super::SocketProvider;
use crate::tpi::{number, write_data};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use socket2::Socket;
use std::io;
use streams::{Context, Message, Pool, Side};

/// Octets of a message of expedited data (ETSDU): the kernel keeps no more beside the others.
pub(crate) const ETSDU: i32 = 1;

/// Takes the urgent octet that waits; None when there is none, or it was taken.
pub(crate) fn receive_urgent(socket: &Socket) -> Option<u8> {
    let mut octet = [0];
    let flags = RecvFlags::OOB | RecvFlags::DONTWAIT;
    let taken = recv(socket, &mut octet, flags);
    matches!(taken, Ok((1, _))).then_some(octet[0])
}

/// Sends an octet as urgent; false when the socket takes none now.
pub(super) fn send_urgent(socket: &Socket, octet: u8) -> io::Result<bool> {
    let flags = SendFlags::OOB | SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    match send(socket, &[octet], flags) {
        Ok(_) => Ok(true),
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// T_EXDATA_IND with an octet: in band 1, before others that wait.
pub(crate) fn urgent_indication(pool: &mut Pool, octet: u8) -> Message {
    let control = pool.copy(0, &write_data(number::EXDATA_IND, false));
    let data = pool.copy(0, &[octet]);
    Message::proto(control, Some(data)).in_band(1)
}

impl SocketProvider {
    /// Indicates the urgent octet that waits.
    pub(super) fn look_for_urgent(&mut self, context: &mut Context<'_>, socket: &Socket) {
        if let Some(octet) = receive_urgent(socket) {
            let indication = urgent_indication(context.pool(), octet);
            context.put_next(Side::Read, indication);
        }
    }
}
