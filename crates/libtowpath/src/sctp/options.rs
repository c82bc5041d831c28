//! Socket options: those of the socket and of messages here, of associations and keys beside.

use super::association_options;
use super::calls;
use super::key_options;
use super::notifications::{self, Kind, TYPE_FIRST};
use super::octets::{Fields, Octets};
use super::settings::{
    EndpointSettings, FUTURE_ASSOC, FragmentInterleave, Medium, SendInfo, policy, reliability,
};
use super::socket::{Inner, SctpSocket, Style};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// The protocol's number, which is the level of its options.
pub(crate) const IPPROTO_SCTP: i32 = 132;

const NODELAY: i32 = 3;
const DEFAULT_SEND_PARAM: i32 = 10;
const EVENTS: i32 = 11;
const CONTEXT: i32 = 17;
const FRAGMENT_INTERLEAVE: i32 = 18;
const PARTIAL_DELIVERY_POINT: i32 = 19;
const GET_ASSOC_NUMBER: i32 = 28;
const GET_ASSOC_ID_LIST: i32 = 29;
const RECVRCVINFO: i32 = 32;
const RECVNXTINFO: i32 = 33;
const DEFAULT_SNDINFO: i32 = 34;
const DEFAULT_PRINFO: i32 = 114;
const EVENT: i32 = 127;
const REMOTE_UDP_ENCAPS_PORT: i32 = 132;

/// A text `NAME=VALUE`: an option of the transport `sctp`, or `medium=WORD`.
const TOWPATH_OPTION: i32 = 0x5854;

/// The UDP port of a listener, which others than the standard one need 0 or another number for.
const LOCAL_UDP_PORT: i32 = 0x5855;

/// Octets of the longest text of [`TOWPATH_OPTION`].
const TEXT_MAX: usize = 256;

/// Octets in front of the port of struct sctp_udpencaps: number, padding, address.
const UDPENCAPS_PORT_AT: usize = 136;

/// setsockopt(2); None for an option that the system keeps with the descriptor.
pub(crate) fn set(
    socket: &Arc<SctpSocket>,
    (level, name): (i32, i32),
    value: &[u8],
) -> io::Result<Option<()>> {
    match (level, name) {
        (IPPROTO_SCTP, _) => set_own(socket, name, value).map(Some),
        (libc::SOL_SOCKET, libc::SO_SNDBUF) => {
            let len = buffer_len(value)?;
            change_endpoint(socket, |of| of.config.send_buffer_len = len).map(Some)
        }
        (libc::SOL_SOCKET, libc::SO_RCVBUF) => {
            let len = buffer_len(value)? as u64;
            change_endpoint(socket, |of| of.config.config.receive_buffer = len).map(Some)
        }
        (libc::SOL_SOCKET, _) => Ok(None),
        _ => Err(Errno::NOPROTOOPT.into()),
    }
}

/// getsockopt(2); None for an option that the system keeps with the descriptor. `asked` is what the
/// program's buffer has: the association or the address that it asks for.
pub(crate) fn get(
    socket: &Arc<SctpSocket>,
    (level, name): (i32, i32),
    asked: &[u8],
) -> io::Result<Option<Vec<u8>>> {
    match (level, name) {
        (IPPROTO_SCTP, _) => get_own(socket, name, asked).map(Some),
        (libc::SOL_SOCKET, _) => {
            Ok(get_of_socket(socket, name).map(|value| value.to_ne_bytes().into()))
        }
        _ => Err(Errno::NOPROTOOPT.into()),
    }
}

/// The length of a buffer that a program wants: two full packets at least, 64 MiB at most.
fn buffer_len(value: &[u8]) -> io::Result<usize> {
    let len = usize::try_from(Fields(value).i32()?).map_err(|_| Errno::INVAL)?;
    Ok(len.clamp(4096, 64 << 20))
}

/// Options of SOL_SOCKET that the socket pair would answer wrongly.
fn get_of_socket(socket: &SctpSocket, name: i32) -> Option<i32> {
    let inner = socket.lock();
    let config = &inner.endpoint.config;
    Some(match name {
        libc::SO_ERROR => {
            let error = socket.link.take_error();
            error.and_then(|error| error.raw_os_error()).unwrap_or(0)
        }
        libc::SO_TYPE if socket.style == Style::OneToOne => libc::SOCK_STREAM,
        libc::SO_TYPE => libc::SOCK_SEQPACKET,
        libc::SO_DOMAIN => socket.family,
        libc::SO_PROTOCOL => IPPROTO_SCTP,
        libc::SO_ACCEPTCONN => (inner.backlog > 0).into(),
        libc::SO_SNDBUF => config.send_buffer_len as i32,
        libc::SO_RCVBUF => config.config.receive_buffer as i32,
        _ => return None,
    })
}

