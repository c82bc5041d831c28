//! Which errors of a wire's calls are a path's, and which end the wire.
//!
//! A wire serves many peers. That one of them cannot be reached, or that a packet is too long for
//! its path, is a packet lost on that path, and the others must not notice (RFC 8085 section 5.2).
//! Only errors of the socket itself end a wire.

use engine::PathError;
use rustix::io::Errno;
use std::io;

/// Errors of the socket or the device itself: no later call can succeed.
const WIRE_ERRORS: [Errno; 8] = [
    Errno::BADF,
    Errno::NOTSOCK,
    Errno::NODEV,
    Errno::NXIO,
    Errno::PIPE,
    Errno::FAULT,
    Errno::OPNOTSUPP,
    Errno::NOTCONN,
];

/// What a failed call of a wire says of a path; None for an error that ends the wire, and for one
/// that only asks for another try (`WouldBlock`, `Interrupted`).
///
/// Errors without a number are those that wires make themselves: of an argument (`InvalidInput`), of
/// a local address (`AddrNotAvailable`), of a packet that came in (`InvalidData`); any other ends
/// the wire.
pub fn path_error(error: &io::Error) -> Option<PathError> {
    if matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    ) {
        return None;
    }
    let errno = match error.raw_os_error() {
        Some(number) => Errno::from_raw_os_error(number),
        None => match error.kind() {
            io::ErrorKind::InvalidInput => Errno::INVAL,
            io::ErrorKind::AddrNotAvailable => Errno::ADDRNOTAVAIL,
            io::ErrorKind::InvalidData => Errno::PROTO,
            io::ErrorKind::ConnectionRefused => Errno::CONNREFUSED,
            _ => return None,
        },
    };
    match errno {
        Errno::CONNREFUSED => Some(PathError::Unreachable),
        errno if WIRE_ERRORS.contains(&errno) => None,
        errno => Some(PathError::Local(errno.raw_os_error())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_one_peer_differ_from_those_of_the_wire() {
        let of = |errno: Errno| path_error(&errno.into());
        for errno in [
            Errno::NETUNREACH,
            Errno::HOSTUNREACH,
            Errno::PERM,
            Errno::MSGSIZE,
            Errno::NOBUFS,
            Errno::INVAL,
        ] {
            assert_eq!(of(errno), Some(PathError::Local(errno.raw_os_error())));
        }
        assert_eq!(of(Errno::CONNREFUSED), Some(PathError::Unreachable));
        for errno in WIRE_ERRORS {
            assert_eq!(of(errno), None, "{errno}");
        }
        assert_eq!(of(Errno::AGAIN), None);
        assert_eq!(of(Errno::INTR), None);
    }

    #[test]
    fn wires_own_refusals_are_a_paths_and_unknown_ones_end_the_wire() {
        let of = |kind: io::ErrorKind| path_error(&io::Error::new(kind, "said"));
        let local = |errno: Errno| Some(PathError::Local(errno.raw_os_error()));
        assert_eq!(of(io::ErrorKind::InvalidInput), local(Errno::INVAL));
        assert_eq!(
            of(io::ErrorKind::AddrNotAvailable),
            local(Errno::ADDRNOTAVAIL)
        );
        assert_eq!(of(io::ErrorKind::InvalidData), local(Errno::PROTO));
        assert_eq!(of(io::ErrorKind::Other), None);
    }
}
