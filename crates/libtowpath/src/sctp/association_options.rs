//! Socket options of associations and their paths (RFC 6458 sections 8.1 and 8.2, RFC 6525, RFC 8260).
//!
//! What all associations of an endpoint share is set before the endpoint begins, and read at any time.

use super::calls::with_member;
use super::member::Member;
use super::octets::{Fields, Octets, millis};
use super::options::{change_endpoint, for_each};
use super::path_options;
use super::settings::{EndpointSettings, FUTURE_ASSOC};
use super::socket::SctpSocket;
use library::sctp::{
    AssociationStage, Authentication, PathInfo, PathStatus, Scheduler, StreamDirection,
};
use rustix::io::Errno;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

const RTOINFO: i32 = 0;
const ASSOCINFO: i32 = 1;
const INITMSG: i32 = 2;
const SET_PEER_PRIMARY_ADDR: i32 = 5;
const PRIMARY_ADDR: i32 = 6;
const ADAPTATION_LAYER: i32 = 7;
const PEER_ADDR_PARAMS: i32 = 9;
const MAXSEG: i32 = 13;
const STATUS: i32 = 14;
const GET_PEER_ADDR_INFO: i32 = 15;
const DELAYED_SACK: i32 = 16;
const MAX_BURST: i32 = 20;
const PR_SUPPORTED: i32 = 113;
const RECONFIG_SUPPORTED: i32 = 117;
const ENABLE_STREAM_RESET: i32 = 118;
const RESET_STREAMS: i32 = 119;
const ADD_STREAMS: i32 = 121;
const STREAM_SCHEDULER: i32 = 123;
const STREAM_SCHEDULER_VALUE: i32 = 124;
const INTERLEAVING_SUPPORTED: i32 = 125;
const ASCONF_SUPPORTED: i32 = 128;

/// The longest delay of an acknowledgement that RFC 9260 section 6.2 allows.
pub(crate) const SACK_DELAY_MAX_MS: u32 = 500;

/// Octets of a packet around the data of a chunk: common header and DATA header.
const PACKET_OVERHEAD: usize = 12 + 16;

/// Every second packet is acknowledged at once.
const SACK_FREQUENCY: u32 = 2;

/// Schedulers by their numbers.
const SCHEDULERS: [Scheduler; 5] = [
    Scheduler::Fcfs,
    Scheduler::Priority,
    Scheduler::RoundRobin,
    Scheduler::FairBandwidth,
    Scheduler::Weighted,
];

/// Milliseconds of an option; None for 0, which leaves what was there.
pub(crate) fn time_of(millis: u32) -> Option<Duration> {
    (millis > 0).then(|| Duration::from_millis(millis.into()))
}

pub(crate) fn set(socket: &Arc<SctpSocket>, name: i32, value: &[u8]) -> io::Result<()> {
    let mut fields = Fields(value);
    match name {
        RTOINFO => path_options::set_rto(socket, &mut fields),
        ASSOCINFO => set_assoc_info(socket, &mut fields),
        INITMSG => set_init_message(socket, &mut fields),
        SET_PEER_PRIMARY_ADDR | PRIMARY_ADDR => set_primary(socket, name, &mut fields),
        ADAPTATION_LAYER => {
            let value = fields.u32()?;
            change_endpoint(socket, |of| of.config.config.adaptation = Some(value))
        }
        PEER_ADDR_PARAMS => path_options::set(socket, &mut fields),
        MAXSEG => {
            let (_, len) = (fields.i32()?, fields.u32()? as usize);
            let text = format!("packet={}", len.saturating_add(PACKET_OVERHEAD));
            super::options::set_words(socket, &text)
        }
        DELAYED_SACK => set_delayed_sack(socket, &mut fields),
        RESET_STREAMS => reset_streams(socket, &mut fields),
        ADD_STREAMS => add_streams(socket, &mut fields),
        STREAM_SCHEDULER_VALUE => {
            let (number, stream, value) = (fields.i32()?, fields.u16()?, fields.u16()?);
            let set = |member: &mut Member| {
                let set = member.association.set_stream_value(stream, value);
                set.map_err(|_| Errno::INVAL.into())
            };
            for_each(socket, number, set)
        }
        _ => set_of_endpoint(socket, name, &mut fields),
    }
}

