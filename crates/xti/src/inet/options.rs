//! Options of the user (T_OPTMGMT_REQ) on the kernel's sockets. Before there is a socket they are kept
//! for it; what a new endpoint has is read from a socket made for the question.

use crate::options::{self, Key, OPTIONS_MAX, key};
use crate::tpi::{
    ALL_OPTIONS, Event, OptionStatus, OptionsAction, Primitive, TransportOption, level, name,
    parse_options,
};
use socket2::{Socket, TcpKeepalive};
use std::io;
use std::time::Duration;
use wire_udp::sys::IpMarks;

/// A value: one number, or the two words of `t_linger` and `t_kpalive`.
type Value = [u32; 2];

const TCP: &[Key] = &[
    (level::XTI_GENERIC, name::LINGER),
    (level::XTI_GENERIC, name::SNDBUF),
    (level::XTI_GENERIC, name::RCVBUF),
    (level::INET_TCP, name::NODELAY),
    (level::INET_TCP, name::MAXSEG),
    (level::INET_TCP, name::KEEPALIVE),
    (level::INET_IP, name::TOS),
    (level::INET_IP, name::TTL),
    (level::INET_IP, name::REUSEADDR),
];

const UDP: &[Key] = &[
    (level::XTI_GENERIC, name::SNDBUF),
    (level::XTI_GENERIC, name::RCVBUF),
    (level::INET_IP, name::TOS),
    (level::INET_IP, name::TTL),
    (level::INET_IP, name::REUSEADDR),
    (level::INET_IP, name::BROADCAST),
];

const UNIX: &[Key] = &[
    (level::XTI_GENERIC, name::SNDBUF),
    (level::XTI_GENERIC, name::RCVBUF),
];

/// The options of a provider.
pub(super) struct SocketOptions {
    known: &'static [Key],
    /// What the user has set: sockets that are made get it.
    wanted: Vec<(Key, Value)>,
}

impl SocketOptions {
    /// Those of TCP.
    pub(super) fn tcp() -> SocketOptions {
        SocketOptions {
            known: TCP,
            wanted: Vec::new(),
        }
    }

    /// Those of UDP.
    pub(super) fn udp() -> SocketOptions {
        SocketOptions {
            known: UDP,
            wanted: Vec::new(),
        }
    }

    /// Those of sockets of this host.
    pub(super) fn unix() -> SocketOptions {
        SocketOptions {
            known: UNIX,
            wanted: Vec::new(),
        }
    }

    /// Gives a socket what the user has set.
    pub(super) fn apply(&self, socket: &Socket) -> io::Result<()> {
        let mut wanted = self.wanted.iter();
        wanted.try_for_each(|&(key, value)| set(socket, key, value))
    }

    /// The answer to T_OPTMGMT_REQ. `plain` is a new socket without the user's options.
    pub(super) fn answer(
        &mut self,
        octets: &[u8],
        flags: u32,
        socket: Option<&Socket>,
        plain: io::Result<Socket>,
    ) -> Primitive {
        options::answer(octets, flags, self.known, |requests, action| {
            self.manage(requests, action, socket, &plain?)
        })
    }

    fn manage(
        &mut self,
        requests: &[TransportOption],
        action: OptionsAction,
        socket: Option<&Socket>,
        plain: &Socket,
    ) -> io::Result<Vec<TransportOption>> {
        let keeps = matches!(action, OptionsAction::Negotiate | OptionsAction::Current);
        let target = match socket {
            Some(socket) if keeps => socket,
            _ => plain,
        };
        // T_ALLOPT asks for the defaults: read before the user's options are on that socket.
        let defaults: Vec<_> = requests.iter().map(|one| get(plain, key(one))).collect();
        if keeps && socket.is_none() {
            self.apply(plain)?;
        }
        let answers = requests.iter().zip(defaults).map(|(request, default)| {
            let mut answer = request.clone();
            answer.status = Some(match action {
                _ if !self.known.contains(&key(request)) => OptionStatus::NotSupported,
                OptionsAction::Default | OptionsAction::Current => read(target, &mut answer)?,
                OptionsAction::Check if request.value.is_empty() => permitted(key(request)),
                OptionsAction::Check => negotiate(target, &mut answer, None)?,
                OptionsAction::Negotiate => {
                    let status = negotiate(target, &mut answer, default.ok())?;
                    self.keep(request, &answer, status);
                    status
                }
            });
            Ok(answer)
        });
        answers.collect()
    }

