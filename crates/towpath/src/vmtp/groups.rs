//! Groups: one request to many servers, over UDP multicast.
//!
//! A group has an identifier that all know, and an address. Each endpoint has at most one member of a
//! group. A call to a group ends with its first reply ([`Client::call`]), or goes on for as long as
//! the caller waits for replies ([`Client::call_group`]).

use super::{CallFlags, CallNote, Client, Endpoint, EntityId, Message, Note, Reply};
use engine::{Address, Transactions};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

/// The flag of groups in an identifier (RFC 1045 section IV.1).
const GROUP: u64 = 1 << 62;

/// The group with this discriminator, of 28 bits, at an IPv4 multicast address.
pub fn group(discriminator: u32, address: Ipv4Addr) -> EntityId {
    let discriminator = u64::from(discriminator & 0x0fff_ffff);
    EntityId(GROUP | discriminator << 32 | u64::from(u32::from(address)))
}

/// The address of a group that a host has made: RFC 1045 says 232.x.x.x with the low 24 bits of the
/// discriminator, which is reserved for channels of one source since (RFC 4607); so it is 239.x.x.x,
/// or ff15::e8xx:xxxx.
pub fn group_address(discriminator: u32, is_v6: bool) -> IpAddr {
    let low = discriminator & 0x00ff_ffff;
    match is_v6 {
        false => IpAddr::V4(Ipv4Addr::from(239 << 24 | low)),
        true => {
            let low = 0xe800_0000 | low;
            let words = [(low >> 16) as u16, low as u16];
            IpAddr::V6(Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, words[0], words[1]))
        }
    }
}

impl Endpoint {
    /// Makes `entity`, of this endpoint, a member of `group`, whose requests come to `address`. At any
    /// time, and as often as wanted. Each member gets a copy of each request, which `Request::answerer`
    /// names.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an entity of another endpoint, what is no group, or a 65th member, or those of
    /// the socket.
    pub fn join(&self, group: EntityId, entity: EntityId, address: SocketAddr) -> io::Result<()> {
        let set = |is_member| {
            let set = self
                .inner
                .with_engine(|engine, _| engine.set_member(group, entity, is_member))?;
            set.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
        };
        let is_joined = self
            .inner
            .with_engine(|engine, _| engine.has_members(group))?;
        set(true)?;
        if is_joined {
            return Ok(());
        }
        self.inner
            .join(Address::Socket(address))
            .inspect_err(|_| drop(set(false)))
    }

    /// Takes `entity` out of `group`. Errors are those of [`join`](Endpoint::join).
    pub fn leave(&self, group: EntityId, entity: EntityId, address: SocketAddr) -> io::Result<()> {
        let left = self
            .inner
            .with_engine(|engine, _| engine.set_member(group, entity, false))?;
        left.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let others = self
            .inner
            .with_engine(|engine, _| engine.has_members(group))?;
        if others {
            return Ok(());
        }
        self.inner.leave(Address::Socket(address))
    }
}

impl Client<'_> {
    /// Calls a group, and waits for replies for all of `window`. Members wait for a random time before
    /// they reply if `delayed`: where many answer at once, they would overrun the caller.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a group that was not located or a message that is too long. No reply is an
    /// empty list.
    pub fn call_group(
        &self,
        group: EntityId,
        request: impl Into<Message>,
        window: Duration,
        delayed: bool,
    ) -> io::Result<Vec<Reply>> {
        let flags = CallFlags::MANY_REPLIES.with_if(delayed, CallFlags::DELAYED_REPLIES);
        let note = Note {
            call: CallNote {
                flags,
                ..CallNote::default()
            },
            ..Note::default()
        };
        let call = self.begin(group, request, &note);
        let until = Instant::now() + window;
        let mut replies = Vec::new();
        loop {
            let rest = until.saturating_duration_since(Instant::now());
            match self.take(&call, rest) {
                Some(Ok(reply)) => replies.push(reply),
                Some(Err(error)) if error.kind() == io::ErrorKind::TimedOut => break,
                Some(Err(error)) => return Err(error),
                None => break,
            }
        }
        self.abandon(call);
        Ok(replies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_the_addresses_of_their_discriminators() {
        let managers = group(1, Ipv4Addr::new(224, 0, 1, 0));
        assert_eq!(managers, engine_vmtp::pdu::MANAGER_GROUP);
        assert_eq!(
            group_address(0x9012_3456, false).to_string(),
            "239.18.52.86"
        );
        assert_eq!(
            group_address(0x9012_3456, true).to_string(),
            "ff15::e812:3456"
        );
    }
}
