//! Options of SCTP (level 132): those of the driver of the study of 2007 that an engine of ours can honour, with
//! that driver's numbers. Times are in milliseconds.

mod structures;

pub use structures::{SctpPath, SctpPathOptions, SctpStatus};

use crate::options::{self, Key, key};
use crate::tpi::{
    OptionStatus, OptionsAction, Primitive, TransportOption, level, parse_options, write_options,
};
use std::ops::RangeInclusive;
use structures::Structure;

/// Names of options within the level.
pub mod name {
    /// 1 when short messages do not wait for others (T_SCTP_NODELAY).
    pub const NODELAY: u32 = 1;
    /// The payload protocol identifier of messages (T_SCTP_PPI).
    pub const PPI: u32 = 3;
    /// The stream of messages (T_SCTP_SID).
    pub const SID: u32 = 4;
    /// 1 when messages come with their options (T_SCTP_RECVOPT).
    pub const RECVOPT: u32 = 7;
    /// How long a state cookie is valid (T_SCTP_COOKIE_LIFE).
    pub const COOKIE_LIFE: u32 = 8;
    /// The longest delay of an acknowledgement (T_SCTP_SACK_DELAY).
    pub const SACK_DELAY: u32 = 9;
    /// Timeouts in a row that a path survives (T_SCTP_PATH_MAX_RETRANS).
    pub const PATH_MAX_RETRANS: u32 = 10;
    /// Timeouts in a row that an association survives (T_SCTP_ASSOC_MAX_RETRANS).
    pub const ASSOC_MAX_RETRANS: u32 = 11;
    /// Repeats of an INIT or a COOKIE-ECHO (T_SCTP_MAX_INIT_RETRIES).
    pub const MAX_INIT_RETRIES: u32 = 12;
    /// Silence before a path is probed; 0 for never (T_SCTP_HEARTBEAT_ITVL).
    pub const HEARTBEAT_ITVL: u32 = 13;
    /// The retransmission timeout before a round trip was measured (T_SCTP_RTO_INITIAL).
    pub const RTO_INITIAL: u32 = 14;
    /// The shortest one (T_SCTP_RTO_MIN).
    pub const RTO_MIN: u32 = 15;
    /// The longest one (T_SCTP_RTO_MAX).
    pub const RTO_MAX: u32 = 16;
    /// Streams to send on (T_SCTP_OSTREAMS).
    pub const OSTREAMS: u32 = 17;
    /// Streams that the peer may send on (T_SCTP_ISTREAMS).
    pub const ISTREAMS: u32 = 18;
    /// The checksum: 1 for CRC-32c; read-only (T_SCTP_CKSUM_TYPE).
    pub const CKSUM_TYPE: u32 = 22;
    /// A number that the peer's user is told; 0 unless set (T_SCTP_ALI).
    pub const ALI: u32 = 24;
    /// 1 when messages may be given up, if the peer agrees (T_SCTP_PR).
    pub const PR: u32 = 30;
    /// How long a message is tried; 0 for as long as the association lives (T_SCTP_LIFETIME).
    pub const LIFETIME: u32 = 31;
    /// Packets sent at one opportunity at most; 0 for no limit (T_SCTP_MAX_BURST).
    pub const MAX_BURST: u32 = 33;
    /// Heartbeats of the paths, a structure (T_SCTP_HB).
    pub const HB: u32 = 34;
    /// Timeouts of the paths, a structure (T_SCTP_RTO).
    pub const RTO: u32 = 35;
    /// Octets of a user that a packet carries at most; read-only (T_SCTP_MAXSEG).
    pub const MAXSEG: u32 = 36;
    /// The state of the association, a structure; read-only (T_SCTP_STATUS).
    pub const STATUS: u32 = 37;
}

/// What a message says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageOptions {
    /// Its stream.
    pub stream: u16,
    /// Its payload protocol identifier; 0 for none.
    pub ppid: u32,
    /// How long it is tried, ms; 0 for as long as the association lives. Not of messages received.
    pub lifetime_ms: u32,
    /// It may overtake others of its stream: expedited data, in XTI's words.
    pub unordered: bool,
}

