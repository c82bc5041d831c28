//! Discovery: whether an entity is there, and whether anybody holds a name.
//!
//! The silence of all hosts is an answer, so a question is repeated a number of times, evenly and
//! without back-off, and what comes back says how often and for how long was asked. With a loss of p
//! each way, all of n questions fail with probability (1 - (1 - p)^2)^n.

use super::{CallFlags, CallNote, Client, Endpoint, EntityId, Note};
use engine::Address;
use engine_vmtp::pdu::MANAGER_GROUP;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// ProbeEntity (RFC 1045 section III.4).
const PROBE_ENTITY: u64 = 0x101;

/// Where names become identifiers: no host has an address of 240.0.0.0/4.
const NAMES: u64 = 0xf000_0000;

/// What a question found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The entity, or a holder of the name, is there.
    Somebody {
        /// How long the answer took.
        after: Duration,
    },
    /// Nobody answered, or the host that was asked has no such entity.
    Nobody {
        /// Times the question was sent, at most: fewer when a host said so.
        tries: u8,
        /// How long was waited in all.
        after: Duration,
    },
}

/// The identifier of a name: its hash.
pub fn entity_of_name(name: &str) -> EntityId {
    let hash = engine::siphash([NAMES, !NAMES], name.as_bytes());
    // 12 bits of a discriminator are the numbers of clients, and the upper ones are flags.
    let discriminator = (hash >> 32) & 0x7fff | 0x8000;
    EntityId(discriminator << 32 | NAMES | hash & 0x0fff_ffff)
}

impl Endpoint {
    /// Managers of this endpoint answer questions to all hosts from now on, which come to `address`.
    /// Errors are those of the socket.
    pub fn join_managers(&self, address: SocketAddr) -> io::Result<()> {
        self.locate(MANAGER_GROUP, address);
        self.inner.join(Address::Socket(address))
    }

    /// Holds a name: questions for it are answered. It does not ask for other holders before; see
    /// [`Client::unique_name`].
    ///
    /// # Errors
    ///
    /// `Other` when there are as many entities as there may be.
    pub fn hold_name(&self, name: &str) -> io::Result<EntityId> {
        let entity = entity_of_name(name);
        self.inner.create_entity(entity)?;
        Ok(entity)
    }
}

impl Client<'_> {
    /// Asks the host that an entity was located at for it, up to `tries` times, `spacing` apart.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an entity that was not located, no tries, or a spacing that is zero or above
    /// an hour.
    pub fn probe(&self, entity: EntityId, tries: u8, spacing: Duration) -> io::Result<Found> {
        self.ask(entity, entity, (tries, spacing))
    }

    /// Asks all hosts whether anybody holds a name, up to `tries` times, `spacing` apart. The endpoint
    /// must know the managers' address: [`Endpoint::join_managers`]. Errors are those of [`probe`](Client::probe).
    pub fn unique_name(&self, name: &str, tries: u8, spacing: Duration) -> io::Result<Found> {
        self.ask(MANAGER_GROUP, entity_of_name(name), (tries, spacing))
    }

    fn ask(
        &self,
        to: EntityId,
        entity: EntityId,
        (tries, spacing): (u8, Duration),
    ) -> io::Result<Found> {
        let hour = Duration::from_secs(3600);
        if tries == 0 || spacing.is_zero() || spacing > hour {
            let text = format!(
                "{tries} tries {spacing:?} apart are no question; use 1 to 255 tries, 1 us to 1 h apart"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let own = self
            .endpoint
            .inner
            .with_engine(|engine, _| engine.has_entity(entity))?;
        if own {
            let after = Duration::ZERO;
            return Ok(Found::Somebody { after });
        }
        let note = Note {
            tag: Some(PROBE_ENTITY),
            call: CallNote {
                flags: CallFlags::PUBLIC_CODE.with(CallFlags::TO_MANAGER),
                tries,
                spacing_us: spacing.as_micros() as u32,
                co_resident: Some(entity),
                ..CallNote::default()
            },
            ..Note::default()
        };
        let begun = Instant::now();
        let question = self.begin(to, &entity.0.to_be_bytes()[..], &note);
        let limit = spacing * u32::from(tries) + hour;
        let outcome = self.take(&question, limit);
        let after = begun.elapsed();
        match outcome {
            Some(Ok(_)) => Ok(Found::Somebody { after }),
            Some(Err(error)) => match error.kind() {
                io::ErrorKind::TimedOut | io::ErrorKind::ConnectionRefused => {
                    Ok(Found::Nobody { tries, after })
                }
                _ => Err(error),
            },
            None => Ok(Found::Nobody { tries, after }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_identifiers_of_their_own_that_no_host_gives() {
        let (a, b) = (entity_of_name("printer"), entity_of_name("printers"));
        assert_ne!(a, b);
        assert_eq!(a, entity_of_name("printer"));
        for entity in [a, b] {
            assert_eq!(entity.0 as u32 >> 28, 0xf);
            assert_eq!(entity.0 >> 48, 0, "no flag, no number of a client");
        }
    }
}
