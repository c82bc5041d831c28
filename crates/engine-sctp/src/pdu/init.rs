//! INIT and INIT-ACK: what an end offers and asks for (RFC 9260 sections 3.3.2 and 3.3.3).

use super::auth::AuthOffer;
use super::chunk::{begin_chunk, end_chunk};
use super::parameter::{
    Parameter, ParameterType, address_of, parameters, push_address, push_parameter,
};
use super::{ChunkType, u16_at, u32_at};
use crate::numbers::{Tag, Tsn};
use std::net::IpAddr;

/// Octets of the fields in front of the parameters.
const FIELDS_LEN: usize = 16;

/// Addresses of a peer that are kept; more are ignored. A host has few interfaces, and each address
/// costs a path.
pub const ADDRESSES_MAX: usize = 8;

/// Longest state cookie that is echoed: it must fit a packet with the rest of a COOKIE-ECHO.
pub const COOKIE_LEN_MAX: usize = 1200;

/// Octets of unknown parameters that are reported; the report must fit a packet.
const UNRECOGNIZED_LEN_MAX: usize = 256;

/// Extensions that an end supports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extensions {
    /// FORWARD-TSN (RFC 3758).
    pub forward_tsn: bool,
    /// I-DATA (RFC 8260).
    pub interleave: bool,
    /// I-FORWARD-TSN (RFC 8260).
    pub i_forward_tsn: bool,
    /// RE-CONFIG (RFC 6525).
    pub reconfigure: bool,
    /// AUTH (RFC 4895).
    pub authentication: bool,
    /// ASCONF and ASCONF-ACK (RFC 5061).
    pub dynamic_addresses: bool,
    /// The error detection method with which packets of checksum zero are accepted (RFC 9653).
    pub zero_checksum: Option<u32>,
}

/// An INIT or INIT-ACK.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Init {
    /// The tag that packets to the sender carry, not 0.
    pub tag: Tag,
    /// Bytes of its receive buffer, 1500 at least.
    pub rwnd: u32,
    /// Streams it wants to send, 1 at least.
    pub outbound_streams: u16,
    /// Streams it accepts, 1 at least.
    pub inbound_streams: u16,
    /// Its first TSN.
    pub initial_tsn: Tsn,
    /// The rest.
    pub parameters: InitParameters,
}

/// Optional parts of an INIT or INIT-ACK.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InitParameters {
    /// The sender's addresses, besides the one its packet came from.
    pub addresses: Vec<IpAddr>,
    /// The state cookie of an INIT-ACK.
    pub cookie: Option<Vec<u8>>,
    /// What it supports.
    pub extensions: Extensions,
    /// By how many milliseconds it wants the cookie to live longer.
    pub preservative_ms: u32,
    /// What it says of authentication (RFC 4895).
    pub auth: Option<AuthOffer>,
    /// A number of its user's for that of the receiver (RFC 5061 section 4.2.6).
    pub adaptation: Option<u32>,
    /// Parameters of the receiver's INIT that it does not know, or own ones to be reported.
    pub unrecognized: Vec<u8>,
    /// A host name that was among the parameters: the whole parameter, or its front.
    pub host_name: Option<Vec<u8>>,
}

/// Why an INIT or INIT-ACK is refused (RFC 9260 sections 3.3.2, 3.3.3 and 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitFault {
    /// It is too short, or its tag is 0: dropped without an answer.
    Unanswerable,
    /// A window below 1500 or no streams: answered with an ABORT with this tag.
    Impossible(Tag),
}

/// Octets of a host name's parameter that are reported.
const HOST_NAME_LEN_MAX: usize = 260;

/// The least receive window.
const RWND_MIN: u32 = 1500;

impl Init {
    /// Of a chunk's value.
    ///
    /// # Errors
    ///
    /// [`InitFault`].
    pub fn parse(value: &[u8]) -> Result<Init, InitFault> {
        let fields = || {
            Some(Init {
                tag: Tag(u32_at(value, 0)?),
                rwnd: u32_at(value, 4)?,
                outbound_streams: u16_at(value, 8)?,
                inbound_streams: u16_at(value, 10)?,
                initial_tsn: Tsn(u32_at(value, 12)?),
                parameters: InitParameters::default(),
            })
        };
        let mut init = fields().ok_or(InitFault::Unanswerable)?;
        if init.tag == Tag::NONE {
            return Err(InitFault::Unanswerable);
        }
        if init.rwnd < RWND_MIN || init.outbound_streams == 0 || init.inbound_streams == 0 {
            return Err(InitFault::Impossible(init.tag));
        }
        init.parameters = InitParameters::parse(&value[FIELDS_LEN..]);
        Ok(init)
    }

    /// Appends the chunk.
    pub fn push(&self, out: &mut Vec<u8>, kind: ChunkType) {
        let start = begin_chunk(out, kind, 0);
        out.extend(self.tag.0.to_be_bytes());
        out.extend(self.rwnd.to_be_bytes());
        out.extend(self.outbound_streams.to_be_bytes());
        out.extend(self.inbound_streams.to_be_bytes());
        out.extend(self.initial_tsn.0.to_be_bytes());
        self.parameters.push(out);
        end_chunk(out, start);
    }
}

/// Whether an address can be a host's.
pub(crate) fn is_usable(address: IpAddr) -> bool {
    !address.is_multicast() && !address.is_unspecified()
}

