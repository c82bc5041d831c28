//! DIAG packets (XTP 4.0 s. 4).

use super::u32_at;

/// DIAG code: what failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiagCode(pub u32);

impl DiagCode {
    /// The context was refused.
    pub const REFUSED: DiagCode = DiagCode(1);
    /// The context was abandoned.
    pub const ABANDONED: DiagCode = DiagCode(2);
    /// No such context.
    pub const INVALID_CONTEXT: DiagCode = DiagCode(3);
    /// A request was refused.
    pub const REQUEST_REFUSED: DiagCode = DiagCode(4);
    /// A packet broke the protocol.
    pub const PROTOCOL_ERROR: DiagCode = DiagCode(6);
}

/// DIAG value: the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiagValue(pub u32);

impl DiagValue {
    /// No reason given.
    pub const UNSPECIFIED: DiagValue = DiagValue(0);
    /// No listener.
    pub const NO_LISTENER: DiagValue = DiagValue(1);
    /// The address format is not supported.
    pub const ADDRESS_FORMAT: DiagValue = DiagValue(3);
    /// The address segment is malformed.
    pub const MALFORMED_ADDRESS: DiagValue = DiagValue(4);
    /// The format of the traffic specifier is not supported.
    pub const TRAFFIC_FORMAT: DiagValue = DiagValue(5);
    /// The traffic specifier is malformed.
    pub const MALFORMED_TRAFFIC: DiagValue = DiagValue(7);
    /// No provider for the service.
    pub const NO_PROVIDER: DiagValue = DiagValue(8);
    /// No resources.
    pub const NO_RESOURCE: DiagValue = DiagValue(9);
}

/// The body of a DIAG.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Diag<'a> {
    /// DIAG code: what failed.
    pub code: DiagCode,
    /// DIAG value: the reason.
    pub value: DiagValue,
    /// Text for humans: the rest of the packet, including a final zero.
    pub text: &'a [u8],
}

impl<'a> Diag<'a> {
    pub(super) fn parse(body: &'a [u8]) -> Option<Diag<'a>> {
        Some(Diag {
            code: DiagCode(u32_at(body, 0)?),
            value: DiagValue(u32_at(body, 4)?),
            text: &body[8..],
        })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.code.0.to_be_bytes());
        out.extend_from_slice(&self.value.0.to_be_bytes());
        out.extend_from_slice(self.text);
    }
}