/// Changes what the endpoint begins with. EINVAL once it has begun.
pub(crate) fn change_endpoint(
    socket: &SctpSocket,
    change: impl FnOnce(&mut EndpointSettings),
) -> io::Result<()> {
    let mut inner = socket.lock();
    if inner.port.is_some() {
        return Err(Errno::INVAL.into());
    }
    change(&mut inner.endpoint);
    Ok(())
}

/// A number that is not 0 for true.
fn flag(value: &[u8]) -> io::Result<bool> {
    Ok(Fields(value).i32()? != 0)
}

fn set_own(socket: &Arc<SctpSocket>, name: i32, value: &[u8]) -> io::Result<()> {
    let mut fields = Fields(value);
    match name {
        NODELAY => socket.lock().settings.no_delay = flag(value)?,
        RECVRCVINFO => socket.lock().settings.gives_rcvinfo = flag(value)?,
        RECVNXTINFO => socket.lock().settings.gives_nxtinfo = flag(value)?,
        EVENT => {
            let (_, kind, on) = (fields.i32()?, fields.u16()?, fields.u8()?);
            let kind = kind.checked_sub(TYPE_FIRST).ok_or(Errno::INVAL)?;
            set_events(socket, &[(kind, on != 0)])?;
        }
        EVENTS => {
            let all: Vec<(u16, bool)> = (0..)
                .zip(value)
                .map(|(kind, on)| (kind, *on != 0))
                .collect();
            set_events(socket, &all)?;
        }
        DEFAULT_SNDINFO => {
            let info = send_info(&mut fields)?;
            socket.lock().settings.default_info = info;
        }
        DEFAULT_SEND_PARAM => set_default_send_param(socket, &mut fields)?,
        DEFAULT_PRINFO => {
            let (_, value, policy) = (fields.i32()?, fields.u32()?, fields.u16()?);
            let reliability = reliability(policy, value).ok_or(Errno::INVAL)?;
            socket.lock().settings.default_reliability = reliability;
        }
        CONTEXT => {
            let (_, value) = (fields.i32()?, fields.u32()?);
            socket.lock().settings.receive_context = value;
        }
        FRAGMENT_INTERLEAVE => {
            let level = FragmentInterleave::from_number(fields.i32()?).ok_or(Errno::INVAL)?;
            socket.lock().settings.interleave = level;
        }
        PARTIAL_DELIVERY_POINT => set_partial_point(socket, fields.u32()?)?,
        REMOTE_UDP_ENCAPS_PORT => set_remote_port(socket, value)?,
        LOCAL_UDP_PORT => {
            let port = u16::try_from(fields.i32()?).map_err(|_| Errno::INVAL)?;
            change_medium(socket, |_, peer_port| (port, peer_port))?;
        }
        TOWPATH_OPTION => set_text(socket, value)?,
        _ if key_options::is_one(name) => key_options::set(socket, name, value)?,
        _ => association_options::set(socket, name, value)?,
    }
    Ok(())
}