    /// Notes an option that was taken for sockets to come; the default needs no note.
    fn keep(&mut self, request: &TransportOption, answer: &TransportOption, status: OptionStatus) {
        let taken = matches!(status, OptionStatus::Success | OptionStatus::PartSuccess);
        let Some(value) = number_in(key(answer), &answer.value).filter(|_| taken) else {
            return;
        };
        self.wanted.retain(|(known, _)| *known != key(answer));
        if !request.value.is_empty() {
            self.wanted.push((key(answer), value));
        }
    }
}

/// Whether the options of a connect or an accept are ones (TBADOPT). They may be of several levels.
pub(super) fn of_connection(octets: &[u8]) -> Option<Vec<TransportOption>> {
    match octets {
        [] => Some(Vec::new()),
        octets if octets.len() > OPTIONS_MAX => None,
        octets => parse_options(octets).filter(|all| all.iter().all(|one| one.name != ALL_OPTIONS)),
    }
}

impl SocketOptions {
    /// Gives the socket of a connection its own options: each says then what became of it.
    pub(super) fn negotiate(&self, socket: &Socket, options: &mut [TransportOption]) {
        for option in options {
            let status = match self.known.contains(&key(option)) && !option.value.is_empty() {
                true => negotiate(socket, option, None).unwrap_or(OptionStatus::Failure),
                false => OptionStatus::NotSupported,
            };
            option.status = Some(status);
        }
    }
}

/// Options that a single datagram may have.
const OF_DATAGRAM: [Key; 2] = [(level::INET_IP, name::TOS), (level::INET_IP, name::TTL)];

/// Does something while a socket has options of one datagram: each says what became of it.
/// Fails with `Unsupported` when one was not taken; then nothing was done.
pub(super) fn with_options<T>(
    socket: &Socket,
    options: &mut [TransportOption],
    action: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    let mut before = Vec::new();
    for option in &mut *options {
        let key = key(option);
        let status = match (get(socket, key), number_in(key, &option.value)) {
            _ if !OF_DATAGRAM.contains(&key) => OptionStatus::NotSupported,
            (Ok(old), Some(new)) if set(socket, key, new).is_ok() => {
                before.push((key, old));
                OptionStatus::Success
            }
            _ => OptionStatus::Failure,
        };
        option.status = Some(status);
    }
    let done = match before.len() == options.len() {
        true => action(),
        false => Err(io::ErrorKind::Unsupported.into()),
    };
    for (key, value) in before.into_iter().rev() {
        let _ = set(socket, key, value);
    }
    done
}

/// What came with a datagram, as options.
pub(super) fn of_marks(marks: IpMarks) -> Vec<TransportOption> {
    let named = [(name::TOS, marks.tos), (name::TTL, marks.ttl)];
    let options = named.into_iter().filter_map(|(name, value)| {
        Some(TransportOption {
            level: level::INET_IP,
            name,
            status: Some(OptionStatus::Success),
            value: vec![value?],
        })
    });
    options.collect()
}

/// What the answer does to the state.
pub(crate) fn event(answer: &Primitive) -> Event {
    match answer {
        Primitive::OptionsAck { .. } => Event::OptionsAck,
        _ => Event::ErrorAck,
    }
}

/// Whether an option can be set.
fn permitted(key: Key) -> OptionStatus {
    match key {
        (level::INET_TCP, name::MAXSEG) => OptionStatus::ReadOnly,
        _ => OptionStatus::Success,
    }
}

/// Puts the value that `target` has into the option.
fn read(target: &Socket, option: &mut TransportOption) -> io::Result<OptionStatus> {
    option.value = octets_of(key(option), option.value.len(), get(target, key(option))?);
    Ok(permitted(key(option)))
}

/// Sets the option's value, or the default where it has none, and puts the value that came of it into
/// the option.
fn negotiate(
    target: &Socket,
    option: &mut TransportOption,
    default: Option<Value>,
) -> io::Result<OptionStatus> {
    let key = key(option);
    if permitted(key) == OptionStatus::ReadOnly {
        return read(target, option);
    }
    let wanted = match option.value.is_empty() {
        true => default,
        false => number_in(key, &option.value),
    };
    let Some(wanted) = wanted.filter(|&wanted| set(target, key, wanted).is_ok()) else {
        return Ok(OptionStatus::Failure);
    };
    read(target, option)?;
    let taken = is_pair(key) || number_in(key, &option.value) == Some(wanted);
    Ok(match taken {
        true => OptionStatus::Success,
        false => OptionStatus::PartSuccess,
    })
}

