//! The control word and the flags of a header (RFC 1045 section III).

/// The word at offset 12: control flags, counts, priority and function. Reserved bits are kept as
/// they came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Control(pub u32);

impl Control {
    /// Acknowledge the group as soon as it is received (APG).
    pub const ACKNOWLEDGE: u32 = 1 << 30;
    /// Not the first group of its run (NSR).
    pub const NOT_START: u32 = 1 << 29;
    /// Not the last group of its run (NER).
    pub const NOT_END: u32 = 1 << 28;
    /// The receiver must not ask for missing blocks (NRT).
    pub const NO_RETRANSMISSION: u32 = 1 << 27;
    /// The client is a member of the destination group (MDG).
    pub const MEMBER: u32 = 1 << 26;
    /// The message goes on in the next group of the run (CMG).
    pub const CONTINUED: u32 = 1 << 25;
    /// The next transaction is numbered 256 higher, so that a Response may use the skipped
    /// numbers (STI).
    pub const SKIP_TRANSACTIONS: u32 = 1 << 24;
    /// Responders delay their Responses randomly (DRT).
    pub const DELAY_RESPONSE: u32 = 1 << 23;
    /// A Response; a Request without it.
    pub const RESPONSE: u32 = 1;

    /// The control word of a Request with these flags.
    pub fn request(flags: u32) -> Control {
        Control(flags)
    }

    /// The control word of a Response with these flags.
    pub fn response(flags: u32) -> Control {
        Control(flags | Control::RESPONSE)
    }

    /// Whether all of these flags are set.
    pub fn has(self, flags: u32) -> bool {
        self.0 & flags == flags
    }

    /// The same with these flags set.
    pub fn with(self, flags: u32) -> Control {
        Control(self.0 | flags)
    }

    /// The same without these flags.
    pub fn without(self, flags: u32) -> Control {
        Control(self.0 & !flags)
    }

    /// Whether the packet is a Response.
    pub fn is_response(self) -> bool {
        self.has(Control::RESPONSE)
    }

    /// How often the group was sent before, modulo 8 (RetransmitCount).
    pub fn retransmit_count(self) -> u8 {
        (self.0 >> 20) as u8 & 7
    }

    /// The same with another RetransmitCount, taken modulo 8.
    pub fn with_retransmit_count(self, count: u32) -> Control {
        Control(self.0 & !(7 << 20) | (count & 7) << 20)
    }

    /// How often the request was forwarded (ForwardCount).
    pub fn forward_count(self) -> u8 {
        (self.0 >> 16) as u8 & 15
    }

    /// The same with another ForwardCount, at most 15.
    pub fn with_forward_count(self, count: u8) -> Control {
        Control(self.0 & !(15 << 16) | u32::from(count.min(15)) << 16)
    }

    /// Of a Request: the gap wanted between packets of the Response, in 1/32 of the time of a full
    /// packet (InterpacketGap). Of a Response: the packet groups before it that it answers too
    /// (PGcount).
    pub fn gap_or_group_count(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// The same with another InterpacketGap or PGcount.
    pub fn with_gap_or_group_count(self, value: u8) -> Control {
        Control(self.0 & !0xff00 | u32::from(value) << 8)
    }

    /// Four bits, of which the top one is a sign: 12 urgent, 8 important, 0 normal, 4 background.
    pub fn priority(self) -> u8 {
        (self.0 >> 4) as u8 & 15
    }

    /// The same with another priority.
    pub fn with_priority(self, priority: u8) -> Control {
        Control(self.0 & !0xf0 | u32::from(priority & 15) << 4)
    }
}

/// The octet at offset 32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// Deliver only to a receiver that waits now (CMD).
    pub const CONDITIONAL: u8 = 1 << 7;
    /// Request: a datagram, to which no Response is awaited. Response: the transaction is idempotent,
    /// and the server keeps no copy (DGM).
    pub const DATAGRAM: u8 = 1 << 6;
    /// MsgDelivery is valid: the message may be delivered in part (MDM).
    pub const PARTIAL: u8 = 1 << 5;
    /// A segment is appended (SDA).
    pub const SEGMENT: u8 = 1 << 4;
    /// CoResidentEntity is valid (CRE; Requests only).
    pub const CO_RESIDENT: u8 = 1 << 2;
    /// Several Responses are wanted (MRD; Requests only).
    pub const MANY_RESPONSES: u8 = 1 << 1;
    /// The code is of a public interface (PIC; Requests only).
    pub const PUBLIC_CODE: u8 = 1;

    /// Whether all of these are set.
    pub fn has(self, flags: u8) -> bool {
        self.0 & flags == flags
    }
}