/// Options whose value is a struct sctp_assoc_value.
fn set_of_endpoint(socket: &SctpSocket, name: i32, fields: &mut Fields<'_>) -> io::Result<()> {
    let is_one = matches!(
        name,
        MAX_BURST
            | PR_SUPPORTED
            | RECONFIG_SUPPORTED
            | ENABLE_STREAM_RESET
            | STREAM_SCHEDULER
            | INTERLEAVING_SUPPORTED
            | ASCONF_SUPPORTED
    );
    if !is_one {
        return Err(Errno::NOPROTOOPT.into());
    }
    let (_, value) = (fields.i32()?, fields.u32()?);
    let scheduler = SCHEDULERS.get(value as usize).copied();
    if name == STREAM_SCHEDULER && scheduler.is_none() {
        return Err(Errno::INVAL.into());
    }
    change_endpoint(socket, |of| {
        let config = &mut of.config.config;
        match name {
            MAX_BURST => config.max_burst = value,
            PR_SUPPORTED => config.partial_reliability = value != 0,
            STREAM_SCHEDULER => config.scheduler = scheduler.unwrap_or_default(),
            INTERLEAVING_SUPPORTED => config.interleave = value != 0,
            ASCONF_SUPPORTED => {
                config.dynamic_addresses = value != 0;
                // RFC 5061 allows them authenticated alone.
                config
                    .authentication
                    .get_or_insert_with(Authentication::default);
            }
            _ => config.reconfigure = value != 0,
        }
    })
}

fn set_assoc_info(socket: &SctpSocket, fields: &mut Fields<'_>) -> io::Result<()> {
    let (_, retries, _) = (fields.i32()?, fields.u16()?, fields.u16()?);
    let (_, _, cookie_life) = (fields.u32()?, fields.u32()?, fields.u32()?);
    change_endpoint(socket, |of| {
        let config = &mut of.config.config;
        if retries > 0 {
            config.association_retries = retries.into();
        }
        config.cookie_life = time_of(cookie_life).unwrap_or(config.cookie_life);
    })
}

/// struct sctp_initmsg. The engine has no limit of the time of an INIT besides RTO.Max.
fn set_init_message(socket: &SctpSocket, fields: &mut Fields<'_>) -> io::Result<()> {
    let (outbound, inbound) = (fields.u16()?, fields.u16()?);
    let (attempts, longest_ms) = (fields.u16()?, fields.u16()?);
    if longest_ms != 0 {
        return Err(Errno::INVAL.into());
    }
    change_endpoint(socket, |of| {
        let config = &mut of.config.config;
        if outbound > 0 {
            config.outbound_streams = outbound;
        }
        if inbound > 0 {
            config.inbound_streams = inbound;
        }
        if attempts > 0 {
            config.init_retries = attempts.into();
        }
    })
}

fn set_primary(socket: &Arc<SctpSocket>, name: i32, fields: &mut Fields<'_>) -> io::Result<()> {
    let (number, address) = (fields.i32()?, fields.address()?);
    let ip = address.ok_or(Errno::INVAL)?.ip();
    with_member(socket, number, |member| {
        let done = match name {
            PRIMARY_ADDR => {
                let remote = member.remote(ip).ok_or(Errno::INVAL)?;
                member.association.set_primary(remote)
            }
            _ => member.association.request_peer_primary(ip),
        };
        done.map_err(|_| Errno::INVAL.into())
    })
}

fn set_delayed_sack(socket: &SctpSocket, fields: &mut Fields<'_>) -> io::Result<()> {
    let (_, delay, frequency) = (fields.i32()?, fields.u32()?, fields.u32()?);
    if delay > SACK_DELAY_MAX_MS || ![0, SACK_FREQUENCY].contains(&frequency) {
        return Err(Errno::INVAL.into());
    }
    change_endpoint(socket, |of| {
        let config = &mut of.config.config;
        config.sack_delay = time_of(delay).unwrap_or(config.sack_delay);
    })
}