/// Options of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SctpOptions {
    /// What messages say of themselves unless their sender says otherwise; never unordered.
    pub message: MessageOptions,
    /// Messages come with their options (T_OPTDATA_IND).
    pub reports_options: bool,
    /// Short messages do not wait for others.
    pub no_delay: bool,
    /// How long a state cookie is valid.
    pub cookie_life_ms: u32,
    /// The longest delay of an acknowledgement.
    pub sack_delay_ms: u32,
    /// Timeouts in a row that a path survives.
    pub path_retries: u32,
    /// Timeouts in a row that an association survives.
    pub association_retries: u32,
    /// Repeats of an INIT or a COOKIE-ECHO.
    pub init_retries: u32,
    /// Silence before a path is probed; 0 for never.
    pub heartbeat_ms: u32,
    /// The retransmission timeout before a round trip was measured.
    pub rto_initial_ms: u32,
    /// The shortest one.
    pub rto_min_ms: u32,
    /// The longest one.
    pub rto_max_ms: u32,
    /// Streams to send on.
    pub outbound_streams: u16,
    /// Streams that the peer may send on.
    pub inbound_streams: u16,
    /// A number that the peer's user is told.
    pub adaptation: Option<u32>,
    /// Messages may be given up, if the peer agrees.
    pub partial_reliability: bool,
    /// Packets sent at one opportunity at most; 0 for no limit.
    pub max_burst: u32,
    /// Octets of a user that a packet carries at most.
    pub segment_max: u32,
}

impl SctpOptions {
    /// Whether the bounds of the timeout are in order.
    fn is_in_order(&self) -> bool {
        self.rto_min_ms <= self.rto_max_ms
    }
}

/// When the user may change an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Changes {
    /// Always; it says something of messages, which a byte stream has none of.
    OfMessages,
    /// While no engine runs that has it: it is one of all associations of an engine.
    BeforeEngine,
    Never,
}

/// An option.
struct Row {
    name: u32,
    values: RangeInclusive<u32>,
    changes: Changes,
    get: fn(&SctpOptions) -> u32,
    set: fn(&mut SctpOptions, u32),
}

/// A row whose value is a field.
macro_rules! field {
    ($name:ident, $values:expr, $changes:ident, $($field:ident).+) => {
        Row {
            name: name::$name,
            values: $values,
            changes: Changes::$changes,
            get: |options| u32::from(options.$($field).+),
            // Bounded by the values.
            set: |options, value| options.$($field).+ = value as _,
        }
    };
}

/// The same of a switch.
macro_rules! switch {
    ($name:ident, $changes:ident, $field:ident) => {
        Row {
            name: name::$name,
            values: 0..=1,
            changes: Changes::$changes,
            get: |options| u32::from(options.$field),
            set: |options, value| options.$field = value == 1,
        }
    };
}

const MS_PER_DAY: u32 = 24 * 3600 * 1000;

/// The longest delay of an acknowledgement that RFC 9260 section 6.2 allows.
const SACK_DELAY_MAX_MS: u32 = 500;

const RETRIES_MAX: u32 = 1000;

/// All options that there are.
const ROWS: &[Row] = &[
    switch!(NODELAY, BeforeEngine, no_delay),
    field!(PPI, 0..=u32::MAX, OfMessages, message.ppid),
    field!(SID, 0..=65_534, OfMessages, message.stream),
    switch!(RECVOPT, OfMessages, reports_options),
    field!(COOKIE_LIFE, 1..=MS_PER_DAY, BeforeEngine, cookie_life_ms),
    field!(
        SACK_DELAY,
        0..=SACK_DELAY_MAX_MS,
        BeforeEngine,
        sack_delay_ms
    ),
    field!(
        PATH_MAX_RETRANS,
        0..=RETRIES_MAX,
        BeforeEngine,
        path_retries
    ),
    field!(
        ASSOC_MAX_RETRANS,
        0..=RETRIES_MAX,
        BeforeEngine,
        association_retries
    ),
    field!(
        MAX_INIT_RETRIES,
        0..=RETRIES_MAX,
        BeforeEngine,
        init_retries
    ),
    field!(HEARTBEAT_ITVL, 0..=MS_PER_DAY, BeforeEngine, heartbeat_ms),
    field!(RTO_INITIAL, 1..=MS_PER_DAY, BeforeEngine, rto_initial_ms),
    field!(RTO_MIN, 1..=MS_PER_DAY, BeforeEngine, rto_min_ms),
    field!(RTO_MAX, 1..=MS_PER_DAY, BeforeEngine, rto_max_ms),
    field!(OSTREAMS, 1..=65_535, BeforeEngine, outbound_streams),
    field!(ISTREAMS, 1..=65_535, BeforeEngine, inbound_streams),
    Row {
        name: name::CKSUM_TYPE,
        values: 1..=1,
        changes: Changes::Never,
        get: |_| 1,
        set: |_, _| {},
    },
    Row {
        name: name::ALI,
        values: 0..=u32::MAX,
        changes: Changes::BeforeEngine,
        get: |options| options.adaptation.unwrap_or(0),
        set: |options, value| options.adaptation = Some(value),
    },
    switch!(PR, BeforeEngine, partial_reliability),
    field!(LIFETIME, 0..=MS_PER_DAY, OfMessages, message.lifetime_ms),
    field!(MAX_BURST, 0..=u32::MAX, BeforeEngine, max_burst),
    field!(MAXSEG, 0..=u32::MAX, Never, segment_max),
];

