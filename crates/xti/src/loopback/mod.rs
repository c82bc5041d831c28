//! Loop-back: providers of TPI between ends of one host, in one process or in two. `ticots` and `ticotsord`
//! connect ends, `ticlts` carries datagrams between them.
//!
//! An address is any name of 1 to 64 octets, of its own for each provider; it holds while an end that
//! listens or receives datagrams is bound to it. Behind it stands a Unix socket with an abstract name: who
//! connects to it passes rings of shared memory (crate `channel`) over that socket, and all data go through
//! them. Both processes must belong to one user.
//!
//! * `link` - frames in the rings of a connection.
//! * `names` - addresses, and the sockets behind them.
//! * `datagrams`, `sources` - the provider of datagrams, and the ends that send to it.

mod datagrams;
pub(crate) mod link;
pub(crate) mod names;
mod sources;

pub(crate) use datagrams::LoopDatagrams;

use crate::error::TliError;
use crate::tpi::{OptionStatus, OptionsAction, Primitive, number, parse_options, write_options};
use channel::Geometry;

/// Octets of one primitive's data, and of a datagram.
pub const TIDU: usize = 65_536;

/// Octets of the longest message of a connection (TSDU).
pub const TSDU: usize = 1 << 20;

/// Octets of what a user says with a connect, its answer, a release or a disconnect.
pub const WITH_DATA: usize = 512;

/// Octets of a ring unless the user says otherwise; the least holds four of the longest primitives.
pub const RING_OCTETS: usize = 1 << 20;
const RING_OCTETS_MIN: usize = 4 * TIDU;

/// Octets of a slot of a ring: the shortest, so that short messages waste the least.
const SLOT_OCTETS: u32 = channel::SLOT_LEN_MIN;

/// What an endpoint does with the driver of a stream around a wait.
pub(crate) trait Waits {
    /// Asks the peers for a wake; false when there is something to do now.
    fn prepare_wait(&mut self, write: bool) -> bool;

    /// Takes the wakes that ended a wait.
    fn take_wakes(&mut self);

    /// Notes the system calls of its rings where those of sockets are counted.
    fn count_calls(&mut self);
}

/// A ring of at least `octets`, within what rings may have.
pub(crate) fn geometry(octets: usize) -> Geometry {
    let max = channel::RING_OCTETS_MAX as usize;
    let octets = octets.clamp(RING_OCTETS_MIN, max).next_power_of_two();
    let slots = octets as u32 / SLOT_OCTETS;
    Geometry::new(SLOT_OCTETS, slots).expect("powers of two within the limits")
}

/// The answer to T_OPTMGMT_REQ of a provider that has no options: each is not supported.
pub(crate) fn answer_without_options(octets: &[u8], flags: u32) -> Primitive {
    let refused = |tli: TliError| Primitive::ErrorAck {
        of: number::OPTMGMT_REQ,
        tli: tli as u32,
        errno: 0,
    };
    if OptionsAction::from_number(flags).is_none() {
        return refused(TliError::BadFlag);
    }
    let options = parse_options(octets).filter(|options| !options.is_empty());
    let Some(mut options) = options else {
        return refused(TliError::BadOption);
    };
    for option in &mut options {
        option.status = Some(OptionStatus::NotSupported);
    }
    Primitive::OptionsAck {
        options: write_options(&options),
        flags: OptionStatus::NotSupported as u32,
    }
}
