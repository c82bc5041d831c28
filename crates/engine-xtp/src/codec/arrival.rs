//! An arrived packet in the form of 4.0, whatever its version: procedures know one form alone.

use crate::codec::v3::{to_v4_header, unwrap_seq};
use crate::config::RateLimit;
use crate::pdu::v3::{BodyV3, HeaderV3, PacketKind};
use crate::pdu::{Body, CommonControl, HEADER_LEN, Header, Options, Reject, UNLIMITED, Version};
use core::ops::Range;

/// A packet whose checks were right.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival<'a> {
    /// Its header; in 3.x `seq` is the number on the wire until [`Arrival::near`].
    pub(crate) header: Header,
    pub(crate) octets: &'a [u8],
    v3: Option<(Version, HeaderV3)>,
}

impl<'a> Arrival<'a> {
    /// Parses and checks a packet; the error is the first rule that it breaks.
    pub(crate) fn parse(version: Version, octets: &'a [u8]) -> Result<Arrival<'a>, Reject> {
        if !version.is_v3() {
            return Ok(Arrival {
                header: Header::parse(octets)?,
                octets,
                v3: None,
            });
        }
        let v3 = HeaderV3::parse(version, octets)?;
        let known = to_v4_header(&v3, v3.route).filter(|_| v3.kind != PacketKind::Path);
        let pads = u32::from(v3.pad_front) + u32::from(v3.pad_back);
        let header = Header {
            dlen: v3.dlen - pads,
            ..known.ok_or(Reject::Format)?
        };
        Ok(Arrival {
            header,
            octets,
            v3: Some((version, v3)),
        })
    }

    /// Octets that its checks covered.
    pub(crate) fn summed_len(&self) -> usize {
        let version = self.v3.map_or(Version::V40, |(version, _)| version);
        match self.header.options.has(Options::NOCHECK) {
            true => version.header_len(),
            false => self.octets.len(),
        }
    }

    /// The packet with its number nearest to `near` (0008, Numbers).
    pub(crate) fn near(mut self, near: u64) -> Result<Arrival<'a>, Reject> {
        if let Some((_, v3)) = self.v3 {
            self.header.seq = unwrap_seq(0, v3.seq, near).ok_or(Reject::State)?;
        }
        Ok(self)
    }

    /// Its body with the numbers nearest to `near`; None when malformed, or no packet of a group.
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

    /// Where `data`, the user bytes of its body, lie in it.
    pub(crate) fn data_range(&self, data: &[u8]) -> Range<usize> {
        let end = self.v3.map_or(self.octets.len(), |(version, v3)| {
            version.header_len() + v3.dlen as usize - usize::from(v3.pad_back)
        });
        end - data.len()..end
    }

    /// Its dseq nearest to `near`: the sender's user consumed everything below. None in 4.0.
    pub(crate) fn dseq(&self, near: u64) -> Option<u64> {
        self.v3
            .map(|(_, v3)| unwrap_seq(0, v3.dseq, near).unwrap_or(0))
    }

    /// The rate that a control packet asks for; None without one, and in 4.0.
    pub(crate) fn accepted_rate(&self) -> Option<RateLimit> {
        let (version, v3) = self.v3?;
        match BodyV3::parse(version, &v3, self.octets)? {
            BodyV3::Cntl(control, _) if control.rate != UNLIMITED => Some(RateLimit {
                rate_bytes_per_s: control.rate,
                burst_bytes: control.burst,
            }),
            _ => None,
        }
    }
}