/// Options that a single message may have.
const OF_MESSAGE: [u32; 3] = [name::PPI, name::SID, name::LIFETIME];

fn row(option: &TransportOption) -> Option<&'static Row> {
    let (of_level, name) = key(option);
    row_of(name).filter(|_| of_level == level::INET_SCTP)
}

fn row_of(name: u32) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.name == name)
}

/// What a request leaves, if it is taken.
struct Wanted {
    options: SctpOptions,
    /// Paths of the association, where there is one.
    paths: Vec<SctpPath>,
}

impl Wanted {
    fn is_in_order(&self, before: &[SctpPath]) -> bool {
        let mut changed = changed_paths(&self.paths, before);
        self.options.is_in_order() && changed.all(|path| path.options.is_in_order())
    }
}

/// Paths that are not as they were.
fn changed_paths<'a>(
    paths: &'a [SctpPath],
    before: &'a [SctpPath],
) -> impl Iterator<Item = &'a SctpPath> {
    let both = paths.iter().zip(before);
    both.filter(|(path, before)| path != before)
        .map(|(path, _)| path)
}

/// What decides whether options may change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Situation<'a> {
    /// What a new endpoint has.
    pub(crate) default: &'a SctpOptions,
    /// What the engine of the endpoint has, where it has one already.
    pub(crate) engine: Option<&'a SctpOptions>,
    /// How its association stands, where it has one.
    pub(crate) status: Option<&'a SctpStatus>,
    /// Boundaries of messages are kept.
    pub(crate) keeps_messages: bool,
}

impl Situation<'_> {
    /// What changes of an option there may be now; None where the endpoint has no such option.
    fn permitted(&self, option: &TransportOption) -> Option<OptionStatus> {
        Some(match row(option)?.changes {
            Changes::OfMessages if !self.keeps_messages => return None,
            Changes::BeforeEngine if self.engine.is_some() => OptionStatus::ReadOnly,
            Changes::Never => OptionStatus::ReadOnly,
            Changes::OfMessages | Changes::BeforeEngine => OptionStatus::Success,
        })
    }

    /// The options as they are: what messages say is the user's, the rest the engine's.
    fn current(&self, user: &SctpOptions) -> SctpOptions {
        let engine = self.engine.unwrap_or(user);
        SctpOptions {
            message: user.message,
            reports_options: user.reports_options,
            ..*engine
        }
    }

    /// The value that a request asks for; None when it is none for the option.
    fn wanted(&self, row: &Row, request: &TransportOption) -> Option<u32> {
        if request.value.is_empty() {
            return Some((row.get)(self.default));
        }
        let value = options::number_in(&request.value)?;
        let streams = self.engine.map(|engine| engine.outbound_streams);
        let is_stream = row.name != name::SID || streams.is_none_or(|all| value < u32::from(all));
        (row.values.contains(&value) && is_stream).then_some(value)
    }

    /// The answer to a request of one option; what is wanted is put into `user`, also when it is only checked.
    fn manage(
        &self,
        wanted: &mut Wanted,
        request: &TransportOption,
        action: OptionsAction,
    ) -> TransportOption {
        if let Some(structure) = Structure::of(request) {
            return structures::manage(structure, self, (wanted, request), action);
        }
        let user = &mut wanted.options;
        let mut answer = request.clone();
        let (Some(row), Some(permitted)) = (row(request), self.permitted(request)) else {
            answer.status = Some(OptionStatus::NotSupported);
            return answer;
        };
        let value_in = |options: &SctpOptions| octets_in(request, (row.get)(options));
        let (status, value) = match action {
            OptionsAction::Default => (permitted, value_in(self.default)),
            OptionsAction::Check if request.value.is_empty() => (permitted, Vec::new()),
            _ if action == OptionsAction::Current || permitted == OptionStatus::ReadOnly => {
                (permitted, value_in(&self.current(user)))
            }
            _ => match self.wanted(row, request) {
                Some(wanted) => {
                    (row.set)(user, wanted);
                    (permitted, octets_in(request, wanted))
                }
                None => (OptionStatus::Failure, request.value.clone()),
            },
        };
        (answer.status, answer.value) = (Some(status), value);
        answer
    }
}