fn get_own(socket: &Arc<SctpSocket>, name: i32, asked: &[u8]) -> io::Result<Vec<u8>> {
    let inner = socket.lock();
    let settings = &inner.settings;
    let number = |value: bool| Octets::default().i32(value.into());
    let octets = match name {
        NODELAY => number(settings.no_delay),
        RECVRCVINFO => number(settings.gives_rcvinfo),
        RECVNXTINFO => number(settings.gives_nxtinfo),
        EVENT => {
            let mut fields = Fields(asked);
            let (assoc, kind) = (fields.i32()?, fields.u16()?);
            let bit = kind
                .checked_sub(TYPE_FIRST)
                .filter(|bit| *bit < notifications::KINDS);
            let bit = bit.ok_or(Errno::INVAL)?;
            let on = settings.events >> bit & 1;
            Octets::default().i32(assoc).u16(kind).u8(on as u8).u8(0)
        }
        EVENTS => {
            let bits = 0..notifications::KINDS.min(asked.len() as u16);
            let octets: Vec<u8> = bits.map(|bit| (settings.events >> bit & 1) as u8).collect();
            Octets(octets)
        }
        DEFAULT_SNDINFO => settings.default_info.octets(),
        DEFAULT_SEND_PARAM => {
            let (_, value) = policy(settings.default_reliability);
            notifications::sndrcvinfo(&settings.default_info, value)
        }
        DEFAULT_PRINFO => {
            let (policy, value) = policy(settings.default_reliability);
            Octets::default()
                .i32(FUTURE_ASSOC)
                .u32(value)
                .u16(policy)
                .u16(0)
        }
        CONTEXT => Octets::default()
            .i32(FUTURE_ASSOC)
            .u32(settings.receive_context),
        FRAGMENT_INTERLEAVE => Octets::default().i32(settings.interleave as i32),
        PARTIAL_DELIVERY_POINT => Octets::default().u32(inner.partial_point() as u32),
        REMOTE_UDP_ENCAPS_PORT => remote_port(&inner, asked)?,
        LOCAL_UDP_PORT => Octets::default().i32(own_udp_port(&inner)),
        TOWPATH_OPTION => Octets(format!("medium={}", inner.endpoint.medium.word()).into_bytes()),
        _ => {
            drop(inner);
            return get_of_associations(socket, name, asked);
        }
    };
    Ok(octets.0)
}

/// Parts are given of messages of so many octets, of associations that live too. EINVAL for more than the receive
/// buffer has (RFC 6458 section 8.1.21).
fn set_partial_point(socket: &Arc<SctpSocket>, octets: u32) -> io::Result<()> {
    let mut inner = socket.lock();
    if u64::from(octets) > inner.endpoint.config.config.receive_buffer {
        return Err(Errno::INVAL.into());
    }
    inner.settings.partial_point = (octets > 0).then_some(octets);
    let point = inner.partial_point();
    drop(inner);
    for_each(socket, super::settings::CURRENT_ASSOC, |member| {
        member.association.set_partial_delivery_point(point);
        Ok(())
    })
}

fn get_of_associations(socket: &Arc<SctpSocket>, name: i32, asked: &[u8]) -> io::Result<Vec<u8>> {
    let numbers = || {
        let port = socket.lock().port.clone();
        let numbers = port.map(|port| port.lock().numbers_of(socket));
        numbers.unwrap_or_default()
    };
    match name {
        GET_ASSOC_NUMBER => Ok(Octets::default().u32(numbers().len() as u32).0),
        GET_ASSOC_ID_LIST => {
            let numbers = numbers();
            let octets = Octets::default().u32(numbers.len() as u32);
            Ok(numbers
                .iter()
                .fold(octets, |octets, number| octets.i32(*number))
                .0)
        }
        _ if key_options::is_one(name) => key_options::get(socket, name, asked),
        _ => association_options::get(socket, name, asked),
    }
}

/// Types of notifications that are wanted, or not any more.
fn set_events(socket: &Arc<SctpSocket>, events: &[(u16, bool)]) -> io::Result<()> {
    if events.iter().any(|(kind, _)| *kind >= notifications::KINDS) {
        return Err(Errno::INVAL.into());
    }
    let dry = events
        .iter()
        .find(|(kind, _)| *kind == Kind::SenderDry as u16);
    let port = {
        let mut inner = socket.lock();
        for (kind, on) in events {
            inner.settings.events &= !(1 << kind);
            inner.settings.events |= u32::from(*on) << kind;
        }
        inner.port.clone()
    };
    if let (Some((_, on)), Some(port)) = (dry, port) {
        let mut state = port.lock();
        for number in state.numbers_of(socket) {
            state.member_of(socket, number)?.association.report_dry(*on);
        }
        drop(state);
        port.wake();
    }
    Ok(())
}

/// struct sctp_sndinfo.
pub(crate) fn send_info(fields: &mut Fields<'_>) -> io::Result<SendInfo> {
    Ok(SendInfo {
        stream: fields.u16()?,
        flags: fields.u16()?,
        ppid: fields.u32()?,
        context: fields.u32()?,
        assoc: fields.i32()?,
    })
}

