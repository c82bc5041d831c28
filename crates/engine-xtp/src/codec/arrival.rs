//! An arrived packet in the form of 4.0, whatever its version: procedures know one form alone.

use super::v3::{key_from_wire32, to_v4_header, unwrap_seq};
use crate::config::RateLimit;
use crate::pdu::v3::{BodyV3, HeaderV3, PacketKind, segment};
use crate::pdu::{Body, CommonControl, HEADER_LEN, Header, Options, Reject, UNLIMITED, Version};
use crate::route_values::{RouteId, value_or_none};
use core::ops::Range;

/// What arrived, with its checks right.
pub(crate) enum Input<'a> {
    /// A packet of an association or of a group.
    Association(Arrival<'a>),
    /// A packet between neighbours that belongs to no association (XTP 3.x).
    Neighbour(HeaderV3),
}

impl<'a> Input<'a> {
    pub(super) fn parse_v3(version: Version, octets: &'a [u8]) -> Result<Input<'a>, Reject> {
        let v3 = HeaderV3::parse(version, octets)?;
        let Some(header) = to_v4_header(&v3) else {
            return Ok(Input::Neighbour(v3));
        };
        Ok(Input::Association(Arrival {
            header,
            octets,
            v3: Some((version, v3)),
        }))
    }

    pub(crate) fn options(&self) -> Options {
        match self {
            Input::Association(arrival) => arrival.header.options,
            Input::Neighbour(header) => header.options,
        }
    }

    /// The packet of a group.
    pub(crate) fn of_group(self) -> Result<Arrival<'a>, Reject> {
        match self {
            Input::Association(arrival) if !arrival.is_path() => Ok(arrival),
            _ => Err(Reject::Format),
        }
    }
}

/// A packet whose checks were right.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival<'a> {
    /// Its header; in 3.x `seq` is the number on the wire until [`Arrival::near`].
    pub(crate) header: Header,
    pub(crate) octets: &'a [u8],
    v3: Option<(Version, HeaderV3)>,
}

impl<'a> Arrival<'a> {
    #[inline]
    pub(super) fn parse_v40(octets: &'a [u8]) -> Result<Arrival<'a>, Reject> {
        let mut header = Header::parse(octets)?;
        // 4.0 gives this bit no meaning (0007, Tags).
        header.options.0 &= !Options::ETAG.0;
        Ok(Arrival {
            header,
            octets,
            v3: None,
        })
    }

    /// Its header as it was, in 3.x.
    #[inline]
    pub(crate) fn v3(&self) -> Option<&HeaderV3> {
        self.v3.as_ref().map(|(_, v3)| v3)
    }

    fn is_path(&self) -> bool {
        self.v3().is_some_and(|v3| v3.kind == PacketKind::Path)
    }

    /// The packet, which arrived by the route that this side calls `route` (0008, Names).
    pub(crate) fn by_route(mut self, route: Option<RouteId>) -> Arrival<'a> {
        if let Some((_, v3)) = self.v3 {
            self.header.key = key_from_wire32(v3.key, value_or_none(route));
        }
        self
    }

    /// The packet of a group with its number nearest to `near` (0008, Numbers).
    pub(crate) fn near(mut self, near: u64) -> Result<Arrival<'a>, Reject> {
        if let Some((_, v3)) = self.v3 {
            self.header.seq = unwrap_seq(0, v3.seq, near).ok_or(Reject::State)?;
        }
        Ok(self)
    }

    /// What is behind its header, without padding.
    pub(crate) fn segment(&self) -> &'a [u8] {
        match self.v3 {
            Some((version, _)) => segment(version, self.octets),
            None => &self.octets[HEADER_LEN..],
        }
    }

    /// Its body with the numbers of a group nearest to `near`; None when malformed, or no packet of a group.
    pub(crate) fn body(&self, near: u64) -> Option<Body<'a>> {
        let Some((version, v3)) = self.v3 else {
            return Body::parse(&self.header, &self.octets[HEADER_LEN..]);
        };
        let at = |wire: u32| unwrap_seq(0, wire, near);
        match BodyV3::parse(version, &v3, self.octets)? {
            BodyV3::Data(data) => Some(Body::Data { data }),
            BodyV3::First {
                address,
                traffic,
                data,
            } => Some(Body::First {
                domain: 0,
                address,
                traffic,
                data,
            }),
            // Go-back-n: pairs say nothing that rseq does not.
            BodyV3::Cntl(control, _) => Some(Body::Cntl(CommonControl {
                rseq: at(control.rseq)?,
                alloc: at(control.alloc)?,
                echo: control.echo,
            })),
            BodyV3::Diag(diag) => Some(Body::Diag(diag)),
            _ => None,
        }
    }

    /// Its body in the form of 3.x; None when malformed, and in 4.0.
    pub(crate) fn body_v3(&self) -> Option<BodyV3<'a>> {
        let (version, v3) = self.v3?;
        BodyV3::parse(version, &v3, self.octets)
    }

    /// Where `data`, the user bytes of its body, lie in it.
    pub(crate) fn data_range(&self, data: &[u8]) -> Range<usize> {
        let end = self.v3.map_or(self.octets.len(), |(version, v3)| {
            version.header_len() + v3.dlen as usize - usize::from(v3.pad_back)
        });
        end - data.len()..end
    }

    /// Its dseq nearest to `near`: the sender's user consumed everything below. None in 4.0.
    pub(crate) fn dseq(&self, near: u64) -> Option<u64> {
        self.v3()
            .map(|v3| unwrap_seq(0, v3.dseq, near).unwrap_or(0))
    }

    /// The rate that a control packet asks for; None without one, and in 4.0.
    pub(crate) fn accepted_rate(&self) -> Option<RateLimit> {
        match self.body_v3()? {
            BodyV3::Cntl(control, _) if control.rate != UNLIMITED => Some(RateLimit {
                rate_bytes_per_s: control.rate,
                burst_bytes: control.burst,
            }),
            _ => None,
        }
    }
}
