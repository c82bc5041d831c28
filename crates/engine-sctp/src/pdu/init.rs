//! INIT and INIT-ACK: what an end offers and asks for (RFC 9260 sections 3.3.2 and 3.3.3).

use super::chunk::{begin_chunk, end_chunk};
use super::parameter::{Parameter, ParameterType, parameters, push_parameter};
use super::{ChunkType, u16_at, u32_at};
use crate::numbers::{Tag, Tsn};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

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
    /// Parameters of the receiver's INIT that it does not know, or own ones to be reported.
    pub unrecognized: Vec<u8>,
    /// A host name was among the parameters.
    pub has_host_name: bool,
}

/// Why an INIT or INIT-ACK is refused (RFC 9260 sections 3.3.2, 3.3.3 and 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitFault {
    /// It is too short, or its tag is 0: dropped without an answer.
    Unanswerable,
    /// A window below 1500 or no streams: answered with an ABORT with this tag.
    Impossible(Tag),
}

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

impl InitParameters {
    fn parse(octets: &[u8]) -> InitParameters {
        let mut found = InitParameters::default();
        for parameter in parameters(octets) {
            if !found.add(&parameter) {
                break;
            }
        }
        found
    }

    /// Takes in a parameter; false if those behind it are not to be processed.
    fn add(&mut self, parameter: &Parameter<'_>) -> bool {
        let value = parameter.value;
        match parameter.kind {
            ParameterType::IPV4 => {
                let address = value
                    .first_chunk::<4>()
                    .map(|octets| Ipv4Addr::from(*octets));
                self.add_address(address.map(IpAddr::V4));
            }
            ParameterType::IPV6 => {
                let address = value
                    .first_chunk::<16>()
                    .map(|octets| Ipv6Addr::from(*octets));
                self.add_address(address.map(IpAddr::V6));
            }
            ParameterType::STATE_COOKIE if value.len() <= COOKIE_LEN_MAX => {
                self.cookie.get_or_insert_with(|| value.to_vec());
            }
            ParameterType::COOKIE_PRESERVATIVE => {
                self.preservative_ms = u32_at(value, 0).unwrap_or(0);
            }
            ParameterType::HOST_NAME => self.has_host_name = true,
            ParameterType::FORWARD_TSN => self.extensions.forward_tsn = true,
            ParameterType::ZERO_CHECKSUM => {
                let method = u32_at(value, 0).filter(|method| *method != 0);
                self.extensions.zero_checksum = method;
            }
            // The peer's report, which changes nothing: what it does not know is not used.
            ParameterType::STATE_COOKIE
            | ParameterType::UNRECOGNIZED
            | ParameterType::SUPPORTED_ADDRESS_TYPES
            | ParameterType::SUPPORTED_EXTENSIONS
            | ParameterType::ECN
            | ParameterType::ADAPTATION
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
        let usable = !address.is_multicast() && !address.is_unspecified();
        if usable && self.addresses.len() < ADDRESSES_MAX && !self.addresses.contains(&address) {
            self.addresses.push(address);
        }
    }

    fn push(&self, out: &mut Vec<u8>) {
        if let Some(cookie) = &self.cookie {
            push_parameter(out, ParameterType::STATE_COOKIE, cookie);
        }
        for address in &self.addresses {
            match address {
                IpAddr::V4(v4) => push_parameter(out, ParameterType::IPV4, &v4.octets()),
                IpAddr::V6(v6) => push_parameter(out, ParameterType::IPV6, &v6.octets()),
            }
        }
        if self.preservative_ms > 0 {
            let increment = self.preservative_ms.to_be_bytes();
            push_parameter(out, ParameterType::COOKIE_PRESERVATIVE, &increment);
        }
        if let Some(method) = self.extensions.zero_checksum {
            push_parameter(out, ParameterType::ZERO_CHECKSUM, &method.to_be_bytes());
        }
        if self.extensions.forward_tsn {
            push_parameter(
                out,
                ParameterType::SUPPORTED_EXTENSIONS,
                &[FORWARD_TSN_CHUNK],
            );
            push_parameter(out, ParameterType::FORWARD_TSN, &[]);
        }
        for unknown in parameters(&self.unrecognized) {
            push_parameter(out, ParameterType::UNRECOGNIZED, unknown.octets);
        }
    }
}

/// The chunk type of FORWARD-TSN.
const FORWARD_TSN_CHUNK: u8 = 192;
