//! What a connection says of itself at one moment: window, round trip, retransmissions, rates.

use engine::{AssociationId, Protocol};
use engine_sctp::Sctp;
use engine_xtp::Xtp;
use std::time::Duration;

/// The sending direction of a connection, as its protocol sees it. None is what it does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionInfo {
    /// Congestion window, octets.
    pub congestion_window: Option<u64>,
    /// Octets beyond what was acknowledged that the peer has room for (SND.WND).
    pub send_window: Option<u64>,
    /// Octets sent that are neither acknowledged nor known to be lost.
    pub in_flight: Option<u64>,
    /// Smoothed round-trip time; None before the first sample.
    pub smoothed_rtt: Option<Duration>,
    /// Packets retransmitted since the connection was opened.
    pub retransmissions: Option<u64>,
    /// Octets a second that the peer received lately, as the sender estimates it.
    pub delivery_rate: Option<u64>,
    /// Octets a second above which it does not send: pacing, or a rate that was agreed on.
    pub sending_rate: Option<u64>,
}

/// Why a circuit says nothing of a connection: a clause whose subject is the circuit.
pub type NoConnectionInfo = &'static str;

/// Of datagrams that the kernel sends as they come.
pub(crate) const NO_CONNECTION: NoConnectionInfo =
    "has no connection: nothing is acknowledged, and no window or round trip is kept";

/// Of what crosses the memory of one host.
pub(crate) const NO_PATH: NoConnectionInfo =
    "stays within this host's memory: it has no window of packets and no round trip";

/// Of transactions and groups.
pub(crate) const SEVERAL_PEERS: NoConnectionInfo =
    "has one state for each receiver, not one for the circuit";

/// Of message transactions.
pub(crate) const TRANSACTIONS: NoConnectionInfo =
    "sends calls one by one: it keeps no connection between them";

/// Of a socket that the system does not describe.
pub(crate) const NOT_READABLE: NoConnectionInfo = "is not described by this kernel (no TCP_INFO)";

/// Of an engine with neither a round trip nor retransmission.
pub(crate) const FIXED_WINDOW: NoConnectionInfo =
    "sends with a fixed window: it measures no round trip and retransmits nothing";

/// Of an association that is gone.
const ENDED: NoConnectionInfo = "has ended";

/// The state of an association of XTP.
pub(crate) fn of_xtp(engine: &Xtp, id: AssociationId) -> Result<ConnectionInfo, NoConnectionInfo> {
    let sending = engine.sending(id).ok_or(ENDED)?;
    Ok(ConnectionInfo {
        congestion_window: sending.congestion_window,
        send_window: Some(sending.send_window),
        in_flight: Some(sending.in_flight_bytes),
        smoothed_rtt: sending.smoothed_rtt,
        retransmissions: Some(sending.retransmissions),
        delivery_rate: None,
        sending_rate: sending.rate_bytes_per_s,
    })
}

/// The state of the path that carries the data of an association of SCTP. An endpoint of a circuit has
/// no other association, whose retransmissions would count too.
pub(crate) fn of_sctp(
    engine: &Sctp,
    id: AssociationId,
) -> Result<ConnectionInfo, NoConnectionInfo> {
    let paths = engine.paths(id);
    let path = paths.iter().find(|path| path.carries_data).ok_or(ENDED)?;
    Ok(ConnectionInfo {
        congestion_window: Some(path.congestion_window),
        in_flight: Some(path.flight),
        smoothed_rtt: Some(path.srtt).filter(|rtt| !rtt.is_zero()),
        retransmissions: Some(engine.counters().retransmissions),
        ..ConnectionInfo::default()
    })
}
