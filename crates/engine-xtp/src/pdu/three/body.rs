//! Middle segments of the third revision.

use super::super::{AddressSegment, Diag, TrafficSpec, u32_at};
use super::{Dialect, Header3, Kind, emit_opening, opening};

/// Pairs of a control segment with a fixed number of them.
pub const PAIRS_MAX: usize = 16;

/// Octets of a pair.
const PAIR_LEN: usize = 8;

/// A range of byte numbers that are to be sent again, from `left` to before `right`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The first byte.
    pub left: u32,
    /// The byte behind the last.
    pub right: u32,
}

/// The resend pairs of a control segment, as they came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pairs<'a> {
    octets: &'a [u8],
    /// Sixteen are there, used or not.
    pub fixed: bool,
}

impl<'a> Pairs<'a> {
    /// No pairs.
    pub const EMPTY: Pairs<'static> = Pairs {
        octets: &[],
        fixed: false,
    };

    /// The pairs in `octets`, eight each; None when the last is cut off or there are too many.
    pub fn new(octets: &'a [u8], fixed: bool) -> Option<Pairs<'a>> {
        let fits = octets.len().is_multiple_of(PAIR_LEN) && octets.len() <= PAIRS_MAX * PAIR_LEN;
        fits.then_some(Pairs { octets, fixed })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.octets.len() / PAIR_LEN
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.octets.is_empty()
    }

    /// Each in turn.
    pub fn iter(&self) -> impl Iterator<Item = Pair> + use<'a> {
        let (chunks, _) = self.octets.as_chunks::<PAIR_LEN>();
        chunks.iter().map(|chunk| Pair {
            left: u32_at(chunk, 0).unwrap_or_default(),
            right: u32_at(chunk, 4).unwrap_or_default(),
        })
    }
}

/// What every control packet says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control3 {
    /// Everything below arrived.
    pub rseq: u32,
    /// Bytes from here on may not be sent.
    pub alloc: u32,
    /// The highest sync seen.
    pub echo: u32,
    /// Bytes a second the sender accepts; all ones for no limit.
    pub rate: u32,
    /// Bytes at once the sender accepts.
    pub burst: u32,
    /// The sender's own key.
    pub xkey: u32,
    /// User bytes of the longest packet the sender accepts.
    pub maxdata: u16,
    /// Zero; 3.5 and 3.6 only.
    pub reserved: [u32; 4],
}

/// The segment of MAINT and MGMT packets: what is wanted, and octets that belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Information<'a> {
    /// 1 asks, 2 answers.
    pub op: u32,
    /// The rest.
    pub octets: &'a [u8],
}

