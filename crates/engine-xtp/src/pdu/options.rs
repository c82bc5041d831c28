//! The option bits of a header (XTP 4.0 s. 5).

use core::fmt::{Display, Formatter};
use core::ops::{BitOr, BitOrAssign};

/// The 24 option bits of a packet.
///
/// Bits without a name are sent as zero and ignored on receipt, but kept by the codec.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options(pub u32);

impl Options {
    /// No option.
    pub const NONE: Options = Options(0);
    /// The checksum covers the header only.
    pub const NOCHECK: Options = Options(0x40_0000);
    /// Status requests are answered when the bit changes, not each time it is seen.
    pub const EDGE: Options = Options(0x20_0000);
    /// No error control: nothing is retransmitted, gaps are delivered as gaps.
    pub const NOERR: Options = Options(0x10_0000);
    /// The packet belongs to a multicast association.
    pub const MULTI: Options = Options(0x08_0000);
    /// Reservation: the allocation counts only posted buffers.
    pub const RES: Options = Options(0x04_0000);
    /// The sort field is valid.
    pub const SORT: Options = Options(0x02_0000);
    /// The sender ignores the allocation.
    pub const NOFLOW: Options = Options(0x01_0000);
    /// The receiver reports a gap at once.
    pub const FASTNAK: Options = Options(0x00_8000);
    /// Status request: answered with a control packet at once.
    pub const SREQ: Options = Options(0x00_4000);
    /// Delivery status request: answered when the user consumed everything up to here.
    pub const DREQ: Options = Options(0x00_2000);
    /// The sender of the packet received the complete stream.
    pub const RCLOSE: Options = Options(0x00_1000);
    /// The outgoing stream ends with the last byte of the packet.
    pub const WCLOSE: Options = Options(0x00_0800);
    /// A message ends with the last byte of the packet.
    pub const EOM: Options = Options(0x00_0400);
    /// The context is released at once; no answer is expected.
    pub const END: Options = Options(0x00_0200);
    /// The data begin with a tag of eight octets.
    pub const BTAG: Options = Options(0x00_0100);

    /// The data end with a tag of eight octets (XTP 3.x only).
    pub const ETAG: Options = Options(0x80_0000);

    /// Whether every bit of `other` is set.
    pub const fn has(self, other: Options) -> bool {
        self.0 & other.0 == other.0
    }

    /// These options, and `other` if `on`.
    #[must_use]
    pub const fn with(self, other: Options, on: bool) -> Options {
        if on { Options(self.0 | other.0) } else { self }
    }
}

/// Names of the bits, highest first.
const NAMES: [(Options, &str); 16] = [
    (Options::NOCHECK, "NOCHECK"),
    (Options::EDGE, "EDGE"),
    (Options::NOERR, "NOERR"),
    (Options::MULTI, "MULTI"),
    (Options::RES, "RES"),
    (Options::SORT, "SORT"),
    (Options::NOFLOW, "NOFLOW"),
    (Options::FASTNAK, "FASTNAK"),
    (Options::SREQ, "SREQ"),
    (Options::DREQ, "DREQ"),
    (Options::RCLOSE, "RCLOSE"),
    (Options::WCLOSE, "WCLOSE"),
    (Options::EOM, "EOM"),
    (Options::END, "END"),
    (Options::BTAG, "BTAG"),
    (Options::ETAG, "ETAG"),
];

impl Display for Options {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        let set = NAMES.iter().filter(|(bit, _)| self.has(*bit));
        let names: Vec<&str> = set.map(|(_, name)| *name).collect();
        write!(f, "[{}]", names.join(" "))
    }
}

impl BitOr for Options {
    type Output = Options;

    fn bitor(self, other: Options) -> Options {
        Options(self.0 | other.0)
    }
}

impl BitOrAssign for Options {
    fn bitor_assign(&mut self, other: Options) {
        self.0 |= other.0;
    }
}
