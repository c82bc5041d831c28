//! Middle segments of XTP 3.x.

use super::super::{AddressSegment, Diag, TrafficSpec, u32_at};
use super::{HeaderV3, PacketKind, Version, emit_first_segment, parse_first_segment};
use crate::numbers::SyncNumber;

/// Resend pairs of a control segment at most, and with a fixed number.
pub const PAIRS_MAX: usize = 16;

/// Octets of a resend pair.
const PAIR_LEN: usize = 8;

/// A range to retransmit, from `left` to before `right`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResendPair {
    /// The first byte.
    pub left: u32,
    /// The number after the last byte.
    pub right: u32,
}

/// The resend pairs of a control segment as received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResendPairs<'a> {
    octets: &'a [u8],
    /// Always sixteen on the wire, used or not.
    pub fixed: bool,
}

impl<'a> ResendPairs<'a> {
    /// No pairs.
    pub const EMPTY: ResendPairs<'static> = ResendPairs {
        octets: &[],
        fixed: false,
    };

    /// The pairs in `octets`, eight each; None when the last is incomplete or there are too many.
    pub fn new(octets: &'a [u8], fixed: bool) -> Option<ResendPairs<'a>> {
        let fits = octets.len().is_multiple_of(PAIR_LEN) && octets.len() <= PAIRS_MAX * PAIR_LEN;
        fits.then_some(ResendPairs { octets, fixed })
    }

    /// Number of pairs.
    pub fn len(&self) -> usize {
        self.octets.len() / PAIR_LEN
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.octets.is_empty()
    }

    /// Iterates over the pairs.
    pub fn iter(&self) -> impl Iterator<Item = ResendPair> + use<'a> {
        let (chunks, _) = self.octets.as_chunks::<PAIR_LEN>();
        chunks.iter().map(|chunk| ResendPair {
            left: u32_at(chunk, 0).unwrap_or_default(),
            right: u32_at(chunk, 4).unwrap_or_default(),
        })
    }
}

/// The control segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlSegmentV3 {
    /// Everything below was received.
    pub rseq: u32,
    /// Allocation: bytes from here on may not be sent.
    pub alloc: u32,
    /// The highest sync received.
    pub echo: SyncNumber,
    /// Rate the sender accepts, bytes a second; all ones for no limit.
    pub rate: u32,
    /// Burst the sender accepts, bytes.
    pub burst: u32,
    /// The sender's own key.
    pub xkey: u32,
    /// User bytes of the longest packet the sender accepts.
    pub maxdata: u16,
    /// Zero; 3.5 and 3.6 only.
    pub reserved: [u32; 4],
}

/// Operation of MAINT and MGMT: a request.
pub const OP_REQUEST: u32 = 1;

/// Operation of MAINT and MGMT: a response.
pub const OP_RESPONSE: u32 = 2;

/// Operation of MAINT: the response of a router at which the request's time to live ended.
pub const OP_EXPIRED: u32 = 3;

/// The segment of MAINT and MGMT packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InformationSegment<'a> {
    /// [`OP_REQUEST`], [`OP_RESPONSE`] or [`OP_EXPIRED`].
    pub op: u32,
    /// Its argument.
    pub octets: &'a [u8],
}

