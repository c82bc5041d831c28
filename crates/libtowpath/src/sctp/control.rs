//! Ancillary data of sendmsg(2) and recvmsg(2) (RFC 6458 section 5.3).

use super::notifications::sndrcvinfo;
use super::octets::{Fields, Octets};
use super::options::{IPPROTO_SCTP, send_info, send_receive_info};
use super::receive::{NextInfo, ReceiveInfo, Received};
use super::send::Outgoing;
use super::settings::{SendInfo, of_time_to_live, reliability};
use rustix::io::Errno;
use std::io;
use std::mem::size_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const SCTP_SNDRCV: i32 = 1;
const SCTP_SNDINFO: i32 = 2;
const SCTP_RCVINFO: i32 = 3;
const SCTP_NXTINFO: i32 = 4;
const SCTP_PRINFO: i32 = 5;
const SCTP_DSTADDRV4: i32 = 7;
const SCTP_DSTADDRV6: i32 = 8;

/// Octets of a struct cmsghdr.
const HEADER_LEN: usize = size_of::<usize>() + 8;

/// Octets to the next struct cmsghdr.
fn aligned(len: usize) -> usize {
    len.next_multiple_of(size_of::<usize>())
}

/// Adds what ancillary data say of a message. EINVAL for data that are too short, or unknown to SCTP.
pub(crate) fn read(mut control: &[u8], out: &mut Outgoing) -> io::Result<()> {
    while control.len() >= HEADER_LEN {
        let (len, rest) = control.split_first_chunk().ok_or(Errno::INVAL)?;
        let len = usize::from_ne_bytes(*len);
        let mut fields = Fields(rest);
        let (level, kind) = (fields.i32()?, fields.i32()?);
        let data = control.get(HEADER_LEN..len).ok_or(Errno::INVAL)?;
        if level == IPPROTO_SCTP {
            read_one(kind, data, out)?;
        }
        control = control.get(aligned(len)..).unwrap_or(&[]);
    }
    Ok(())
}

fn read_one(kind: i32, data: &[u8], out: &mut Outgoing) -> io::Result<()> {
    let mut fields = Fields(data);
    let port = out.to.first().map_or(0, SocketAddr::port);
    match kind {
        SCTP_SNDINFO => out.info = Some(send_info(&mut fields)?),
        SCTP_SNDRCV => {
            let (info, time_to_live) = send_receive_info(&mut fields)?;
            out.info = Some(info);
            out.reliability = Some(of_time_to_live(time_to_live));
        }
        SCTP_PRINFO => out.reliability = Some(read_reliability(data)?),
        SCTP_DSTADDRV4 => {
            let octets: [u8; 4] = data.try_into().map_err(|_| Errno::INVAL)?;
            let ip = IpAddr::from(Ipv4Addr::from(octets));
            out.to.push(SocketAddr::new(ip, port));
        }
        SCTP_DSTADDRV6 => {
            let octets: [u8; 16] = data.try_into().map_err(|_| Errno::INVAL)?;
            let ip = IpAddr::from(Ipv6Addr::from(octets));
            out.to.push(SocketAddr::new(ip, port));
        }
        _ => return Err(Errno::INVAL.into()),
    }
    Ok(())
}

/// struct sctp_prinfo.
pub(crate) fn read_reliability(octets: &[u8]) -> io::Result<library::sctp::Reliability> {
    let mut fields = Fields(octets);
    let (policy, _, value) = (fields.u16()?, fields.u16()?, fields.u32()?);
    reliability(policy, value).ok_or_else(|| Errno::INVAL.into())
}

/// Octets of struct sctp_sndinfo and struct sctp_prinfo.
const SNDINFO_LEN: usize = 16;
const PRINFO_LEN: usize = 8;

/// Flags of struct sctp_sendv_spa: which of its parts hold.
const SNDINFO_VALID: u32 = 1;
const PRINFO_VALID: u32 = 2;

/// Kinds of information of sctp_sendv.
pub(crate) const SENDV_NOINFO: u32 = 0;
const SENDV_SNDINFO: u32 = 1;
const SENDV_PRINFO: u32 = 2;
const SENDV_SPA: u32 = 4;

/// The information of sctp_sendv.
pub(crate) fn read_sendv(kind: u32, info: &[u8], out: &mut Outgoing) -> io::Result<()> {
    let mut fields = Fields(info);
    match kind {
        SENDV_NOINFO => {}
        SENDV_SNDINFO => out.info = Some(send_info(&mut fields)?),
        SENDV_PRINFO => out.reliability = Some(read_reliability(info)?),
        SENDV_SPA => {
            let flags = fields.u32()?;
            let sent = fields.octets(SNDINFO_LEN)?;
            let partial = fields.octets(PRINFO_LEN)?;
            if flags & SNDINFO_VALID != 0 {
                out.info = Some(send_info(&mut Fields(sent))?);
            }
            if flags & PRINFO_VALID != 0 {
                out.reliability = Some(read_reliability(partial)?);
            }
        }
        _ => return Err(Errno::INVAL.into()),
    }
    Ok(())
}