/// Flags of struct sctp_reset_streams.
const RESET_INCOMING: u16 = 1;
const RESET_OUTGOING: u16 = 2;

fn reset_streams(socket: &Arc<SctpSocket>, fields: &mut Fields<'_>) -> io::Result<()> {
    let (number, flags, count) = (fields.i32()?, fields.u16()?, fields.u16()?);
    let streams: io::Result<Vec<u16>> = (0..count).map(|_| fields.u16()).collect();
    let streams = streams?;
    if flags & (RESET_INCOMING | RESET_OUTGOING) == 0 {
        return Err(Errno::INVAL.into());
    }
    let directions = [
        (RESET_OUTGOING, StreamDirection::Outgoing),
        (RESET_INCOMING, StreamDirection::Incoming),
    ];
    for_each(socket, number, |member| {
        for (flag, direction) in directions {
            if flags & flag != 0 {
                let reset = member.association.reset_streams(direction, &streams);
                reset.map_err(|_| Errno::INVAL)?;
            }
        }
        Ok(())
    })
}

fn add_streams(socket: &Arc<SctpSocket>, fields: &mut Fields<'_>) -> io::Result<()> {
    let (number, inbound, outbound) = (fields.i32()?, fields.u16()?, fields.u16()?);
    let counts = [
        (outbound, StreamDirection::Outgoing),
        (inbound, StreamDirection::Incoming),
    ];
    for_each(socket, number, |member| {
        for (count, direction) in counts.into_iter().filter(|(count, _)| *count > 0) {
            let added = member.association.add_streams(direction, count);
            added.map_err(|_| Errno::INVAL)?;
        }
        Ok(())
    })
}

pub(crate) fn get(socket: &Arc<SctpSocket>, name: i32, asked: &[u8]) -> io::Result<Vec<u8>> {
    let mut fields = Fields(asked);
    match name {
        STATUS => {
            let number = fields.i32()?;
            with_member(socket, number, |member| Ok(status(member)))
        }
        PRIMARY_ADDR => {
            let number = fields.i32()?;
            with_member(socket, number, |member| primary(member, number))
        }
        GET_PEER_ADDR_INFO => {
            let (number, address) = (fields.i32()?, fields.address()?);
            let ip = address.ok_or(Errno::INVAL)?.ip();
            with_member(socket, number, |member| {
                let paths = member.association.status().paths;
                let path = paths.iter().find(|path| path.remote.ip() == ip);
                Ok(path_info(member, path.ok_or(Errno::INVAL)?).0)
            })
        }
        RTOINFO => path_options::rto(socket, &mut fields),
        PEER_ADDR_PARAMS => path_options::get(socket, &mut fields),
        ASSOCINFO => {
            let number = fields.i32().unwrap_or(FUTURE_ASSOC);
            let paths = with_member(socket, number, |member| {
                Ok(member.peer_addresses().len() as u16)
            });
            let settings = socket.lock().endpoint.clone();
            Ok(assoc_info(&settings, number, paths.unwrap_or(0)))
        }
        _ => get_of_endpoint(&socket.lock().endpoint, name),
    }
}

fn assoc_info(settings: &EndpointSettings, number: i32, paths: u16) -> Vec<u8> {
    let config = &settings.config.config;
    let retries = u16::try_from(config.association_retries).unwrap_or(u16::MAX);
    let window = u32::try_from(config.receive_buffer).unwrap_or(u32::MAX);
    let octets = Octets::default().i32(number).u16(retries).u16(paths);
    octets.u32(0).u32(window).u32(millis(config.cookie_life)).0
}