fn is_pair(key: Key) -> bool {
    const LINGER: Key = (level::XTI_GENERIC, name::LINGER);
    const KEEPALIVE: Key = (level::INET_TCP, name::KEEPALIVE);
    matches!(key, LINGER | KEEPALIVE)
}

/// A value in octets: two words, or a number in 1, 4 or 8 octets (programs say `long`).
fn number_in(key: Key, octets: &[u8]) -> Option<Value> {
    if is_pair(key) {
        let (first, second) = (octets.first_chunk()?, octets.last_chunk()?);
        let value = [u32::from_ne_bytes(*first), u32::from_ne_bytes(*second)];
        return (octets.len() == 8).then_some(value);
    }
    Some([options::number_in(octets)?, 0])
}

/// The octets of a value, a number in as many as the user gave it.
fn octets_of(key: Key, len: usize, value: Value) -> Vec<u8> {
    if is_pair(key) {
        return value.iter().flat_map(|word| word.to_ne_bytes()).collect();
    }
    options::octets_of(len, value[0])
}

/// Linux reserves twice what is asked for, for its own overhead, and says so (socket(7)).
const KERNEL_SHARE: usize = 2;

fn get(socket: &Socket, key: Key) -> io::Result<Value> {
    let number = match key {
        (level::XTI_GENERIC, name::LINGER) => {
            let linger = socket.linger()?;
            let seconds = linger.map_or(0, |linger| linger.as_secs() as u32);
            return Ok([u32::from(linger.is_some()), seconds]);
        }
        (level::INET_TCP, name::KEEPALIVE) => {
            let minutes = socket.tcp_keepalive_time()?.as_secs() / 60;
            return Ok([u32::from(socket.keepalive()?), minutes as u32]);
        }
        (level::XTI_GENERIC, name::SNDBUF) => (socket.send_buffer_size()? / KERNEL_SHARE) as u32,
        (level::XTI_GENERIC, name::RCVBUF) => (socket.recv_buffer_size()? / KERNEL_SHARE) as u32,
        (level::INET_TCP, name::NODELAY) => u32::from(socket.tcp_nodelay()?),
        (level::INET_TCP, name::MAXSEG) => socket.tcp_mss()?,
        (level::INET_IP, name::TOS) => socket.tos_v4()?,
        (level::INET_IP, name::TTL) => socket.ttl_v4()?,
        (level::INET_IP, name::REUSEADDR) => u32::from(socket.reuse_address()?),
        (level::INET_IP, name::BROADCAST) => u32::from(socket.broadcast()?),
        _ => return Err(io::ErrorKind::Unsupported.into()),
    };
    Ok([number, 0])
}

fn set(socket: &Socket, key: Key, value: Value) -> io::Result<()> {
    let [number, second] = value;
    let on = || match number {
        0 | 1 => Ok(number == 1),
        _ => Err(io::Error::from(io::ErrorKind::InvalidInput)),
    };
    match key {
        (level::XTI_GENERIC, name::LINGER) => {
            let seconds = i32::try_from(second).map_err(|_| io::ErrorKind::InvalidInput)?;
            let linger = Duration::from_secs(seconds as u64);
            socket.set_linger(on()?.then_some(linger))
        }
        (level::INET_TCP, name::KEEPALIVE) => {
            if on()? && second > 0 {
                let idle = Duration::from_secs(u64::from(second) * 60);
                socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(idle))?;
            }
            socket.set_keepalive(on()?)
        }
        (level::XTI_GENERIC, name::SNDBUF) => socket.set_send_buffer_size(number as usize),
        (level::XTI_GENERIC, name::RCVBUF) => socket.set_recv_buffer_size(number as usize),
        (level::INET_TCP, name::NODELAY) => socket.set_tcp_nodelay(on()?),
        (level::INET_IP, name::TOS) => socket.set_tos_v4(number),
        (level::INET_IP, name::TTL) => socket.set_ttl_v4(number),
        (level::INET_IP, name::REUSEADDR) => socket.set_reuse_address(on()?),
        (level::INET_IP, name::BROADCAST) => socket.set_broadcast(on()?),
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}
