//! What a channel may do beside moving messages, each part to take, replace or leave out.
//!
//! A channel of [`ChannelSender`](crate::ChannelSender) and [`ChannelReceiver`](crate::ChannelReceiver) has no modules: a
//! message goes in order, once, and holds its sender back while there is no room. [`ModularSender`] and
//! [`ModularReceiver`] add what [`Modules`] names: [`Flow`] is what becomes of a message without room,
//! [`Modules::reassembling`] cuts messages that are longer than the ring, and each [`Module`] of a list puts a header in
//! front of what is sent and judges what comes. [`Order`] and [`Checksum`] are such modules, and a user adds others.
//!
//! The opening says which modules the sender has, by their names; a receiver with others refuses it. A record of the ring
//! is the piece's place if the channel reassembles (octets before it, then octets of the message, four each, in the
//! host's order), the modules' headers in the order of the list, and the piece.

mod builtin;
mod receiver;
mod sender;
mod set_up;
#[cfg(all(test, not(feature = "loom")))]
mod tests;

pub use builtin::{Checksum, Order};
pub use receiver::{Losses, ModularReceiver, Receipt};
pub use sender::{ModularSender, Sent};
pub use set_up::{PairModules, accept_modular_pair, open_modular_pair};

use crate::error::ChannelError;
use crate::geometry::NO_MODULES;
use crate::opening::NAMES_MAX;
use std::fmt;

/// A part of a channel that sees each record. Both ends have one each, of the same name.
pub trait Module: Send {
    /// Its name, which the other end has to have too: letters, digits, `-`, `.` and `=`.
    fn name(&self) -> &str;

    /// Octets that it puts in front of a record, always the same.
    fn header_len(&self) -> usize;

    /// Writes the header of the record that is sent next; `record` is a message, or a piece of one.
    fn write_header(&mut self, record: &[u8], header: &mut [u8]);

    /// The next record was not sent, because there was no room for it ([`Flow::Drop`]).
    fn skip(&mut self);

    /// Judges the record that came next. `record` and `header` are private copies, which the sender may have filled
    /// with anything.
    fn judge(&mut self, record: &[u8], header: &[u8]) -> Verdict;
}

/// What a [`Module`] says of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is as it was sent, and the next one.
    Deliver,
    /// It is as it was sent, and as many before it did not come.
    Missing(u32),
    /// It is not as it was sent, and is left out.
    Damaged,
    /// No correct sender sends it: the channel is of no use any more.
    Impossible,
}

/// What becomes of a message for which the ring has no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Flow {
    /// It waits: a slow receiver holds its sender back.
    #[default]
    Block,
    /// It is dropped and counted: a slow receiver misses it.
    Drop,
}

/// The modules of one end of a channel.
#[derive(Default)]
pub struct Modules {
    flow: Flow,
    reassembles: bool,
    list: Vec<Box<dyn Module>>,
}

/// Octets of a piece's place in its message.
const PLACE_LEN: usize = 8;

impl Modules {
    /// None: what a channel does without them.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// With this flow control.
    #[must_use]
    pub fn flow(mut self, flow: Flow) -> Self {
        self.flow = flow;
        self
    }

    /// With reassembly: messages may be longer than the ring, up to [`RING_OCTETS_MAX`](crate::RING_OCTETS_MAX).
    #[must_use]
    pub fn reassembling(mut self) -> Self {
        self.reassembles = true;
        self
    }

    /// With `module` behind those there are.
    #[must_use]
    pub fn with(mut self, module: impl Module + 'static) -> Self {
        self.list.push(Box::new(module));
        self
    }

    /// What these modules are called in an opening, `none` without any.
    #[must_use]
    pub fn words(&self) -> String {
        let flow = (self.flow == Flow::Drop).then_some("flow=drop");
        let reassembly = self.reassembles.then_some("reassemble");
        let own = self.list.iter().map(|module| module.name());
        let words: Vec<&str> = flow.into_iter().chain(reassembly).chain(own).collect();
        match words.is_empty() {
            true => NO_MODULES.into(),
            false => words.join(","),
        }
    }

    /// The words for an opening.
    ///
    /// # Errors
    /// [`ChannelError::ModuleName`] when a name is none, or all together are too long.
    fn checked_words(&self) -> Result<String, ChannelError> {
        let is_valid = |octet: u8| octet.is_ascii_alphanumeric() || b"-.=".contains(&octet);
        let wrong = self.list.iter().find(|module| {
            let name = module.name();
            name.is_empty() || !name.bytes().all(is_valid)
        });
        let words = self.words();
        match wrong {
            Some(module) => Err(ChannelError::ModuleName(
                module.name().escape_debug().to_string(),
            )),
            None if words.len() > NAMES_MAX => Err(ChannelError::ModuleName(words)),
            None => Ok(words),
        }
    }

    /// Octets in front of each piece.
    fn header_len(&self) -> usize {
        let place = if self.reassembles { PLACE_LEN } else { 0 };
        place
            + self
                .list
                .iter()
                .map(|module| module.header_len())
                .sum::<usize>()
    }

    /// Writes the header of `record`.
    fn write_headers(&mut self, record: &[u8], header: &mut [u8]) {
        let mut rest = header;
        for module in &mut self.list {
            let (own, others) = rest.split_at_mut(module.header_len());
            module.write_header(record, own);
            rest = others;
        }
    }

    fn skip(&mut self) {
        self.list.iter_mut().for_each(|module| module.skip());
    }

    /// The worst that a module says of `record`, or the sum of what is missing. A record that one module finds damaged is
    /// still seen by those behind it.
    fn judge(&mut self, record: &[u8], header: &[u8]) -> Verdict {
        let mut rest = header;
        let mut verdict = Verdict::Deliver;
        for module in &mut self.list {
            let (own, others) = rest.split_at(module.header_len());
            verdict = worse(verdict, module.judge(record, own));
            rest = others;
        }
        verdict
    }
}

fn worse(one: Verdict, other: Verdict) -> Verdict {
    match (one, other) {
        (Verdict::Impossible, _) | (_, Verdict::Impossible) => Verdict::Impossible,
        (Verdict::Damaged, _) | (_, Verdict::Damaged) => Verdict::Damaged,
        (Verdict::Missing(one), Verdict::Missing(other)) => Verdict::Missing(one.max(other)),
        (Verdict::Deliver, other) => other,
        (missing, Verdict::Deliver) => missing,
    }
}

impl fmt::Debug for Modules {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("Modules")
            .field(&self.words())
            .finish()
    }
}