/// The content of the middle segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyV3<'a> {
    /// DATA.
    Data(&'a [u8]),
    /// CNTL.
    Cntl(ControlSegmentV3, ResendPairs<'a>),
    /// FIRST.
    First {
        /// Addresses of both ends.
        address: AddressSegment<'a>,
        /// Service and limits.
        traffic: TrafficSpec,
        /// User data.
        data: &'a [u8],
    },
    /// PATH: addresses of both ends.
    Path(AddressSegment<'a>),
    /// DIAG.
    Diag(Diag<'a>),
    /// MAINT.
    Maint(InformationSegment<'a>),
    /// MGMT.
    Mgmt(InformationSegment<'a>),
    /// ROUTE: 1 assigns `route`, 2 requests the release of the header's route, 3 confirms it.
    Route {
        /// The operation.
        op: u32,
        /// The sender's value of the route.
        route: u32,
    },
    /// RCNTL: rate limit for all associations on the header's route.
    Rcntl {
        /// Bytes a second; all ones for no limit.
        rate: u32,
        /// Burst, bytes.
        burst: u32,
    },
}

impl<'a> BodyV3<'a> {
    /// Parses the middle segment of `packet`, whose header was checked; None when malformed for its
    /// kind.
    pub fn parse(version: Version, header: &HeaderV3, packet: &'a [u8]) -> Option<BodyV3<'a>> {
        let start = version.header_len() + usize::from(header.pad_front);
        let end = version.header_len() + header.dlen as usize - usize::from(header.pad_back);
        let body = packet.get(start..end)?;
        match header.kind {
            PacketKind::Data => Some(BodyV3::Data(body)),
            PacketKind::Cntl => parse_control(version, body),
            PacketKind::First => {
                let (address, traffic, data) = parse_first_segment(body)?;
                Some(BodyV3::First {
                    address,
                    traffic,
                    data,
                })
            }
            PacketKind::Path => {
                let (_, address) = AddressSegment::parse(body)?;
                (address.len() == body.len()).then_some(BodyV3::Path(address))
            }
            PacketKind::Diag => Diag::parse(body).map(BodyV3::Diag),
            PacketKind::Maint => information(body).map(BodyV3::Maint),
            PacketKind::Mgmt => information(body).map(BodyV3::Mgmt),
            PacketKind::Route | PacketKind::Rcntl if body.len() != 8 => None,
            PacketKind::Route => Some(BodyV3::Route {
                op: u32_at(body, 0)?,
                route: u32_at(body, 4)?,
            }),
            PacketKind::Rcntl => Some(BodyV3::Rcntl {
                rate: u32_at(body, 0)?,
                burst: u32_at(body, 4)?,
            }),
        }
    }

    /// The kind of a packet with this body.
    pub fn kind(&self) -> PacketKind {
        match self {
            BodyV3::Data(_) => PacketKind::Data,
            BodyV3::Cntl(..) => PacketKind::Cntl,
            BodyV3::First { .. } => PacketKind::First,
            BodyV3::Path(_) => PacketKind::Path,
            BodyV3::Diag(_) => PacketKind::Diag,
            BodyV3::Maint(_) => PacketKind::Maint,
            BodyV3::Mgmt(_) => PacketKind::Mgmt,
            BodyV3::Route { .. } => PacketKind::Route,
            BodyV3::Rcntl { .. } => PacketKind::Rcntl,
        }
    }

    pub(super) fn emit(&self, version: Version, out: &mut Vec<u8>) {
        let mut words = |words: &[u32]| {
            let octets = words.iter().flat_map(|word| word.to_be_bytes());
            out.extend(octets);
        };
        match self {
            BodyV3::Data(data) => out.extend_from_slice(data),
            BodyV3::Cntl(control, pairs) => emit_control(version, control, pairs, out),
            BodyV3::First {
                address,
                traffic,
                data,
            } => {
                emit_first_segment(address, traffic, out);
                out.extend_from_slice(data);
            }
            BodyV3::Path(address) => address.emit(0, out),
            BodyV3::Diag(diag) => diag.emit(out),
            BodyV3::Maint(info) | BodyV3::Mgmt(info) => {
                words(&[info.op]);
                out.extend_from_slice(info.octets);
            }
            BodyV3::Route { op, route } => words(&[*op, *route]),
            BodyV3::Rcntl { rate, burst } => words(&[*rate, *burst]),
        }
    }
}

fn information(body: &[u8]) -> Option<InformationSegment<'_>> {
    Some(InformationSegment {
        op: u32_at(body, 0)?,
        octets: &body[4..],
    })
}

/// Parses a control segment: words rseq, alloc, echo, rate, burst, xkey; number of pairs and
/// longest packet in 16 bits each; a reserved word, in 3.5 and 3.6 four more; then the pairs.
fn parse_control(version: Version, body: &[u8]) -> Option<BodyV3<'_>> {
    let pairs = body.get(version.control_len()..)?;
    let at = |index: usize| u32_at(body, 4 * index);
    let counts = at(6)?;
    let used = (counts >> 16) as usize * PAIR_LEN;
    let fixed = pairs.len() != used;
    if fixed && pairs.len() != PAIRS_MAX * PAIR_LEN || at(7)? != 0 {
        return None;
    }
    let rest = &pairs.get(used..)?;
    if rest.iter().any(|&octet| octet != 0) {
        return None;
    }
    let mut reserved = [0; 4];
    if version != Version::V33 {
        for (index, word) in reserved.iter_mut().enumerate() {
            *word = at(8 + index)?;
        }
    }
    let control = ControlSegmentV3 {
        rseq: at(0)?,
        alloc: at(1)?,
        echo: SyncNumber(at(2)?),
        rate: at(3)?,
        burst: at(4)?,
        xkey: at(5)?,
        maxdata: counts as u16,
        reserved,
    };
    Some(BodyV3::Cntl(
        control,
        ResendPairs::new(&pairs[..used], fixed)?,
    ))
}

fn emit_control(
    version: Version,
    control: &ControlSegmentV3,
    pairs: &ResendPairs<'_>,
    out: &mut Vec<u8>,
) {
    let counts = (pairs.len() as u32) << 16 | u32::from(control.maxdata);
    let words = [
        control.rseq,
        control.alloc,
        control.echo.0,
        control.rate,
        control.burst,
        control.xkey,
        counts,
        0,
    ];
    let more: &[u32] = match version {
        Version::V33 => &[],
        _ => &control.reserved,
    };
    let octets = words.iter().chain(more).flat_map(|word| word.to_be_bytes());
    out.extend(octets);
    out.extend_from_slice(pairs.octets);
    if pairs.fixed {
        let unused = (PAIRS_MAX - pairs.len()) * PAIR_LEN;
        out.resize(out.len() + unused, 0);
    }
}
