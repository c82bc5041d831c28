//! A packet: header and body (XTP 4.0 s. 4).

use super::control_segment::COMMON_LEN;
use super::{
    AddressSegment, CHECK_AT, CommonControl, Diag, DiagValue, Format, HEADER_LEN, Header, Options,
    Reject, SPAN_LEN, Spans, TrafficSpec, u32_at, u64_at,
};
use engine::checksum;

/// The octets behind the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// DATA: user data, beginning with a tag if BTAG is set.
    Data {
        /// User data.
        data: &'a [u8],
    },
    /// FIRST.
    First {
        /// Port space, 0 if unspecified.
        domain: u8,
        /// Addresses of both ends.
        address: AddressSegment<'a>,
        /// Service and limits.
        traffic: TrafficSpec,
        /// User data.
        data: &'a [u8],
    },
    /// CNTL.
    Cntl(CommonControl),
    /// ECNTL.
    Ecntl(CommonControl, Spans<'a>),
    /// TCNTL.
    Tcntl {
        /// The state of the receiving direction.
        common: CommonControl,
        /// Reserved, zero.
        reserved: u32,
        /// The sender's own key, 0 for none.
        xkey: u64,
        /// Service and limits.
        traffic: TrafficSpec,
    },
    /// JCNTL.
    Jcntl {
        /// The state of the receiving direction.
        common: CommonControl,
        /// Reserved, zero.
        reserved: u32,
        /// The sender's own key, 0 for none.
        xkey: u64,
        /// Port space, 0 if unspecified.
        domain: u8,
        /// Address of the group.
        address: AddressSegment<'a>,
        /// Service and limits.
        traffic: TrafficSpec,
    },
    /// DIAG.
    Diag(Diag<'a>),
}

/// A header and a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The header.
    pub header: Header,
    /// The body.
    pub body: Body<'a>,
}

/// Octets of a traffic control segment.
const TRAFFIC_CONTROL_LEN: usize = 32;

impl<'a> Packet<'a> {
    /// Parses and checks a packet; the error is the first rule that it breaks.
    pub fn parse(octets: &'a [u8]) -> Result<Packet<'a>, Reject> {
        let header = Header::parse(octets)?;
        let body = Body::parse(&header, &octets[HEADER_LEN..]).ok_or(Reject::Body)?;
        Ok(Packet { header, body })
    }

    /// Encodes the packet with `dlen` and `check` as they stand.
    pub fn emit(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.emit_into(&mut out);
        out
    }

    /// Encodes the packet into `out`, with the header as it stands.
    pub fn emit_into(&self, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&self.header.emit());
        self.body.emit(out);
    }

    /// Encodes the packet into `out` and fills in `dlen` and `check`.
    pub fn emit_with_checksum(&self, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&[0; HEADER_LEN]);
        self.body.emit(out);
        let header = Header {
            dlen: (out.len() - HEADER_LEN) as u32,
            check: 0,
            ..self.header
        };
        out[..HEADER_LEN].copy_from_slice(&header.emit());
        let nocheck = header.options.has(Options::NOCHECK);
        let covered = if nocheck { HEADER_LEN } else { out.len() };
        let check = checksum::checksum(&out[..covered]);
        out[CHECK_AT..CHECK_AT + 2].copy_from_slice(&check.to_be_bytes());
    }
}

impl<'a> Body<'a> {
    /// The format of a packet with this body.
    pub fn format(&self) -> Format {
        match self {
            Body::Data { .. } => Format::Data,
            Body::First { .. } => Format::First,
            Body::Cntl(_) => Format::Cntl,
            Body::Ecntl(..) => Format::Ecntl,
            Body::Tcntl { .. } => Format::Tcntl,
            Body::Jcntl { .. } => Format::Jcntl,
            Body::Diag(_) => Format::Diag,
        }
    }