/// struct sctp_rcvinfo.
fn rcvinfo(info: &ReceiveInfo) -> Octets {
    let octets = Octets::default().u16(info.stream).u16(0).u16(info.flags);
    let octets = octets.u16(0).u32(info.ppid).u32(0).u32(0);
    octets.u32(info.context).i32(info.assoc)
}

/// struct sctp_nxtinfo.
fn nxtinfo(next: &NextInfo) -> Octets {
    let info = &next.info;
    let octets = Octets::default().u16(info.stream).u16(info.flags);
    octets.u32(info.ppid).u32(next.len).i32(info.assoc)
}

/// struct sctp_sndrcvinfo of a message that was received.
pub(crate) fn received_sndrcvinfo(info: &ReceiveInfo) -> Vec<u8> {
    let of = SendInfo {
        stream: info.stream,
        flags: info.flags,
        ppid: info.ppid,
        context: info.context,
        assoc: info.assoc,
    };
    sndrcvinfo(&of, 0).0
}

/// The ancillary data that a program asked for.
pub(crate) fn write(received: &Received) -> Vec<Vec<u8>> {
    let mut parts = Vec::new();
    let Some(info) = &received.info else {
        return parts;
    };
    if received.asked_sndrcvinfo {
        parts.push(part(SCTP_SNDRCV, &received_sndrcvinfo(info)));
    }
    if received.asked.0 {
        parts.push(part(SCTP_RCVINFO, &rcvinfo(info).0));
    }
    if let (true, Some(next)) = (received.asked.1, &received.next) {
        parts.push(part(SCTP_NXTINFO, &nxtinfo(next).0));
    }
    parts
}

fn part(kind: i32, data: &[u8]) -> Vec<u8> {
    let octets = Octets::default().octets(&(HEADER_LEN + data.len()).to_ne_bytes());
    let mut octets = octets.i32(IPPROTO_SCTP).i32(kind).octets(data).0;
    octets.resize(aligned(octets.len()), 0);
    octets
}

/// Kinds of information of sctp_recvv.
pub(crate) const RECVV_NOINFO: u32 = 0;
const RECVV_RCVINFO: u32 = 1;
const RECVV_NXTINFO: u32 = 2;
const RECVV_RN: u32 = 3;

/// The information of sctp_recvv, and its kind.
pub(crate) fn write_recvv(received: &Received) -> (u32, Vec<u8>) {
    let info = received.info.filter(|_| received.asked.0);
    let next = received.next.filter(|_| received.asked.1);
    match (info, next) {
        (None, None) => (RECVV_NOINFO, Vec::new()),
        (Some(info), None) => (RECVV_RCVINFO, rcvinfo(&info).0),
        (None, Some(next)) => (RECVV_NXTINFO, nxtinfo(&next).0),
        (Some(info), Some(next)) => (RECVV_RN, rcvinfo(&info).octets(&nxtinfo(&next).0).0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ancillary_data_are_read_as_they_were_written() {
        let sent = SendInfo {
            stream: 3,
            flags: 1,
            ppid: 7,
            context: 9,
            assoc: 4,
        };
        let mut control = part(SCTP_SNDINFO, &sent.octets().0);
        control.extend(part(
            SCTP_PRINFO,
            &Octets::default().u16(0x20).u16(0).u32(2).0,
        ));
        let mut out = Outgoing::default();
        read(&control, &mut out).expect("as written");
        assert_eq!(out.info, Some(sent));
        let twice = library::sctp::Reliability::Retransmissions(2);
        assert_eq!(out.reliability, Some(twice));
    }

    #[test]
    fn any_ancillary_data_are_read_or_refused() {
        let (mut state, mut parsed) = (1_u32, 0);
        for _ in 0..50_000 {
            let mut control = [0; 48];
            for octet in &mut control {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                *octet = (state >> 24) as u8;
            }
            let len = usize::from(control[0] % 64);
            control[..8].copy_from_slice(&len.to_ne_bytes());
            let kind = i32::from(control[1] % 9);
            control[8..12].copy_from_slice(&IPPROTO_SCTP.to_ne_bytes());
            control[12..16].copy_from_slice(&kind.to_ne_bytes());
            let given = (state >> 8) as usize % control.len();
            parsed += u32::from(read(&control[..given], &mut Outgoing::default()).is_ok());
        }
        assert!(parsed > 1000, "only {parsed} were valid");
    }
}
