//! Heartbeats, timeouts and errors of paths (RFC 6458 sections 8.1.1 and 8.1.12): of one address, of all that an
//! association has, or, before the endpoint begins, of all that there will be.

use super::association_options::{SACK_DELAY_MAX_MS, time_of};
use super::calls::with_member;
use super::member::Member;
use super::octets::{ADDRESS_LEN, Fields, Octets, millis};
use super::options::{change_endpoint, for_each};
use super::settings::FUTURE_ASSOC;
use super::socket::SctpSocket;
use library::sctp::{EndpointConfig, PathParameters, RtoBounds};
use rustix::io::Errno;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// Flags of struct sctp_paddrparams.
const SPP_HB_ENABLE: u32 = 1;
const SPP_HB_DISABLE: u32 = 1 << 1;
const SPP_HB_DEMAND: u32 = 1 << 2;
const SPP_PMTUD_ENABLE: u32 = 1 << 3;
const SPP_PMTUD_DISABLE: u32 = 1 << 4;
const SPP_SACKDELAY_ENABLE: u32 = 1 << 5;
const SPP_SACKDELAY_DISABLE: u32 = 1 << 6;
const SPP_HB_TIME_IS_ZERO: u32 = 1 << 7;

/// What a struct sctp_paddrparams asks for.
struct Wanted {
    interval_ms: u32,
    retries: u16,
    sack_delay_ms: u32,
    flags: u32,
}

impl Wanted {
    fn read(fields: &mut Fields<'_>) -> io::Result<Wanted> {
        let (interval_ms, retries) = (fields.u32()?, fields.u16()?);
        let (_, sack_delay_ms, flags) = (fields.u32()?, fields.u32()?, fields.u32()?);
        let both = |one: u32, other: u32| flags & one != 0 && flags & other != 0;
        let is_contrary = both(SPP_HB_ENABLE, SPP_HB_DISABLE)
            || both(SPP_PMTUD_ENABLE, SPP_PMTUD_DISABLE)
            || both(SPP_SACKDELAY_ENABLE, SPP_SACKDELAY_DISABLE);
        if is_contrary || sack_delay_ms > SACK_DELAY_MAX_MS {
            return Err(Errno::INVAL.into());
        }
        Ok(Wanted {
            interval_ms,
            retries,
            sack_delay_ms,
            flags,
        })
    }

    fn has(&self, flags: u32) -> bool {
        self.flags & flags != 0
    }

    /// The interval of heartbeats where there was `before`.
    fn interval(&self, before: Duration) -> Duration {
        if self.has(SPP_HB_DISABLE) {
            Duration::ZERO
        } else if self.has(SPP_HB_ENABLE | SPP_HB_TIME_IS_ZERO) {
            time_of(self.interval_ms).unwrap_or(before)
        } else {
            before
        }
    }

    fn retries(&self, before: u32) -> u32 {
        match self.retries {
            0 => before,
            retries => retries.into(),
        }
    }

    fn change_endpoint(&self, of: &mut EndpointConfig) {
        let config = &mut of.config;
        config.heartbeat_interval = self.interval(config.heartbeat_interval);
        config.path_retries = self.retries(config.path_retries);
        if self.has(SPP_PMTUD_ENABLE | SPP_PMTUD_DISABLE) {
            config.probes_path_mtu = self.has(SPP_PMTUD_ENABLE);
        }
        if self.has(SPP_SACKDELAY_ENABLE) {
            config.sack_delay = time_of(self.sack_delay_ms).unwrap_or(config.sack_delay);
        }
        if self.has(SPP_SACKDELAY_DISABLE) {
            config.sack_delay = Duration::ZERO;
        }
    }

    /// Whether it leaves what all paths of an endpoint share: probes of the path's MTU, and acknowledgements.
    fn leaves_endpoint(&self, of: &EndpointConfig) -> bool {
        let mut changed = of.clone();
        self.change_endpoint(&mut changed);
        let shared = |of: &EndpointConfig| (of.config.probes_path_mtu, of.config.sack_delay);
        shared(&changed) == shared(of)
    }

    fn change_path(&self, of: &mut PathParameters) {
        of.heartbeat_interval = self.interval(of.heartbeat_interval);
        of.retries = self.retries(of.retries);
    }
}

/// struct sctp_paddrparams: a HEARTBEAT now to an address, or what is decided of paths.
pub(crate) fn set(socket: &Arc<SctpSocket>, fields: &mut Fields<'_>) -> io::Result<()> {
    let (number, address) = (fields.i32()?, fields.address()?);
    let ip = address.map(|address| address.ip());
    let wanted = Wanted::read(fields)?;
    if wanted.has(SPP_HB_DEMAND) {
        let ip = ip.ok_or(Errno::INVAL)?;
        return with_member(socket, number, |member| {
            let remote = member.remote(ip).ok_or(Errno::INVAL)?;
            member.association.request_heartbeat(remote)
        });
    }
    if ip.is_none() && socket.lock().port.is_none() {
        return change_endpoint(socket, |of| wanted.change_endpoint(&mut of.config));
    }
    if !wanted.leaves_endpoint(&socket.lock().endpoint.config) {
        return Err(Errno::INVAL.into());
    }
    change_paths(socket, (number, ip), |of| wanted.change_path(of))
}

