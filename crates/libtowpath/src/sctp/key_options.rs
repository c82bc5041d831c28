//! Socket options of authentication (RFC 4895, RFC 6458 section 8.3).

use super::calls::with_member;
use super::octets::{Fields, Octets};
use super::options::{change_endpoint, for_each};
use super::settings::FUTURE_ASSOC;
use super::socket::SctpSocket;
use library::sctp::{Authentication, ChunkType, HmacId, KeyId, SharedKey};
use rustix::io::Errno;
use std::io;
use std::sync::Arc;

const AUTH_CHUNK: i32 = 21;
const HMAC_IDENT: i32 = 22;
const AUTH_KEY: i32 = 23;
const AUTH_ACTIVE_KEY: i32 = 24;
const AUTH_DELETE_KEY: i32 = 25;
const PEER_AUTH_CHUNKS: i32 = 26;
const LOCAL_AUTH_CHUNKS: i32 = 27;
const AUTH_SUPPORTED: i32 = 129;

/// Chunks that are never authenticated (RFC 4895 section 3.2): INIT, INIT-ACK, SHUTDOWN-COMPLETE, AUTH.
const NEVER: [u8; 4] = [1, 2, 14, 15];

/// Algorithms at most: more are none that exist.
const HMACS_MAX: u32 = 16;

/// Whether `name` is one of these options.
pub(crate) fn is_one(name: i32) -> bool {
    matches!(name, AUTH_CHUNK..=LOCAL_AUTH_CHUNKS | AUTH_SUPPORTED)
}

pub(crate) fn set(socket: &Arc<SctpSocket>, name: i32, value: &[u8]) -> io::Result<()> {
    let mut fields = Fields(value);
    match name {
        AUTH_CHUNK => {
            let kind = fields.u8()?;
            if NEVER.contains(&kind) {
                return Err(Errno::INVAL.into());
            }
            change(socket, |auth| auth.chunks.push(ChunkType(kind)))
        }
        HMAC_IDENT => set_hmacs(socket, &mut fields),
        AUTH_KEY => set_key(socket, &mut fields),
        AUTH_ACTIVE_KEY => {
            let (number, key) = (fields.i32()?, fields.u16()?);
            if has_begun(socket) {
                return for_each(socket, number, |member| {
                    let set = member.association.set_active_key(key);
                    set.map_err(|_| Errno::INVAL.into())
                });
            }
            let known = |auth: &Authentication| key == 0 || auth.keys.contains_key(&KeyId(key));
            let current = socket.lock().endpoint.config.config.authentication.clone();
            if !known(&current.unwrap_or_default()) {
                return Err(Errno::INVAL.into());
            }
            change(socket, |auth| auth.active_key = KeyId(key))
        }
        AUTH_DELETE_KEY => {
            let (number, key) = (fields.i32()?, fields.u16()?);
            if has_begun(socket) {
                return for_each(socket, number, |member| {
                    let deleted = member.association.delete_key(key);
                    deleted.map_err(|_| Errno::INVAL.into())
                });
            }
            change(socket, |auth| {
                auth.keys.remove(&KeyId(key));
            })
        }
        AUTH_SUPPORTED => {
            let (_, value) = (fields.i32()?, fields.u32()?);
            change_endpoint(socket, |of| {
                let config = &mut of.config.config;
                config.authentication = (value != 0).then(|| {
                    let known = config.authentication.take();
                    known.unwrap_or_default()
                });
            })
        }
        _ => Err(Errno::NOPROTOOPT.into()),
    }
}

fn has_begun(socket: &SctpSocket) -> bool {
    socket.lock().port.is_some()
}

/// Changes how the endpoint will authenticate, from now on at all.
fn change(socket: &SctpSocket, change: impl FnOnce(&mut Authentication)) -> io::Result<()> {
    change_endpoint(socket, |of| {
        let authentication = &mut of.config.config.authentication;
        change(authentication.get_or_insert_with(Authentication::default));
    })
}

/// struct sctp_hmacalgo. SHA-1 must be among them (RFC 4895 section 6.1).
fn set_hmacs(socket: &SctpSocket, fields: &mut Fields<'_>) -> io::Result<()> {
    let count = fields.u32()?;
    if count > HMACS_MAX {
        return Err(Errno::INVAL.into());
    }
    let wanted: io::Result<Vec<HmacId>> = (0..count).map(|_| fields.u16().map(HmacId)).collect();
    let wanted = wanted?;
    let is_known = |one: &HmacId| [HmacId::SHA1, HmacId::SHA256].contains(one);
    if !wanted.iter().all(is_known) || !wanted.contains(&HmacId::SHA1) {
        return Err(Errno::OPNOTSUPP.into());
    }
    change(socket, |auth| auth.hmacs = wanted)
}

/// struct sctp_authkey, and the key behind it.
fn set_key(socket: &Arc<SctpSocket>, fields: &mut Fields<'_>) -> io::Result<()> {
    let (number, key, len) = (fields.i32()?, fields.u16()?, fields.u16()?);
    let secret = SharedKey::new(fields.octets(len.into())?);
    if !has_begun(socket) {
        return change(socket, |auth| {
            auth.keys.insert(KeyId(key), secret);
        });
    }
    for_each(socket, number, |member| {
        let set = member.association.set_key(key, &secret);
        set.map_err(|_| Errno::INVAL.into())
    })
}

pub(crate) fn get(socket: &Arc<SctpSocket>, name: i32, asked: &[u8]) -> io::Result<Vec<u8>> {
    let mut fields = Fields(asked);
    let configured = socket.lock().endpoint.config.config.authentication.clone();
    let octets = match name {
        AUTH_SUPPORTED => {
            let is_on = u32::from(configured.is_some());
            Octets::default().i32(FUTURE_ASSOC).u32(is_on)
        }
        HMAC_IDENT => {
            let hmacs = configured.unwrap_or_default().hmacs;
            let octets = Octets::default().u32(hmacs.len() as u32);
            hmacs.iter().fold(octets, |octets, hmac| octets.u16(hmac.0))
        }
        AUTH_ACTIVE_KEY => {
            let number = fields.i32()?;
            let active = with_member(socket, number, |member| {
                let auth = member.association.authentication();
                Ok(auth.ok_or(Errno::INVAL)?.active_key)
            });
            let configured = configured.map(|auth| auth.active_key);
            let key = active.or_else(|error| configured.ok_or(error))?;
            Octets::default().i32(number).u16(key.0).u16(0)
        }
        PEER_AUTH_CHUNKS | LOCAL_AUTH_CHUNKS => {
            let number = fields.i32()?;
            let chunks = with_member(socket, number, |member| {
                let auth = member.association.authentication().unwrap_or_else(none);
                Ok(match name {
                    PEER_AUTH_CHUNKS => auth.peer_chunks,
                    _ => auth.own_chunks,
                })
            })?;
            let octets = Octets::default().i32(number).u32(chunks.len() as u32);
            chunks
                .iter()
                .fold(octets, |octets, chunk| octets.u8(chunk.0))
        }
        _ => return Err(Errno::NOPROTOOPT.into()),
    };
    Ok(octets.0)
}

/// Of an association that does not authenticate.
fn none() -> library::sctp::AuthSummary {
    library::sctp::AuthSummary {
        active_key: KeyId(0),
        hmac: HmacId::SHA1,
        own_chunks: Vec::new(),
        peer_chunks: Vec::new(),
    }
}