/// A number in as many octets as the request has.
fn octets_in(request: &TransportOption, number: u32) -> Vec<u8> {
    options::octets_of(request.value.len(), number)
}

/// The answer to T_OPTMGMT_REQ of a provider of SCTP, and the paths whose options change with it; `user` is what the
/// user has set.
pub(crate) fn answer(
    octets: &[u8],
    flags: u32,
    user: &mut SctpOptions,
    situation: Situation<'_>,
) -> (Primitive, Vec<SctpPath>) {
    let before = situation.status.map_or(&[][..], |status| &status.paths);
    let mut changed = Vec::new();
    let known: Vec<Key> = ROWS
        .iter()
        .filter(|row| row.changes != Changes::OfMessages || situation.keeps_messages)
        .map(|row| (level::INET_SCTP, row.name))
        .collect();
    let answer = options::answer(octets, flags, &known, |requests, action| {
        let mut wanted = Wanted {
            options: *user,
            paths: before.to_vec(),
        };
        let mut answers: Vec<_> = requests
            .iter()
            .map(|request| situation.manage(&mut wanted, request, action))
            .collect();
        // All of a request is taken, or nothing.
        match wanted.is_in_order(before) {
            false => fail_all(&mut answers),
            true if action == OptionsAction::Negotiate => {
                *user = wanted.options;
                changed.extend(changed_paths(&wanted.paths, before));
            }
            true => {}
        }
        Ok(answers)
    });
    (answer, changed)
}

fn fail_all(answers: &mut [TransportOption]) {
    for answer in answers {
        if answer.status == Some(OptionStatus::Success) {
            answer.status = Some(OptionStatus::Failure);
        }
    }
}

/// What a message says whose sender gave these options; None when one is none of a message (TBADOPT).
pub(crate) fn message_options(octets: &[u8]) -> Option<MessageOptions> {
    let mut said = SctpOptions::default();
    for option in parse_options(octets)? {
        let row = row(&option).filter(|row| OF_MESSAGE.contains(&row.name))?;
        let value = options::number_in(&option.value).filter(|value| row.values.contains(value))?;
        (row.set)(&mut said, value);
    }
    Some(said.message)
}

/// What an endpoint's messages say, as options that [`message_options`] reads; None for nothing.
pub(crate) fn said_with_messages(message: MessageOptions) -> Option<Vec<u8>> {
    if message == MessageOptions::default() {
        return None;
    }
    let life = number_option(name::LIFETIME, message.lifetime_ms);
    let mut options = of_message(message);
    options.push(life);
    Some(write_options(&options))
}

/// What came with a message, as options.
pub(crate) fn of_message(message: MessageOptions) -> Vec<TransportOption> {
    let numbers = [
        (name::PPI, message.ppid),
        (name::SID, message.stream.into()),
    ];
    numbers
        .map(|(name, number)| number_option(name, number))
        .into()
}

fn number_option(name: u32, number: u32) -> TransportOption {
    TransportOption {
        level: level::INET_SCTP,
        name,
        status: Some(OptionStatus::Success),
        value: number.to_ne_bytes().to_vec(),
    }
}
