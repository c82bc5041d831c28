//! RE-CONFIG: streams begin anew, or become more (RFC 6525 sections 3.1 and 4).

use super::chunk::{begin_chunk, end_chunk};
use super::parameter::{Parameter, ParameterType, parameters, push_parameter};
use super::{ChunkType, u16_at, u32_at};
use crate::numbers::{StreamId, Tsn};

/// Parameters of a chunk at most (RFC 6525 section 3.1).
pub const PARAMETERS_MAX: usize = 2;

/// Octets of a chunk with the longest parameter without streams.
pub const RE_CONFIG_LEN: usize = 4 + 16;

/// Numbers the requests of one end; the first has the number of its first TSN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestNumber(pub u32);

impl RequestNumber {
    /// That of the request `count` further.
    pub fn plus(self, count: u32) -> RequestNumber {
        RequestNumber(self.0.wrapping_add(count))
    }
}

/// What became of a request (RFC 6525 section 4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReconfigResult(pub u32);

impl ReconfigResult {
    /// There was nothing to do.
    pub const NOTHING_TO_DO: ReconfigResult = ReconfigResult(0);
    /// It was done.
    pub const PERFORMED: ReconfigResult = ReconfigResult(1);
    /// The peer does not want it.
    pub const DENIED: ReconfigResult = ReconfigResult(2);
    /// A stream does not exist.
    pub const WRONG_SSN: ReconfigResult = ReconfigResult(3);
    /// Another request comes first.
    pub const ALREADY_IN_PROGRESS: ReconfigResult = ReconfigResult(4);
    /// The request has none of the numbers that may come.
    pub const BAD_SEQUENCE_NUMBER: ReconfigResult = ReconfigResult(5);
    /// It is to be done once data have arrived; the peer asks again.
    pub const IN_PROGRESS: ReconfigResult = ReconfigResult(6);
}

/// Streams, by their numbers; none of them stands for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamList<'a>(&'a [u8]);

impl<'a> StreamList<'a> {
    fn parse(octets: &'a [u8]) -> Option<StreamList<'a>> {
        octets.len().is_multiple_of(2).then_some(StreamList(octets))
    }

    /// In their order; one may be named more than once.
    pub fn iter(&self) -> impl Iterator<Item = StreamId> + use<'a> {
        let (all, _) = self.0.as_chunks::<2>();
        all.iter()
            .map(|octets| StreamId(u16::from_be_bytes(*octets)))
    }
}

/// A parameter of RE-CONFIG.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReconfigParameter<'a> {
    /// The sender begins anew to number messages of its streams.
    ResetOutgoing {
        /// The number of this request.
        number: RequestNumber,
        /// The number of the request that asked for it; else one less than the peer's next.
        response: RequestNumber,
        /// The last TSN before it.
        last_tsn: Tsn,
        /// Which.
        streams: StreamList<'a>,
    },
    /// The sender wants its peer to do that.
    ResetIncoming {
        /// The number of this request.
        number: RequestNumber,
        /// Which.
        streams: StreamList<'a>,
    },
    /// All streams and TSNs of both directions begin anew.
    ResetAssociation {
        /// The number of this request.
        number: RequestNumber,
    },
    /// The sender wants so many more streams to send on.
    AddOutgoing {
        /// The number of this request.
        number: RequestNumber,
        /// How many more.
        count: u16,
    },
    /// The sender wants its peer to have so many more streams to send on.
    AddIncoming {
        /// The number of this request.
        number: RequestNumber,
        /// How many more.
        count: u16,
    },
    /// Answers a request.
    Response {
        /// The number of the request.
        number: RequestNumber,
        /// What became of it.
        result: ReconfigResult,
    },
}