/// struct sctp_rtoinfo.
pub(crate) fn set_rto(socket: &Arc<SctpSocket>, fields: &mut Fields<'_>) -> io::Result<()> {
    let (number, initial, max, min) = (fields.i32()?, fields.u32()?, fields.u32()?, fields.u32()?);
    let changed = |before: RtoBounds| RtoBounds {
        initial: time_of(initial).unwrap_or(before.initial),
        max: time_of(max).unwrap_or(before.max),
        min: time_of(min).unwrap_or(before.min),
    };
    if socket.lock().port.is_some() {
        return change_paths(socket, (number, None), |of| of.rto = changed(of.rto));
    }
    let rto = changed(socket.lock().endpoint.config.config.rto);
    if rto.min > rto.max || rto.initial > rto.max {
        return Err(Errno::INVAL.into());
    }
    change_endpoint(socket, |of| of.config.config.rto = rto)
}

/// Changes the path to an address, or all of what `number` stands for. EINVAL for what has no association.
fn change_paths(
    socket: &Arc<SctpSocket>,
    (number, ip): (i32, Option<IpAddr>),
    change: impl Fn(&mut PathParameters),
) -> io::Result<()> {
    let mut changed = 0;
    for_each(socket, number, |member| {
        let paths = member.association.status().paths;
        for path in paths
            .iter()
            .filter(|path| ip.is_none_or(|ip| path.remote.ip() == ip))
        {
            let mut parameters = path.parameters;
            change(&mut parameters);
            let set = member
                .association
                .set_path_parameters(path.remote, parameters);
            set.map_err(|_| Errno::INVAL)?;
            changed += 1;
        }
        Ok(())
    })?;
    match changed {
        0 => Err(Errno::INVAL.into()),
        _ => Ok(()),
    }
}

/// struct sctp_rtoinfo of an association: that of its preferred path; else what all paths begin with.
pub(crate) fn rto(socket: &Arc<SctpSocket>, fields: &mut Fields<'_>) -> io::Result<Vec<u8>> {
    let number = fields.i32().unwrap_or(FUTURE_ASSOC);
    let of_association = with_member(socket, number, |member| {
        let paths = member.association.status().paths;
        let primary = paths.iter().find(|path| path.is_primary);
        Ok(primary.map(|path| path.parameters.rto))
    });
    let of_endpoint = || socket.lock().endpoint.config.config.rto;
    let rto = of_association.ok().flatten().unwrap_or_else(of_endpoint);
    let octets = Octets::default().i32(number).u32(millis(rto.initial));
    Ok(octets.u32(millis(rto.max)).u32(millis(rto.min)).0)
}

/// struct sctp_paddrparams of an address; without one, what all paths begin with.
pub(crate) fn get(socket: &Arc<SctpSocket>, fields: &mut Fields<'_>) -> io::Result<Vec<u8>> {
    let number = fields.i32().unwrap_or(FUTURE_ASSOC);
    let settings = socket.lock().endpoint.config.clone();
    // Who asks for those of the endpoint need give no more room than he wants back.
    let Some(address) = fields.address().unwrap_or(None) else {
        let config = &settings.config;
        let packet_len = u32::try_from(config.packet_len).unwrap_or(u32::MAX);
        let parameters = PathParameters {
            heartbeat_interval: config.heartbeat_interval,
            rto: config.rto,
            retries: config.path_retries,
        };
        return Ok(octets(&settings, (number, None), parameters, packet_len));
    };
    with_member(socket, number, |member: &mut Member| {
        let paths = member.association.status().paths;
        let path = paths.iter().find(|path| path.remote.ip() == address.ip());
        let path = path.ok_or(Errno::INVAL)?;
        let packet_len = u32::try_from(path.path_mtu).unwrap_or(u32::MAX);
        let at = Some(SocketAddr::new(address.ip(), member.peer.port()));
        let number = member.number();
        Ok(octets(&settings, (number, at), path.parameters, packet_len))
    })
}

fn octets(
    settings: &EndpointConfig,
    (number, address): (i32, Option<SocketAddr>),
    parameters: PathParameters,
    packet_len: u32,
) -> Vec<u8> {
    let config = &settings.config;
    let choice = |is_on: bool, on: u32, off: u32| if is_on { on } else { off };
    let heartbeats = !parameters.heartbeat_interval.is_zero();
    let flags = choice(heartbeats, SPP_HB_ENABLE, SPP_HB_DISABLE)
        | choice(config.probes_path_mtu, SPP_PMTUD_ENABLE, SPP_PMTUD_DISABLE)
        | choice(
            !config.sack_delay.is_zero(),
            SPP_SACKDELAY_ENABLE,
            SPP_SACKDELAY_DISABLE,
        );
    let octets = Octets::default().i32(number);
    let octets = match address {
        Some(address) => octets.address(address),
        None => octets.octets(&[0; ADDRESS_LEN]),
    };
    octets
        .u32(millis(parameters.heartbeat_interval))
        .u16(u16::try_from(parameters.retries).unwrap_or(u16::MAX))
        .u32(packet_len)
        .u32(millis(config.sack_delay))
        .u32(flags)
        .u32(0)
        .u16(0)
        .0
}
