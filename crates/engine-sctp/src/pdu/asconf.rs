//! ASCONF and ASCONF-ACK: addresses of an end come and go (RFC 5061 section 4).

use super::cause::{Cause, CauseCode, causes};
use super::chunk::{begin_chunk, end_chunk};
use super::parameter::{Parameter, ParameterType, address_of, parameters, push_address};
use super::parameter::{begin_parameter, end_parameter, push_parameter};
use super::{ChunkType, u32_at};
use std::net::IpAddr;

/// The number of an ASCONF and of its answer: counted from the first TSN of its sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Serial(pub u32);

impl Serial {
    /// The one `count` behind it.
    pub fn plus(self, count: u32) -> Serial {
        Serial(self.0.wrapping_add(count))
    }
}

/// What a request of an ASCONF asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressAction {
    /// The sender has this address too.
    Add,
    /// The sender no longer has it.
    Delete,
    /// The receiver is to prefer it.
    SetPrimary,
}

impl AddressAction {
    fn parameter(self) -> ParameterType {
        match self {
            AddressAction::Add => ParameterType::ADD_ADDRESS,
            AddressAction::Delete => ParameterType::DELETE_ADDRESS,
            AddressAction::SetPrimary => ParameterType::SET_PRIMARY,
        }
    }

    fn of(kind: ParameterType) -> Option<AddressAction> {
        let all = [
            AddressAction::Add,
            AddressAction::Delete,
            AddressAction::SetPrimary,
        ];
        all.into_iter().find(|action| action.parameter() == kind)
    }
}

/// A request of an ASCONF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRequest<'a> {
    /// The number that its answer carries.
    pub correlation: u32,
    /// What it asks for; None of an unknown type.
    pub action: Option<AddressAction>,
    /// The address; unspecified for that which the packet comes from. None if there is none.
    pub address: Option<IpAddr>,
    /// The whole parameter, for reports.
    pub parameter: Parameter<'a>,
}

/// An ASCONF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asconf<'a> {
    /// Its number.
    pub serial: Serial,
    requests: &'a [u8],
}

impl<'a> Asconf<'a> {
    /// Of a chunk's value; None if it has no number or no address of its sender.
    pub fn parse(value: &'a [u8]) -> Option<Asconf<'a>> {
        let serial = Serial(u32_at(value, 0)?);
        let address = parameters(&value[4..]).next()?;
        address_of(&address)?;
        let after = 4 + address.octets.len().next_multiple_of(4);
        let requests = value.get(after..).unwrap_or(&[]);
        Some(Asconf { serial, requests })
    }

    /// Its requests, in order.
    pub fn requests(&self) -> impl Iterator<Item = AddressRequest<'a>> {
        parameters(self.requests).map(|parameter| {
            let address = parameter.value.get(4..).unwrap_or(&[]);
            let address = parameters(address).next();
            AddressRequest {
                correlation: u32_at(parameter.value, 0).unwrap_or(0),
                action: AddressAction::of(parameter.kind),
                address: address.and_then(|address| address_of(&address)),
                parameter,
            }
        })
    }
}

/// Appends an ASCONF of an end with the address `own`, with one request.
pub fn push_asconf(
    out: &mut Vec<u8>,
    (serial, own): (Serial, IpAddr),
    correlation: u32,
    (action, address): (AddressAction, IpAddr),
) {
    let start = begin_chunk(out, ChunkType::ASCONF, 0);
    out.extend(serial.0.to_be_bytes());
    push_address(out, own);
    let parameter = begin_parameter(out, action.parameter());
    out.extend(correlation.to_be_bytes());
    push_address(out, address);
    end_parameter(out, parameter);
    end_chunk(out, start);
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressResponse {
    /// The number of the request.
    pub correlation: u32,
    /// Why it was not done.
    pub fault: Option<AddressFault>,
}

/// Why a request was not done, and the request that the report holds.
pub type AddressFault = (CauseCode, Vec<u8>);

/// An ASCONF-ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsconfAck<'a> {
    /// The number of the ASCONF that it answers.
    pub serial: Serial,
    responses: &'a [u8],
}

impl<'a> AsconfAck<'a> {
    /// Of a chunk's value; None if it has no number.
    pub fn parse(value: &'a [u8]) -> Option<AsconfAck<'a>> {
        Some(AsconfAck {
            serial: Serial(u32_at(value, 0)?),
            responses: &value[4..],
        })
    }

    /// Why a request was refused; None if it was done. One without an answer was done if none was
    /// refused (RFC 5061 section 4.1.2).
    pub fn fault(&self, correlation: u32) -> Option<CauseCode> {
        let errors = parameters(self.responses)
            .filter(|response| response.kind == ParameterType::ADDRESS_ERROR);
        let own = |response: &Parameter<'_>| u32_at(response.value, 0) == Some(correlation);
        let mut errors = errors.filter(own);
        let error = errors.next()?;
        let cause = causes(error.value.get(4..).unwrap_or(&[])).next();
        Some(cause.map_or(CauseCode::PROTOCOL_VIOLATION, |cause| cause.code))
    }
}

/// Appends an ASCONF-ACK.
pub fn push_asconf_ack(out: &mut Vec<u8>, serial: Serial, responses: &[AddressResponse]) {
    let start = begin_chunk(out, ChunkType::ASCONF_ACK, 0);
    out.extend(serial.0.to_be_bytes());
    for response in responses {
        let correlation = response.correlation.to_be_bytes();
        let Some((code, offending)) = &response.fault else {
            push_parameter(out, ParameterType::ADDRESS_SUCCESS, &correlation);
            continue;
        };
        let parameter = begin_parameter(out, ParameterType::ADDRESS_ERROR);
        out.extend(correlation);
        Cause {
            code: *code,
            value: offending,
        }
        .push(out);
        end_parameter(out, parameter);
    }
    end_chunk(out, start);
}