/// What is between header and trailer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body3<'a> {
    /// DATA.
    Data(&'a [u8]),
    /// CNTL.
    Cntl(Control3, Pairs<'a>),
    /// FIRST.
    First {
        /// Whom it is for.
        address: AddressSegment<'a>,
        /// Which service.
        traffic: TrafficSpec,
        /// User bytes.
        data: &'a [u8],
    },
    /// PATH: whom it is for.
    Path(AddressSegment<'a>),
    /// DIAG.
    Diag(Diag<'a>),
    /// MAINT.
    Maint(Information<'a>),
    /// MGMT.
    Mgmt(Information<'a>),
    /// ROUTE: 1 assigns `route`, 2 releases the route of the header, 3 says that it is released.
    Route {
        /// What to do.
        op: u32,
        /// The value the sender knows the route by.
        route: u32,
    },
    /// RCNTL: limits for all associations on the header's route.
    Rcntl {
        /// Bytes a second; all ones for no limit.
        rate: u32,
        /// Bytes at once.
        burst: u32,
    },
}

impl<'a> Body3<'a> {
    /// Reads the middle segment of `packet`, whose header was checked; None when it is not what
    /// its kind demands.
    pub fn parse(dialect: Dialect, header: &Header3, packet: &'a [u8]) -> Option<Body3<'a>> {
        let start = dialect.header_len() + usize::from(header.front);
        let end = dialect.header_len() + header.dlen as usize - usize::from(header.back);
        let body = packet.get(start..end)?;
        match header.kind {
            Kind::Data => Some(Body3::Data(body)),
            Kind::Cntl => parse_control(dialect, body),
            Kind::First => {
                let (address, traffic, data) = opening(body)?;
                Some(Body3::First {
                    address,
                    traffic,
                    data,
                })
            }
            Kind::Path => {
                let (_, address) = AddressSegment::parse(body)?;
                (address.len() == body.len()).then_some(Body3::Path(address))
            }
            Kind::Diag => Diag::parse(body).map(Body3::Diag),
            Kind::Maint => information(body).map(Body3::Maint),
            Kind::Mgmt => information(body).map(Body3::Mgmt),
            Kind::Route | Kind::Rcntl if body.len() != 8 => None,
            Kind::Route => Some(Body3::Route {
                op: u32_at(body, 0)?,
                route: u32_at(body, 4)?,
            }),
            Kind::Rcntl => Some(Body3::Rcntl {
                rate: u32_at(body, 0)?,
                burst: u32_at(body, 4)?,
            }),
        }
    }

    /// The kind of a packet with this body.
    pub fn kind(&self) -> Kind {
        match self {
            Body3::Data(_) => Kind::Data,
            Body3::Cntl(..) => Kind::Cntl,
            Body3::First { .. } => Kind::First,
            Body3::Path(_) => Kind::Path,
            Body3::Diag(_) => Kind::Diag,
            Body3::Maint(_) => Kind::Maint,
            Body3::Mgmt(_) => Kind::Mgmt,
            Body3::Route { .. } => Kind::Route,
            Body3::Rcntl { .. } => Kind::Rcntl,
        }
    }

    pub(super) fn emit(&self, dialect: Dialect, out: &mut Vec<u8>) {
        let mut words = |words: &[u32]| {
            let octets = words.iter().flat_map(|word| word.to_be_bytes());
            out.extend(octets);
        };
        match self {
            Body3::Data(data) => out.extend_from_slice(data),
            Body3::Cntl(control, pairs) => emit_control(dialect, control, pairs, out),
            Body3::First {
                address,
                traffic,
                data,
            } => {
                emit_opening(address, traffic, out);
                out.extend_from_slice(data);
            }
            Body3::Path(address) => address.emit(0, out),
            Body3::Diag(diag) => diag.emit(out),
            Body3::Maint(info) | Body3::Mgmt(info) => {
                words(&[info.op]);
                out.extend_from_slice(info.octets);
            }
            Body3::Route { op, route } => words(&[*op, *route]),
            Body3::Rcntl { rate, burst } => words(&[*rate, *burst]),
        }
    }
}

fn information(body: &[u8]) -> Option<Information<'_>> {
    Some(Information {
        op: u32_at(body, 0)?,
        octets: &body[4..],
    })
}

/// A control segment: rseq, alloc, echo, rate, burst, xkey; the number of pairs and the longest
/// packet in 16 bits each; a word of zero; in 3.5 and 3.6 four more. Then the pairs.
fn parse_control(dialect: Dialect, body: &[u8]) -> Option<Body3<'_>> {
    let pairs = body.get(dialect.control_len()..)?;
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
    if dialect != Dialect::V33 {
        for (index, word) in reserved.iter_mut().enumerate() {
            *word = at(8 + index)?;
        }
    }
    let control = Control3 {
        rseq: at(0)?,
        alloc: at(1)?,
        echo: at(2)?,
        rate: at(3)?,
        burst: at(4)?,
        xkey: at(5)?,
        maxdata: counts as u16,
        reserved,
    };
    Some(Body3::Cntl(control, Pairs::new(&pairs[..used], fixed)?))
}

fn emit_control(dialect: Dialect, control: &Control3, pairs: &Pairs<'_>, out: &mut Vec<u8>) {
    let counts = (pairs.len() as u32) << 16 | u32::from(control.maxdata);
    let words = [
        control.rseq,
        control.alloc,
        control.echo,
        control.rate,
        control.burst,
        control.xkey,
        counts,
        0,
    ];
    let more: &[u32] = match dialect {
        Dialect::V33 => &[],
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
