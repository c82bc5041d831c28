//! What the end that connects asks for.

use super::super::protocol::{self, ReceiveSome, TREE_MAGIC};
use super::TreeOptions;
use super::path::PATH_MAX;
use crate::push::PushedStream;
use std::io::{self, ErrorKind};

/// Which way the tree goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the end that connects.
    Push,
    /// To it.
    Pull,
}

/// A request; the peer grants it, or refuses it with a reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TreeRequest {
    pub(crate) direction: Direction,
    pub(crate) options: TreeOptions,
    /// The name of a pushed tree, or the path of what is pulled.
    pub(crate) path: Vec<u8>,
}

/// Bits of the options.
const RECURSIVE: u8 = 1;
const PRESERVE: u8 = 2;
const TOTALS: u8 = 4;

impl TreeRequest {
    pub(super) fn send(&self, circuit: &mut PushedStream) -> io::Result<()> {
        protocol::send_and_flush(circuit, &self.encode())
    }

    fn encode(&self) -> Vec<u8> {
        let bit = |is_on, bit| if is_on { bit } else { 0 };
        let options = bit(self.options.recursive, RECURSIVE)
            | bit(self.options.preserve, PRESERVE)
            | bit(self.options.totals, TOTALS);
        let direction = match self.direction {
            Direction::Push => 1,
            Direction::Pull => 2,
        };
        let path = &self.path[..self.path.len().min(PATH_MAX)];
        let len = (path.len() as u16).to_be_bytes();
        [&TREE_MAGIC[..], &[direction, options], &len, path].concat()
    }

    /// Reads a request behind its first eight octets. Fails with `InvalidData`, else those of `receive`.
    pub(crate) fn read(receive: &mut impl ReceiveSome) -> io::Result<TreeRequest> {
        let [direction, options] = protocol::read_array(receive)?;
        let direction = match direction {
            1 => Direction::Push,
            2 => Direction::Pull,
            _ => return Err(invalid_data()),
        };
        if options & !(RECURSIVE | PRESERVE | TOTALS) != 0 {
            return Err(invalid_data());
        }
        let len = usize::from(u16::from_be_bytes(protocol::read_array(receive)?));
        if len > PATH_MAX {
            return Err(invalid_data());
        }
        let mut path = vec![0; len];
        protocol::recv_exact(&mut path, receive)?;
        Ok(TreeRequest {
            direction,
            options: TreeOptions {
                recursive: options & RECURSIVE != 0,
                preserve: options & PRESERVE != 0,
                totals: options & TOTALS != 0,
            },
            path,
        })
    }
}

fn invalid_data() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "the peer's request is invalid")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(octets: &[u8]) -> io::Result<TreeRequest> {
        let mut rest = octets;
        TreeRequest::read(&mut |room: &mut [u8]| {
            let len = room.len().min(rest.len());
            room[..len].copy_from_slice(&rest[..len]);
            rest = &rest[len..];
            Ok((len > 0).then_some(len))
        })
    }

    #[test]
    fn requests_round_trip_and_invalid_ones_are_refused() {
        let request = TreeRequest {
            direction: Direction::Pull,
            options: TreeOptions {
                recursive: true,
                preserve: false,
                totals: true,
            },
            path: b"a/\xff".to_vec(),
        };
        let octets = request.encode();
        let body = &octets[TREE_MAGIC.len()..];
        assert_eq!(read(body).expect("it is whole"), request);
        assert!(read(&body[..body.len() - 1]).is_err());
        for wrong in [[3, 0, 0, 0], [1, 8, 0, 0], [1, 0, 0xff, 0xff]] {
            let error = read(&wrong).expect_err("it is invalid");
            assert_eq!(error.kind(), ErrorKind::InvalidData);
        }
    }
}
