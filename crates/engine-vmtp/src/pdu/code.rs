//! Codes of Responses and of notifications (RFC 1045 section 2.13).

use std::fmt;

/// What became of a Request, or of a Response. From [`ResponseCode::APPLICATION`] on, codes are the
/// user's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResponseCode(pub u32);

impl ResponseCode {
    /// It was received, or answered.
    pub const OK: ResponseCode = ResponseCode(0);
    /// Send the blocks that are missing.
    pub const RETRY: ResponseCode = ResponseCode(1);
    /// Send everything, and all later groups.
    pub const RETRY_ALL: ResponseCode = ResponseCode(2);
    /// There is no room; send it again later.
    pub const BUSY: ResponseCode = ResponseCode(3);
    /// There is no such entity.
    pub const NONEXISTENT_ENTITY: ResponseCode = ResponseCode(4);
    /// The entity is at another host.
    pub const ENTITY_MIGRATED: ResponseCode = ResponseCode(5);
    /// The entity refuses the call.
    pub const NO_PERMISSION: ResponseCode = ResponseCode(6);
    /// The receiver was not waiting.
    pub const NOT_AWAITING_MSG: ResponseCode = ResponseCode(7);
    /// The packet is malformed, or breaks a rule.
    pub const VMTP_ERROR: ResponseCode = ResponseCode(8);
    /// Too many transactions are outstanding.
    pub const MSGTRANS_OVERFLOW: ResponseCode = ResponseCode(9);
    /// No such transaction.
    pub const BAD_TRANSACTION_ID: ResponseCode = ResponseCode(10);
    /// The receiver takes one group a time.
    pub const STREAMING_NOT_SUPPORTED: ResponseCode = ResponseCode(11);
    /// The receiver does not know the run.
    pub const NO_RUN_RECORD: ResponseCode = ResponseCode(12);
    /// The other side did not answer.
    pub const RETRANS_TIMEOUT: ResponseCode = ResponseCode(13);
    /// The user's time is over.
    pub const USER_TIMEOUT: ResponseCode = ResponseCode(14);
    /// The Response is kept no longer.
    pub const RESPONSE_DISCARDED: ResponseCode = ResponseCode(15);
    /// Encrypted packets are not understood.
    pub const SECURITY_NOT_SUPPORTED: ResponseCode = ResponseCode(16);
    /// Only a part of the Response came.
    pub const BAD_REPLY_SEGMENT: ResponseCode = ResponseCode(17);
    /// The first code of users.
    pub const APPLICATION: ResponseCode = ResponseCode(0x0080_0000);
    /// The largest: a code has 24 bits.
    pub const MAX: ResponseCode = ResponseCode(0x00ff_ffff);
}

/// Names of the codes from 0 on.
const NAMES: [&str; 25] = [
    "OK",
    "RETRY",
    "RETRY_ALL",
    "BUSY",
    "NONEXISTENT_ENTITY",
    "ENTITY_MIGRATED",
    "NO_PERMISSION",
    "NOT_AWAITING_MSG",
    "VMTP_ERROR",
    "MSGTRANS_OVERFLOW",
    "BAD_TRANSACTION_ID",
    "STREAMING_NOT_SUPPORTED",
    "NO_RUN_RECORD",
    "RETRANS_TIMEOUT",
    "USER_TIMEOUT",
    "RESPONSE_DISCARDED",
    "SECURITY_NOT_SUPPORTED",
    "BAD_REPLY_SEGMENT",
    "SECURITY_REQUIRED",
    "STREAMED_RESPONSE",
    "TOO_MANY_RETRIES",
    "NO_PRINCIPAL",
    "NO_KEY",
    "ENCRYPTION_NOT_SUPPORTED",
    "NO_AUTHENTICATOR",
];

impl fmt::Display for ResponseCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.get(self.0 as usize) {
            Some(name) => f.write_str(name),
            None => write!(f, "code {:#x}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_named_as_in_the_rfc() {
        assert_eq!(
            ResponseCode::BAD_REPLY_SEGMENT.to_string(),
            "BAD_REPLY_SEGMENT"
        );
        assert_eq!(ResponseCode(24).to_string(), "NO_AUTHENTICATOR");
        assert_eq!(ResponseCode::APPLICATION.to_string(), "code 0x800000");
    }
}