/// struct sctp_sndrcvinfo, and its time to live in milliseconds; 0 for none.
pub(crate) fn send_receive_info(fields: &mut Fields<'_>) -> io::Result<(SendInfo, u32)> {
    let (stream, _, flags, _) = (fields.u16()?, fields.u16()?, fields.u16()?, fields.u16()?);
    let (ppid, context, time_to_live) = (fields.u32()?, fields.u32()?, fields.u32()?);
    let (_, _, assoc) = (fields.u32()?, fields.u32()?, fields.i32()?);
    let info = SendInfo {
        stream,
        flags,
        ppid,
        context,
        assoc,
    };
    Ok((info, time_to_live))
}

fn set_default_send_param(socket: &SctpSocket, fields: &mut Fields<'_>) -> io::Result<()> {
    let (info, time_to_live) = send_receive_info(fields)?;
    let mut inner = socket.lock();
    inner.settings.default_info = info;
    inner.settings.default_reliability = super::settings::of_time_to_live(time_to_live);
    Ok(())
}

fn change_medium(
    socket: &SctpSocket,
    change: impl FnOnce(u16, u16) -> (u16, u16),
) -> io::Result<()> {
    let mut inner = socket.lock();
    let Medium::Udp {
        own_port,
        peer_port,
    } = inner.endpoint.medium
    else {
        return Err(Errno::NOPROTOOPT.into());
    };
    if inner.port.is_some() {
        return Err(Errno::INVAL.into());
    }
    let (own_port, peer_port) = change(own_port, peer_port);
    inner.endpoint.medium = Medium::Udp {
        own_port,
        peer_port,
    };
    Ok(())
}

/// struct sctp_udpencaps. The port holds for all peers of the socket.
fn set_remote_port(socket: &SctpSocket, value: &[u8]) -> io::Result<()> {
    let mut fields = Fields(value);
    fields.octets(UDPENCAPS_PORT_AT)?;
    let port = u16::from_be(fields.u16()?);
    change_medium(socket, |own_port, _| (own_port, port))
}

fn remote_port(inner: &Inner, asked: &[u8]) -> io::Result<Octets> {
    let Medium::Udp { peer_port, .. } = inner.endpoint.medium else {
        return Err(Errno::NOPROTOOPT.into());
    };
    let mut fields = Fields(asked);
    let octets = Octets::default().octets(fields.octets(UDPENCAPS_PORT_AT)?);
    Ok(octets.u16(peer_port.to_be()).u16(0).u32(0))
}

/// The UDP port of the socket: that of its endpoint, or the one that it will ask for.
fn own_udp_port(inner: &Inner) -> i32 {
    if let Some(port) = &inner.port {
        return port.endpoint.local_addrs()[0].port().into();
    }
    match inner.endpoint.medium {
        Medium::Udp { own_port, .. } => own_port.into(),
        Medium::UdpSamePort => inner.local_port.into(),
        Medium::RawIp => 0,
    }
}

fn set_text(socket: &SctpSocket, value: &[u8]) -> io::Result<()> {
    let text = std::str::from_utf8(&value[..value.len().min(TEXT_MAX)]);
    let text = text.map_err(|_| Errno::INVAL)?.trim_end_matches('\0');
    set_words(socket, text)
}

/// Sets an option from `NAME=VALUE`.
pub(crate) fn set_words(socket: &SctpSocket, text: &str) -> io::Result<()> {
    let (name, value) = text.split_once('=').ok_or(Errno::INVAL)?;
    let inner = socket.lock();
    let mut settings = inner.endpoint.clone();
    drop(inner);
    if name == "medium" {
        settings.medium = Medium::from_word(value).ok_or(Errno::INVAL)?;
    } else {
        let own = BTreeMap::from([(name.to_owned(), value.to_owned())]);
        settings.config = settings
            .config
            .with_options(&own)
            .map_err(|_| Errno::INVAL)?;
    }
    change_endpoint(socket, |endpoint| *endpoint = settings)
}

/// Runs `act` on each association that `number` stands for.
pub(crate) fn for_each(
    socket: &Arc<SctpSocket>,
    number: i32,
    mut act: impl FnMut(&mut super::member::Member) -> io::Result<()>,
) -> io::Result<()> {
    let Some(port) = socket.lock().port.clone() else {
        return Ok(());
    };
    let mut state = port.lock();
    for number in calls::numbers_meant(&state, socket, number) {
        act(state.member_of(socket, number)?)?;
    }
    drop(state);
    port.wake();
    Ok(())
}