    /// The DIAG value for a FIRST whose body [`parse`](Body::parse) does not accept.
    pub fn diagnose_first(body: &[u8]) -> DiagValue {
        match AddressSegment::parse(body) {
            None => DiagValue::MALFORMED_ADDRESS,
            Some((_, address)) => TrafficSpec::diagnose(&body[address.len()..]),
        }
    }

    /// Parses the octets behind `header`; None when malformed for the format.
    pub fn parse(header: &Header, body: &'a [u8]) -> Option<Body<'a>> {
        match header.format {
            Format::Data => {
                let tagged = header.options.has(Options::BTAG);
                (!tagged || body.len() >= 8).then_some(Body::Data { data: body })
            }
            Format::First => parse_first(body),
            Format::Cntl if body.len() == COMMON_LEN => {
                Some(Body::Cntl(CommonControl::parse(body)?))
            }
            Format::Cntl => None,
            Format::Ecntl => parse_ecntl(body),
            Format::Tcntl => {
                let rest = body.get(TRAFFIC_CONTROL_LEN..)?;
                let traffic = TrafficSpec::parse(rest)?;
                (traffic.len() == rest.len()).then_some(Body::Tcntl {
                    common: CommonControl::parse(body)?,
                    reserved: u32_at(body, 20)?,
                    xkey: u64_at(body, 24)?,
                    traffic,
                })
            }
            Format::Jcntl => parse_jcntl(body),
            Format::Diag => Diag::parse(body).map(Body::Diag),
        }
    }

    fn emit(&self, out: &mut Vec<u8>) {
        match self {
            Body::Data { data } => out.extend_from_slice(data),
            Body::First {
                domain,
                address,
                traffic,
                data,
            } => {
                address.emit(*domain, out);
                traffic.emit(out);
                out.extend_from_slice(data);
            }
            Body::Cntl(common) => common.emit(out),
            Body::Ecntl(common, spans) => {
                common.emit(out);
                out.extend_from_slice(&(spans.len() as u32).to_be_bytes());
                out.extend_from_slice(spans.0);
            }
            Body::Tcntl {
                common,
                reserved,
                xkey,
                traffic,
            } => {
                emit_traffic_control(common, *reserved, *xkey, out);
                traffic.emit(out);
            }
            Body::Jcntl {
                common,
                reserved,
                xkey,
                domain,
                address,
                traffic,
            } => {
                emit_traffic_control(common, *reserved, *xkey, out);
                address.emit(*domain, out);
                traffic.emit(out);
            }
            Body::Diag(diag) => diag.emit(out),
        }
    }
}

fn parse_first(body: &[u8]) -> Option<Body<'_>> {
    let (domain, address) = AddressSegment::parse(body)?;
    let rest = &body[address.len()..];
    let traffic = TrafficSpec::parse(rest)?;
    Some(Body::First {
        domain,
        address,
        traffic,
        data: &rest[traffic.len()..],
    })
}

fn parse_ecntl(body: &[u8]) -> Option<Body<'_>> {
    let count = u32_at(body, COMMON_LEN)? as usize;
    let spans = &body[COMMON_LEN + 4..];
    (spans.len().checked_div(SPAN_LEN)? == count).then_some(())?;
    Some(Body::Ecntl(CommonControl::parse(body)?, Spans::new(spans)?))
}

fn parse_jcntl(body: &[u8]) -> Option<Body<'_>> {
    let rest = body.get(TRAFFIC_CONTROL_LEN..)?;
    let (domain, address) = AddressSegment::parse(rest)?;
    let rest = &rest[address.len()..];
    let traffic = TrafficSpec::parse(rest)?;
    (traffic.len() == rest.len()).then_some(Body::Jcntl {
        common: CommonControl::parse(body)?,
        reserved: u32_at(body, 20)?,
        xkey: u64_at(body, 24)?,
        domain,
        address,
        traffic,
    })
}

fn emit_traffic_control(common: &CommonControl, reserved: u32, xkey: u64, out: &mut Vec<u8>) {
    common.emit(out);
    out.extend_from_slice(&reserved.to_be_bytes());
    out.extend_from_slice(&xkey.to_be_bytes());
}