/// What all associations of an endpoint share.
fn get_of_endpoint(settings: &EndpointSettings, name: i32) -> io::Result<Vec<u8>> {
    let config = &settings.config.config;
    let value = |value: u32| Octets::default().i32(FUTURE_ASSOC).u32(value);
    let octets = match name {
        INITMSG => Octets::default()
            .u16(config.outbound_streams)
            .u16(config.inbound_streams)
            .u16(u16::try_from(config.init_retries).unwrap_or(u16::MAX))
            .u16(0),
        ADAPTATION_LAYER => Octets::default().u32(config.adaptation.unwrap_or(0)),
        MAXSEG => value(config.packet_len.saturating_sub(PACKET_OVERHEAD) as u32),
        DELAYED_SACK => value(millis(config.sack_delay)).u32(SACK_FREQUENCY),
        MAX_BURST => value(config.max_burst),
        PR_SUPPORTED => value(config.partial_reliability.into()),
        RECONFIG_SUPPORTED | ENABLE_STREAM_RESET => value(config.reconfigure.into()),
        STREAM_SCHEDULER => {
            let mut known = SCHEDULERS.iter();
            let found = known.position(|known| *known == config.scheduler);
            value(found.ok_or(Errno::INVAL)? as u32)
        }
        INTERLEAVING_SUPPORTED => value(config.interleave.into()),
        ASCONF_SUPPORTED => value(config.dynamic_addresses.into()),
        _ => return Err(Errno::NOPROTOOPT.into()),
    };
    Ok(octets.0)
}

/// States of associations (RFC 6458 section 8.2.1), as far as they show.
const COOKIE_WAIT: i32 = 2;
const ESTABLISHED: i32 = 4;
const CLOSED: i32 = 1;

/// struct sctp_status.
fn status(member: &Member) -> Vec<u8> {
    let status = member.association.status();
    let state = match member.association.stage() {
        AssociationStage::Opening => COOKIE_WAIT,
        AssociationStage::Open => ESTABLISHED,
        _ => CLOSED,
    };
    let primary = status.paths.iter().find(|path| path.is_primary);
    let len = primary.map_or(0, |path| path.path_mtu.saturating_sub(PACKET_OVERHEAD));
    let unacknowledged = u16::try_from(status.unacknowledged).unwrap_or(u16::MAX);
    let octets = Octets::default().i32(member.number()).i32(state).u32(0);
    let octets = octets.u16(unacknowledged).u16(0);
    let octets = octets
        .u16(status.inbound_streams)
        .u16(status.outbound_streams);
    let octets = octets.u32(len as u32);
    match primary {
        Some(path) => octets.octets(&path_info(member, path).0).0,
        None => octets.octets(&[0; PATH_INFO_LEN]).0,
    }
}

/// Octets of struct sctp_paddrinfo.
const PATH_INFO_LEN: usize = 152;

/// States of a path (RFC 6458 section 8.2.2).
const INACTIVE: i32 = 0;
const POTENTIALLY_FAILED: i32 = 1;
const ACTIVE: i32 = 2;
const UNCONFIRMED: i32 = 3;

/// struct sctp_paddrinfo.
fn path_info(member: &Member, path: &PathInfo) -> Octets {
    let state = match path.status {
        PathStatus::Active => ACTIVE,
        PathStatus::PotentiallyFailed => POTENTIALLY_FAILED,
        PathStatus::Inactive => INACTIVE,
        PathStatus::Unconfirmed => UNCONFIRMED,
    };
    let address = SocketAddr::new(path.remote.ip(), member.peer.port());
    let window = u32::try_from(path.congestion_window).unwrap_or(u32::MAX);
    let octets = Octets::default().i32(member.number()).address(address);
    let octets = octets.i32(state).u32(window);
    let octets = octets.u32(millis(path.srtt)).u32(millis(path.rto));
    octets.u32(path.path_mtu as u32)
}

/// struct sctp_prim.
fn primary(member: &Member, number: i32) -> io::Result<Vec<u8>> {
    let paths = member.association.status().paths;
    let path = paths.iter().find(|path| path.is_primary);
    let ip = path.ok_or(Errno::INVAL)?.remote.ip();
    let address = SocketAddr::new(ip, member.peer.port());
    Ok(Octets::default().i32(number).address(address).0)
}
