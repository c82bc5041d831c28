//! sctp_bindx(3) while associations live (RFC 6458 section 9.1, RFC 5061).

use super::port::Port;
use super::socket::SctpSocket;
use library::sctp::Association;
use rustix::io::Errno;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// What sctp_bindx changes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Add,
    Remove,
}

impl Change {
    fn undone(self) -> Change {
        match self {
            Change::Add => Change::Remove,
            Change::Remove => Change::Add,
        }
    }
}

/// Adds addresses: all or none of them.
pub(crate) fn add(
    socket: &Arc<SctpSocket>,
    port: &Port,
    addresses: &[SocketAddr],
) -> io::Result<()> {
    change_all(socket, port, addresses, Change::Add)
}

/// Removes addresses: all or none of them.
pub(crate) fn remove(
    socket: &Arc<SctpSocket>,
    port: &Port,
    addresses: &[SocketAddr],
) -> io::Result<()> {
    change_all(socket, port, addresses, Change::Remove)
}

fn change_all(
    socket: &Arc<SctpSocket>,
    port: &Port,
    addresses: &[SocketAddr],
    change: Change,
) -> io::Result<()> {
    let own_port = socket.lock().local_port;
    if addresses
        .iter()
        .any(|address| ![0, own_port].contains(&address.port()))
    {
        return Err(Errno::INVAL.into());
    }
    for (done, address) in addresses.iter().enumerate() {
        if let Err(error) = change_one(socket, port, address.ip(), change) {
            for address in &addresses[..done] {
                // What was done just now can be undone, or the host has lost the address meanwhile.
                let _ = change_one(socket, port, address.ip(), change.undone());
            }
            return Err(error);
        }
    }
    Ok(())
}

/// A socket that shares its endpoint (accepted or peeled off) changes its association alone.
fn change_one(
    socket: &Arc<SctpSocket>,
    port: &Port,
    address: IpAddr,
    change: Change,
) -> io::Result<()> {
    match port.is_owner(socket) {
        true => change_endpoint(port, address, change)?,
        false => change_associations(socket, port, address, change)?,
    }
    let mut inner = socket.lock();
    inner.local.retain(|own| *own != address);
    if change == Change::Add {
        inner.local.push(address);
    }
    Ok(())
}

fn change_endpoint(port: &Port, address: IpAddr, change: Change) -> io::Result<()> {
    let changed = match change {
        Change::Add => port.endpoint.gain_address(address),
        Change::Remove => port.endpoint.lose_address(address),
    };
    port.wake();
    changed.map_err(of_call)
}

/// The error of a call: that of the system, or EINVAL.
fn of_call(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(_) => error,
        None => Errno::INVAL.into(),
    }
}

fn change_associations(
    socket: &Arc<SctpSocket>,
    port: &Port,
    address: IpAddr,
    change: Change,
) -> io::Result<()> {
    let change: fn(&mut Association, IpAddr) -> io::Result<()> = match change {
        Change::Add => Association::add_address,
        Change::Remove => Association::delete_address,
    };
    let mut state = port.lock();
    for number in state.numbers_of(socket) {
        let member = state.member_of(socket, number)?;
        change(&mut member.association, address).map_err(of_call)?;
    }
    Ok(())
}
