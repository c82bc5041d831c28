//! The traffic specifier: which service, how fast, how large.

use super::{DiagValue, octets, u16_at, u32_at};

/// A rate or burst without limit.
pub const UNLIMITED: u32 = u32::MAX;

/// Kinds of service an initiator asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Whatever the listener offers.
    Unspecified,
    /// One message, not acknowledged.
    Datagram,
    /// One message, acknowledged.
    AckedDatagram,
    /// A request and its reply.
    Transaction,
    /// A reliable stream.
    Stream,
    /// A stream whose bytes are worth something at their time only: a rate, no repair, no window.
    /// XTP 4.0 has no code for it: it travels as a stream, and the option bits say the rest.
    Isochronous,
    /// A large transfer into buffers that the receiving user posts. In XTP 4.0 as above.
    Bulk,
    /// Multicast, or not assigned.
    Other(u8),
}

impl Service {
    /// The service of a code.
    pub fn from_code(code: u8) -> Service {
        match code {
            0 => Service::Unspecified,
            1 => Service::Datagram,
            2 => Service::AckedDatagram,
            3 => Service::Transaction,
            4 => Service::Stream,
            other => Service::Other(other),
        }
    }

    /// Its code in the third revision, which tells all of them apart.
    pub(super) fn v3_code(self) -> u8 {
        match self {
            Service::Isochronous => 7,
            Service::Bulk => 8,
            other => other.code(),
        }
    }

    /// Its code.
    pub fn code(self) -> u8 {
        match self {
            Service::Unspecified => 0,
            Service::Datagram => 1,
            Service::AckedDatagram => 2,
            Service::Transaction => 3,
            Service::Stream | Service::Isochronous | Service::Bulk => 4,
            Service::Other(code) => code,
        }
    }
}

/// A traffic specifier. Rates are in bytes a second and, like bursts, seen from the packet's
/// sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficSpec {
    /// Format 0: the service alone, and four octets that are zero.
    Plain(Service, [u8; 4]),
    /// Format 1.
    Limits {
        /// The service.
        service: Service,
        /// The longest packet the sender accepts, octets behind the header.
        maxdata: u32,
        /// Bytes a second the sender accepts.
        inrate: u32,
        /// Bytes at once the sender accepts.
        inburst: u32,
        /// Bytes a second the sender will send at most.
        outrate: u32,
        /// Bytes at once the sender will send at most.
        outburst: u32,
    },
}

const PLAIN_LEN: usize = 8;
const LIMITS_LEN: usize = 24;

impl TrafficSpec {
    /// The service.
    pub fn service(&self) -> Service {
        match self {
            TrafficSpec::Plain(service, _) | TrafficSpec::Limits { service, .. } => *service,
        }
    }

    /// The same with a service that only the third revision has a code for.
    pub(super) fn with_v3_service(mut self) -> TrafficSpec {
        let (TrafficSpec::Plain(service, _) | TrafficSpec::Limits { service, .. }) = &mut self;
        *service = match *service {
            Service::Other(7) => Service::Isochronous,
            Service::Other(8) => Service::Bulk,
            other => other,
        };
        self
    }

    /// Octets of the segment.
    pub fn len(&self) -> usize {
        match self {
            TrafficSpec::Plain(..) => PLAIN_LEN,
            TrafficSpec::Limits { .. } => LIMITS_LEN,
        }
    }

    /// Never: a segment has at least its head. For the sake of convention.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Why [`parse`](TrafficSpec::parse) does not accept what `body` begins with.
    pub(super) fn diagnose(body: &[u8]) -> DiagValue {
        match body.get(3) {
            Some(0 | 1) | None => DiagValue::MALFORMED_TRAFFIC,
            Some(_) => DiagValue::TRAFFIC_FORMAT,
        }
    }

    pub(super) fn parse(body: &[u8]) -> Option<TrafficSpec> {
        let len = usize::from(u16_at(body, 0)?);
        let segment = body.get(..len)?;
        let service = Service::from_code(*segment.get(2)?);
        match (*segment.get(3)?, len) {
            (0, PLAIN_LEN) => Some(TrafficSpec::Plain(service, octets(segment, 4)?)),
            (1, LIMITS_LEN) => Some(TrafficSpec::Limits {
                service,
                maxdata: u32_at(segment, 4)?,
                inrate: u32_at(segment, 8)?,
                inburst: u32_at(segment, 12)?,
                outrate: u32_at(segment, 16)?,
                outburst: u32_at(segment, 20)?,
            }),
            _ => None,
        }
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.len() as u16).to_be_bytes());
        out.push(self.service().code());
        match *self {
            TrafficSpec::Plain(_, zero) => {
                out.push(0);
                out.extend_from_slice(&zero);
            }
            TrafficSpec::Limits {
                maxdata,
                inrate,
                inburst,
                outrate,
                outburst,
                ..
            } => {
                out.push(1);
                for word in [maxdata, inrate, inburst, outrate, outburst] {
                    out.extend_from_slice(&word.to_be_bytes());
                }
            }
        }
    }
}
