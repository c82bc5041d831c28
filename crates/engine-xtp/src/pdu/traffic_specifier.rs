//! The traffic specifier: service, rates, bursts, packet size.

use super::{DiagValue, octets, u16_at, u32_at};

/// A rate or burst without limit.
pub const UNLIMITED: u32 = u32::MAX;

/// The service that an initiator requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Chosen by the listener.
    Unspecified,
    /// One message, not acknowledged.
    Datagram,
    /// One message, acknowledged.
    AckedDatagram,
    /// A request and its reply.
    Transaction,
    /// A reliable stream.
    Stream,
    /// A stream of timely data: rate control only, no error or flow control. XTP 4.0 has no code
    /// for it; it is a stream with option bits (0007, Isochronous and bulk).
    Isochronous,
    /// A large transfer into posted buffers. In XTP 4.0 a stream with RES.
    Bulk,
    /// Multicast, or unassigned.
    Other(u8),
}

impl Service {
    /// Decodes a service code.
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

    /// Its code in XTP 3.x, which has one for each.
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

/// A traffic specifier. Rates are in bytes a second; *in* and *out* are seen from the sender of
/// the packet (0007, Traffic specifiers).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficSpec {
    /// Format 0: the service, and four octets of zero.
    Plain(Service, [u8; 4]),
    /// Format 1.
    Limits {
        /// The service.
        service: Service,
        /// Longest packet the sender accepts, octets behind the header.
        maxdata: u32,
        /// Rate the sender accepts, bytes a second.
        inrate: u32,
        /// Burst the sender accepts, bytes.
        inburst: u32,
        /// Largest rate of the sender, bytes a second.
        outrate: u32,
        /// Largest burst of the sender, bytes.
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

    /// Maps the service codes that only XTP 3.x has.
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

    /// Always false: a segment has at least its head.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The DIAG value for a specifier that [`parse`](TrafficSpec::parse) does not accept.
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
        let [high, low] = (self.len() as u16).to_be_bytes();
        let service = self.service().code();
        match *self {
            TrafficSpec::Plain(_, [a, b, c, d]) => {
                out.extend_from_slice(&[high, low, service, 0, a, b, c, d]);
            }
            TrafficSpec::Limits {
                maxdata,
                inrate,
                inburst,
                outrate,
                outburst,
                ..
            } => {
                out.extend_from_slice(&[high, low, service, 1]);
                for word in [maxdata, inrate, inburst, outrate, outburst] {
                    out.extend_from_slice(&word.to_be_bytes());
                }
            }
        }
    }
}
