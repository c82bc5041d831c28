//! Options of a transport as octets: a header of four words (`struct t_opthdr`), the value, and what
//! is missing to a multiple of four octets.

/// Levels of options: who interprets them.
pub mod level {
    /// Of every provider (XTI_GENERIC).
    pub const XTI_GENERIC: u32 = 0xffff;
    /// Of IP (INET_IP).
    pub const INET_IP: u32 = 0;
    /// Of TCP (INET_TCP).
    pub const INET_TCP: u32 = 6;
    /// Of UDP (INET_UDP).
    pub const INET_UDP: u32 = 0x11;
    /// Of SCTP (T_INET_SCTP), named in [`crate::sctp::name`].
    pub const INET_SCTP: u32 = 132;
}

/// Names of options within their level.
pub mod name {
    /// XTI_GENERIC: whether and for how many seconds a close waits; two words.
    pub const LINGER: u32 = 0x80;
    /// XTI_GENERIC: octets that the provider keeps to send.
    pub const SNDBUF: u32 = 0x1001;
    /// XTI_GENERIC: octets that the provider keeps for the user.
    pub const RCVBUF: u32 = 0x1002;
    /// INET_TCP: 1 when short segments do not wait.
    pub const NODELAY: u32 = 1;
    /// INET_TCP: octets of a segment; read-only.
    pub const MAXSEG: u32 = 2;
    /// INET_TCP: whether an idle connection is probed, and after how many minutes; two words.
    pub const KEEPALIVE: u32 = 8;
    /// INET_IP: the type of service.
    pub const TOS: u32 = 3;
    /// INET_IP: the time to live.
    pub const TTL: u32 = 4;
    /// INET_IP: 1 when an address may be bound again at once.
    pub const REUSEADDR: u32 = 16;
    /// INET_IP: 1 when datagrams may go to all.
    pub const BROADCAST: u32 = 18;
}

/// The name of all options of a level (T_ALLOPT).
pub const ALL_OPTIONS: u32 = 0;

/// What is asked of options, with the flags of XTI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum OptionsAction {
    /// Take these values (T_NEGOTIATE).
    Negotiate = 0x4,
    /// Say whether these values would be taken (T_CHECK).
    Check = 0x8,
    /// Say the values of a new endpoint (T_DEFAULT).
    Default = 0x10,
    /// Say the values of this endpoint (T_CURRENT).
    Current = 0x80,
}

impl OptionsAction {
    /// The action with a flag; None for what is not exactly one.
    pub fn from_number(flags: u32) -> Option<OptionsAction> {
        use OptionsAction::*;
        [Negotiate, Check, Default, Current]
            .into_iter()
            .find(|action| *action as u32 == flags)
    }
}

/// What became of an option, with the flags of XTI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum OptionStatus {
    /// The value was taken, or is this (T_SUCCESS).
    Success = 0x20,
    /// A value was taken that is worse than the wanted one (T_PARTSUCCESS).
    PartSuccess = 0x100,
    /// The value is none for this option (T_FAILURE).
    Failure = 0x40,
    /// The option can only be read (T_READONLY).
    ReadOnly = 0x200,
    /// The provider has no such option (T_NOTSUPPORT).
    NotSupported = 0x400,
}

impl OptionStatus {
    /// From best to worst, as the result of a whole call is chosen.
    const BY_SEVERITY: [OptionStatus; 5] = [
        OptionStatus::Success,
        OptionStatus::PartSuccess,
        OptionStatus::Failure,
        OptionStatus::ReadOnly,
        OptionStatus::NotSupported,
    ];

    /// The status with a number; None for one that is none.
    pub fn from_number(number: u32) -> Option<OptionStatus> {
        let mut all = Self::BY_SEVERITY.into_iter();
        all.find(|status| *status as u32 == number)
    }

    /// The worse of two.
    pub fn worse(self, other: OptionStatus) -> OptionStatus {
        let mut from_worst = Self::BY_SEVERITY.into_iter().rev();
        from_worst
            .find(|status| [self, other].contains(status))
            .unwrap_or(self)
    }
}

/// An option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransportOption {
    /// Who interprets it ([`level`]).
    pub level: u32,
    /// Which option ([`name`]), or [`ALL_OPTIONS`].
    pub name: u32,
    /// What became of it; None in a request.
    pub status: Option<OptionStatus>,
    /// Its value in native order; empty where there is none.
    pub value: Vec<u8>,
}

/// Octets of a header.
const HEADER: usize = 16;

/// Reads options; None when a length is shorter than a header or leads outside (TBADOPT).
pub fn parse_options(mut octets: &[u8]) -> Option<Vec<TransportOption>> {
    let mut options = Vec::new();
    while !octets.is_empty() {
        let word = |index: usize| {
            let field = octets.get(index * 4..index * 4 + 4)?;
            Some(u32::from_ne_bytes(field.try_into().ok()?))
        };
        let len = word(0)? as usize;
        options.push(TransportOption {
            level: word(1)?,
            name: word(2)?,
            status: OptionStatus::from_number(word(3)?),
            value: octets.get(HEADER..len)?.to_vec(),
        });
        // The last one may end without padding.
        octets = &octets[len.next_multiple_of(4).min(octets.len())..];
    }
    Some(options)
}

/// Writes options, each padded.
pub fn write_options(options: &[TransportOption]) -> Vec<u8> {
    let mut octets = Vec::new();
    for option in options {
        let status = option.status.map_or(0, |status| status as u32);
        let len = (HEADER + option.value.len()) as u32;
        for word in [len, option.level, option.name, status] {
            octets.extend_from_slice(&word.to_ne_bytes());
        }
        octets.extend_from_slice(&option.value);
        octets.resize(octets.len().next_multiple_of(4), 0);
    }
    octets
}