impl<'a> ReconfigParameter<'a> {
    /// The parameters of a chunk's value; None if one is broken or unknown, or there are none or too
    /// many.
    pub fn parse_all(value: &'a [u8]) -> Option<Vec<ReconfigParameter<'a>>> {
        let found: Option<Vec<_>> = parameters(value)
            .take(PARAMETERS_MAX + 1)
            .map(|parameter| ReconfigParameter::parse(&parameter))
            .collect();
        found.filter(|found| (1..=PARAMETERS_MAX).contains(&found.len()))
    }

    fn parse(parameter: &Parameter<'a>) -> Option<ReconfigParameter<'a>> {
        let value = parameter.value;
        let number = RequestNumber(u32_at(value, 0)?);
        Some(match parameter.kind {
            ParameterType::RESET_OUTGOING => ReconfigParameter::ResetOutgoing {
                number,
                response: RequestNumber(u32_at(value, 4)?),
                last_tsn: Tsn(u32_at(value, 8)?),
                streams: StreamList::parse(value.get(12..)?)?,
            },
            ParameterType::RESET_INCOMING => ReconfigParameter::ResetIncoming {
                number,
                streams: StreamList::parse(value.get(4..)?)?,
            },
            ParameterType::RESET_ASSOCIATION => ReconfigParameter::ResetAssociation { number },
            ParameterType::ADD_OUTGOING => ReconfigParameter::AddOutgoing {
                number,
                count: u16_at(value, 4)?,
            },
            ParameterType::ADD_INCOMING => ReconfigParameter::AddIncoming {
                number,
                count: u16_at(value, 4)?,
            },
            ParameterType::RECONFIG_RESPONSE => ReconfigParameter::Response {
                number,
                result: ReconfigResult(u32_at(value, 4)?),
            },
            _ => return None,
        })
    }
}

/// Appends a RE-CONFIG with one request to reset streams of the sender.
pub fn push_reset_outgoing(
    out: &mut Vec<u8>,
    (number, response): (RequestNumber, RequestNumber),
    last_tsn: Tsn,
    streams: &[StreamId],
) {
    let mut value = Vec::new();
    value.extend(number.0.to_be_bytes());
    value.extend(response.0.to_be_bytes());
    value.extend(last_tsn.0.to_be_bytes());
    push_streams(&mut value, streams);
    push_one(out, ParameterType::RESET_OUTGOING, &value);
}

/// Appends a RE-CONFIG with one request to reset streams of its receiver.
pub fn push_reset_incoming(out: &mut Vec<u8>, number: RequestNumber, streams: &[StreamId]) {
    let mut value = number.0.to_be_bytes().to_vec();
    push_streams(&mut value, streams);
    push_one(out, ParameterType::RESET_INCOMING, &value);
}

/// Appends a RE-CONFIG with a request for `count` more streams of the sender, or of its receiver.
pub fn push_add_streams(out: &mut Vec<u8>, number: RequestNumber, count: u16, incoming: bool) {
    let mut value = number.0.to_be_bytes().to_vec();
    value.extend(count.to_be_bytes());
    value.extend([0; 2]);
    let kind = match incoming {
        true => ParameterType::ADD_INCOMING,
        false => ParameterType::ADD_OUTGOING,
    };
    push_one(out, kind, &value);
}

/// Appends a RE-CONFIG with answers, one or two.
pub fn push_responses(out: &mut Vec<u8>, responses: &[(RequestNumber, ReconfigResult)]) {
    let start = begin_chunk(out, ChunkType::RE_CONFIG, 0);
    for (number, result) in responses {
        let value = [number.0.to_be_bytes(), result.0.to_be_bytes()].concat();
        push_parameter(out, ParameterType::RECONFIG_RESPONSE, &value);
    }
    end_chunk(out, start);
}

fn push_streams(value: &mut Vec<u8>, streams: &[StreamId]) {
    value.extend(streams.iter().flat_map(|stream| stream.0.to_be_bytes()));
}

fn push_one(out: &mut Vec<u8>, kind: ParameterType, value: &[u8]) {
    let start = begin_chunk(out, ChunkType::RE_CONFIG, 0);
    push_parameter(out, kind, value);
    end_chunk(out, start);
}
