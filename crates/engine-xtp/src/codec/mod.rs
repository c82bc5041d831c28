//! The packets of an endpoint's version, chosen once. Procedures know the headers and bodies of 4.0: a [`Codec`] writes
//! them as its version has them, and an [`Arrival`] is a packet that it read.
//!
//! In what else 3.x differs is a property of the codec, asked by its name: [`Codec::has_long_keys`],
//! [`Codec::states_limits`], [`Codec::data_carry_dseq`], [`Codec::has_end_tags`], [`Codec::has_joins`].

mod arrival;
mod v3;

pub(crate) use arrival::{Arrival, Input};
pub(crate) use v3::{CodecV3, HeaderContext, key_from_wire32, unwrap_seq};

use crate::pdu::{
    AddressSegment, Body, CHECK_AT, HEADER_LEN, Header, Options, Packet, Reject, TrafficSpec,
    Version,
};
use core::ops::Range;
use engine::{Batch, Integrity, Store, checksum};

/// Octets of a TCNTL with a plain traffic specifier.
const TCNTL_LEN: usize = HEADER_LEN + 20 + 12 + 8;

/// Largest window with 32-bit sequence numbers: a quarter of their range, so that old and new
/// numbers are distinct (0008, Numbers).
const V3_WINDOW_MAX: u64 = 1 << 30;

/// Reads and writes packets.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Codec {
    /// Of 4.0.
    V40,
    /// Of a version of 3.x.
    V3(CodecV3),
}

impl Codec {
    /// The codec of `version`, for packets of up to `packet_len` octets that may pass `hop_limit` routers.
    pub(crate) fn new(version: Version, packet_len: usize, hop_limit: u8) -> Codec {
        match version {
            Version::V40 => Codec::V40,
            Version::V33 | Version::V35 | Version::V36 => Codec::V3(CodecV3 {
                version,
                hop_limit,
                maxdata: version.payload_max(packet_len) as u16,
            }),
        }
    }

    /// Parses and checks a packet; the error is the first rule that it breaks.
    #[inline]
    pub(crate) fn parse(self, octets: &[u8]) -> Result<Input<'_>, Reject> {
        match self {
            Codec::V40 => Arrival::parse_v40(octets).map(Input::Association),
            Codec::V3(codec) => Input::parse_v3(codec.version, octets),
        }
    }

    /// Octets of a packet with `options` that its checks cover.
    #[inline]
    pub(crate) fn summed_len(self, options: Options, octets: &[u8]) -> u64 {
        let header_len = match self {
            Codec::V40 => HEADER_LEN,
            Codec::V3(codec) => codec.version.header_len(),
        };
        match options.has(Options::NOCHECK) {
            true => header_len as u64,
            false => octets.len() as u64,
        }
    }

    /// Encodes `packet`, which has no user bytes, with its checks.
    pub(crate) fn emit(self, packet: &Packet<'_>, context: &HeaderContext, out: &mut Vec<u8>) {
        match (self, packet.body) {
            (Codec::V40, Body::Cntl(common)) => {
                out.clear();
                out.extend_from_slice(&common.emit_cntl(&packet.header));
            }
            (Codec::V40, _) => packet.emit_with_checksum(out),
            (Codec::V3(codec), _) => *out = codec.emit(packet, context),
        }
    }

    /// Puts a DATA packet with the bytes of a store into the batch.
    #[inline]
    pub(crate) fn push_data(
        self,
        batch: &mut Batch,
        header: &Header,
        context: impl FnOnce() -> HeaderContext,
        (store, bytes): (Store, Range<u64>),
    ) {
        match self {
            Codec::V40 => {
                let integrity = internet_checksum(!header.options.has(Options::NOCHECK));
                batch.push(&header.emit_with_checksum(), store, bytes, integrity);
            }
            Codec::V3(codec) => codec.push_data(batch, header, &context(), (store, bytes)),
        }
    }

    /// Puts a FIRST with the bytes of a store into the batch, built in `scratch`.
    pub(crate) fn push_first(
        self,
        batch: &mut Batch,
        header: &Header,
        context: &HeaderContext,
        (address, traffic): (AddressSegment<'_>, TrafficSpec),
        (store, bytes): (Store, Range<u64>),
        scratch: &mut Vec<u8>,
    ) {
        if let Codec::V3(codec) = self {
            return codec.push_first(batch, header, context, (&address, &traffic), (store, bytes));
        }
        let body = Body::First {
            domain: 0,
            address,
            traffic,
            data: &[],
        };
        let header = *header;
        Packet { header, body }.emit_into(scratch);
        let check = checksum::checksum(scratch);
        scratch[CHECK_AT..CHECK_AT + 2].copy_from_slice(&check.to_be_bytes());
        let integrity = internet_checksum(!bytes.is_empty());
        batch.push(scratch, store, bytes, integrity);
    }

    /// Wire number and position of the first byte of the stream that the header of FIRST begins (0008, Numbers).
    pub(crate) fn beginning(self, first: &Header) -> (u32, u64) {
        match self {
            Codec::V40 => (0, first.seq),
            Codec::V3(_) => (first.seq as u32, 0),
        }
    }

    /// Wire number of the first byte that an initiator sends (0008, Numbers).
    pub(crate) fn first_number(self, wanted: Option<u32>, random: impl FnOnce() -> u32) -> u32 {
        match self {
            Codec::V40 => 0,
            Codec::V3(_) => wanted.unwrap_or_else(random),
        }
    }

    /// Length of a control packet that carries this side's key.
    pub(crate) fn key_packet_len(self) -> usize {
        match self {
            Codec::V40 => TCNTL_LEN,
            Codec::V3(codec) => codec.version.overhead() + codec.version.control_len(),
        }
    }

    /// The longest window that its sequence numbers allow.
    pub(crate) fn window_max(self) -> u64 {
        match self {
            Codec::V40 => u64::MAX,
            Codec::V3(_) => V3_WINDOW_MAX,
        }
    }

    /// Keys have 63 bits: they name a context without a sync, are proof of an address, and may be a cookie. Those of
    /// 3.x have 31, ten of them random (0008, Names; 0021).
    #[inline]
    pub(crate) fn has_long_keys(self) -> bool {
        matches!(self, Codec::V40)
    }

    /// FIRST and every control packet state the limits, and every control packet its key (0008, The packets).
    #[inline]
    pub(crate) fn states_limits(self) -> bool {
        matches!(self, Codec::V3(_))
    }

    /// DATA say what their sender's user consumed, which answers DREQ (0008, dseq).
    #[inline]
    pub(crate) fn data_carry_dseq(self) -> bool {
        matches!(self, Codec::V3(_))
    }

    /// There is a bit for a tag behind a message (0007, Tags).
    pub(crate) fn has_end_tags(self) -> bool {
        matches!(self, Codec::V3(_))
    }

    /// Receivers of a group join with a packet (0122, Joining).
    pub(crate) fn has_joins(self) -> bool {
        matches!(self, Codec::V40)
    }
}

/// The check of a packet whose header is summed already, over its user bytes too if `whole`.
#[inline]
pub(crate) fn internet_checksum(whole: bool) -> Integrity {
    match whole {
        true => Integrity::Internet {
            at: CHECK_AT as u16,
        },
        false => Integrity::None,
    }
}
