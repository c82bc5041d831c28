//! States and events of the library.

use crate::tpi::{Primitive, number};

/// State of an endpoint (T_*), with the numbers of XTI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum XtiState {
    /// No address yet (T_UNBND).
    Unbound = 1,
    /// Bound, without a connection (T_IDLE).
    Idle = 2,
    /// Waits for the peer to answer (T_OUTCON).
    Connecting = 3,
    /// Connections wait for an answer (T_INCON).
    Incoming = 4,
    /// Data flow both ways (T_DATAXFER).
    DataTransfer = 5,
    /// This end released (T_OUTREL).
    Released = 6,
    /// The peer released (T_INREL).
    PeerReleased = 7,
}

/// An event that waits, with the bits of XTI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Look {
    /// A connection came (T_LISTEN).
    Listen = 0x1,
    /// The peer answered (T_CONNECT).
    Connect = 0x2,
    /// Data came (T_DATA).
    Data = 0x4,
    /// Expedited data came (T_EXDATA).
    Expedited = 0x8,
    /// The connection was lost, refused or withdrawn (T_DISCONNECT).
    Disconnect = 0x10,
    /// A datagram did not leave (T_UDERR).
    DatagramError = 0x40,
    /// The peer released (T_ORDREL).
    Release = 0x80,
}

impl Look {
    pub(super) fn of(primitive: &Primitive) -> Option<Look> {
        Some(match primitive.number() {
            number::OPTDATA_IND => match primitive {
                Primitive::OptionsDataIndication {
                    expedited: true, ..
                } => Look::Expedited,
                _ => Look::Data,
            },
            number::CONN_IND => Look::Listen,
            number::CONN_CON => Look::Connect,
            number::DATA_IND | number::UNITDATA_IND => Look::Data,
            number::EXDATA_IND => Look::Expedited,
            number::UDERROR_IND => Look::DatagramError,
            number::DISCON_IND => Look::Disconnect,
            number::ORDREL_IND => Look::Release,
            _ => return None,
        })
    }
}