impl InitParameters {
    fn parse(octets: &[u8]) -> InitParameters {
        let mut found = InitParameters::default();
        for parameter in parameters(octets) {
            if !found.add(&parameter) {
                break;
            }
        }
        found.auth = found.auth.and_then(AuthOffer::if_usable);
        found
    }

    /// Takes in a parameter; false if those behind it are not to be processed.
    fn add(&mut self, parameter: &Parameter<'_>) -> bool {
        let value = parameter.value;
        match parameter.kind {
            ParameterType::IPV4 | ParameterType::IPV6 => self.add_address(address_of(parameter)),
            ParameterType::STATE_COOKIE if value.len() <= COOKIE_LEN_MAX => {
                self.cookie.get_or_insert_with(|| value.to_vec());
            }
            ParameterType::COOKIE_PRESERVATIVE => {
                self.preservative_ms = u32_at(value, 0).unwrap_or(0);
            }
            ParameterType::HOST_NAME => {
                let len = parameter.octets.len().min(HOST_NAME_LEN_MAX);
                self.host_name = Some(parameter.octets[..len].to_vec());
            }
            ParameterType::FORWARD_TSN => self.extensions.forward_tsn = true,
            ParameterType::ZERO_CHECKSUM => {
                let method = u32_at(value, 0).filter(|method| *method != 0);
                self.extensions.zero_checksum = method;
            }
            ParameterType::RANDOM | ParameterType::CHUNKS | ParameterType::HMAC_ALGO => {
                let offer = self.auth.get_or_insert_default();
                offer.add(parameter.kind, value);
            }
            ParameterType::ADAPTATION => self.adaptation = u32_at(value, 0),
            ParameterType::SUPPORTED_EXTENSIONS => self.extensions.add_chunks(value),
            // The peer's report, which changes nothing: what it does not know is not used.
            ParameterType::STATE_COOKIE
            | ParameterType::UNRECOGNIZED
            | ParameterType::SUPPORTED_ADDRESS_TYPES
            | ParameterType::ECN
            | ParameterType::PAD => {}
            unknown => {
                let len = self.unrecognized.len() + 4 + parameter.octets.len();
                if unknown.unknown_is_reported() && len <= UNRECOGNIZED_LEN_MAX {
                    self.unrecognized.extend_from_slice(parameter.octets);
                    let padded = self.unrecognized.len().next_multiple_of(4);
                    self.unrecognized.resize(padded, 0);
                }
                return !unknown.unknown_stops();
            }
        }
        true
    }

    fn add_address(&mut self, address: Option<IpAddr>) {
        let Some(address) = address else {
            return;
        };
        if is_usable(address)
            && self.addresses.len() < ADDRESSES_MAX
            && !self.addresses.contains(&address)
        {
            self.addresses.push(address);
        }
    }

    fn push(&self, out: &mut Vec<u8>) {
        if let Some(cookie) = &self.cookie {
            push_parameter(out, ParameterType::STATE_COOKIE, cookie);
        }
        for address in &self.addresses {
            push_address(out, *address);
        }
        if self.preservative_ms > 0 {
            let increment = self.preservative_ms.to_be_bytes();
            push_parameter(out, ParameterType::COOKIE_PRESERVATIVE, &increment);
        }
        if let Some(method) = self.extensions.zero_checksum {
            push_parameter(out, ParameterType::ZERO_CHECKSUM, &method.to_be_bytes());
        }
        let chunks = self.extensions.chunks();
        if !chunks.is_empty() {
            push_parameter(out, ParameterType::SUPPORTED_EXTENSIONS, &chunks);
        }
        if self.extensions.forward_tsn {
            push_parameter(out, ParameterType::FORWARD_TSN, &[]);
        }
        if let Some(value) = self.adaptation {
            push_parameter(out, ParameterType::ADAPTATION, &value.to_be_bytes());
        }
        if let Some(offer) = &self.auth {
            offer.push(out);
        }
        for unknown in parameters(&self.unrecognized) {
            push_parameter(out, ParameterType::UNRECOGNIZED, unknown.octets);
        }
    }
}

impl Extensions {
    /// The types of the chunks that it names as supported (RFC 5061 section 4.2.7).
    fn chunks(&self) -> Vec<u8> {
        let known = [
            (self.forward_tsn, ChunkType::FORWARD_TSN),
            (self.interleave, ChunkType::I_DATA),
            (self.i_forward_tsn, ChunkType::I_FORWARD_TSN),
            (self.reconfigure, ChunkType::RE_CONFIG),
            (self.authentication, ChunkType::AUTH),
            (self.dynamic_addresses, ChunkType::ASCONF),
            (self.dynamic_addresses, ChunkType::ASCONF_ACK),
        ];
        let named = known.into_iter().filter(|(is_supported, _)| *is_supported);
        named.map(|(_, kind)| kind.0).collect()
    }

    /// The peer names the types of chunks that it supports.
    fn add_chunks(&mut self, types: &[u8]) {
        let names = |kind: ChunkType| types.contains(&kind.0);
        self.forward_tsn |= names(ChunkType::FORWARD_TSN);
        self.interleave |= names(ChunkType::I_DATA);
        self.i_forward_tsn |= names(ChunkType::I_FORWARD_TSN);
        self.reconfigure |= names(ChunkType::RE_CONFIG);
        self.authentication |= names(ChunkType::AUTH);
        self.dynamic_addresses |= names(ChunkType::ASCONF) && names(ChunkType::ASCONF_ACK);
    }
}
