//! The first of three processes: messages to the middle, which hands them on to the last.

use super::links::{SLOTS, failed, free_slot, kernel_pair, slot_len};
use super::source::{HEAD_LEN, Outgoing, measured};
use super::stage::{Stage, start};
use super::{PassingPlan, TurnTime};
use rustix::net::SendFlags;
use serde::Serialize;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use towpath::channel::{ArenaOwner, ArenaSender, ChannelSender, Geometry, Signal};

/// How often the octets of a message are copied on the whole way from where the first process made them to where the last one
/// reads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "u32")]
pub enum Copies {
    /// A slot of an arena is passed on by its number.
    None,
    /// A ring to the middle and one to the last: the middle copies out of one and into the other.
    Two,
    /// Sockets of the kernel, into each of which and out of each of which a message is copied.
    Four,
}

impl Copies {
    /// All of them.
    pub const ALL: [Copies; 3] = [Copies::None, Copies::Two, Copies::Four];

    /// How many.
    #[must_use]
    pub fn count(self) -> u32 {
        match self {
            Copies::None => 0,
            Copies::Two => 2,
            Copies::Four => 4,
        }
    }
}

impl From<Copies> for u32 {
    fn from(copies: Copies) -> u32 {
        copies.count()
    }
}

/// One turn.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ForwardTurn {
    /// Copies of a message.
    pub copies: Copies,
    /// Of which message, when and how long.
    #[serde(flatten)]
    pub time: TurnTime,
}

/// Measures once.
pub(super) fn turn(
    plan: &PassingPlan,
    copies: Copies,
    size: usize,
    block: u32,
) -> io::Result<ForwardTurn> {
    let message_us = match copies {
        Copies::None => through_arena(plan, size)?,
        Copies::Two => through_rings(plan, size)?,
        Copies::Four => through_sockets(plan, size)?,
    };
    Ok(ForwardTurn {
        copies,
        time: TurnTime::new(size, block, message_us),
    })
}

fn through_arena(plan: &PassingPlan, size: usize) -> io::Result<f64> {
    let geometry = Geometry::new(slot_len(size), SLOTS).map_err(failed)?;
    let mut owner = ArenaOwner::create(geometry).map_err(failed)?;
    let (middle, middle_far) = UnixStream::pair()?;
    let (control, control_far) = UnixStream::pair()?;
    let (out, into) = UnixStream::pair()?;
    let copies = Copies::None;
    let _middle = start(plan, Stage::Middle { copies, size }, middle_far, out)?;
    let _last = start(plan, Stage::Last { copies, size }, control_far, into)?;
    owner.admit(middle.try_clone()?).map_err(failed)?;
    owner.admit(control.try_clone()?).map_err(failed)?;
    let sender = owner.arena().open(middle, Signal::Futex).map_err(failed)?;
    let mut outgoing = ArenaOut {
        owner,
        sender,
        size,
    };
    measured(&mut outgoing, &[control], plan.turn)
}

struct ArenaOut {
    owner: ArenaOwner,
    sender: ArenaSender,
    size: usize,
}

impl Outgoing for ArenaOut {
    fn send(&mut self, head: [u8; HEAD_LEN]) -> io::Result<()> {
        let mut slot = free_slot(&self.owner, std::slice::from_mut(&mut self.sender))?;
        slot.write(0, &head).map_err(failed)?;
        slot.set_len(self.size).map_err(failed)?;
        self.sender.pass(&slot).map_err(failed)
    }
}

fn through_rings(plan: &PassingPlan, size: usize) -> io::Result<f64> {
    let (near, far) = UnixStream::pair()?;
    let (control, control_far) = UnixStream::pair()?;
    let (out, into) = UnixStream::pair()?;
    let copies = Copies::Two;
    let _middle = start(plan, Stage::Middle { copies, size }, far, out)?;
    let _last = start(plan, Stage::Last { copies, size }, control_far, into)?;
    // As much memory in both rings as the arena has.
    let geometry = Geometry::new(slot_len(size), SLOTS / 2).map_err(failed)?;
    let sender = ChannelSender::open(near, geometry, Signal::Futex).map_err(failed)?;
    measured(&mut RingOut { sender, size }, &[control], plan.turn)
}

struct RingOut {
    sender: ChannelSender,
    size: usize,
}

impl Outgoing for RingOut {
    fn send(&mut self, head: [u8; HEAD_LEN]) -> io::Result<()> {
        let mut lent = self.sender.lend(self.size).map_err(failed)?;
        lent.write(0, &head).map_err(failed)?;
        lent.commit(self.size).map_err(failed)
    }
}

fn through_sockets(plan: &PassingPlan, size: usize) -> io::Result<f64> {
    let (near, far) = kernel_pair()?;
    let (control, control_far) = UnixStream::pair()?;
    let (out, into) = kernel_pair()?;
    let copies = Copies::Four;
    let _middle = start(plan, Stage::Middle { copies, size }, far, out)?;
    let _last = start(plan, Stage::Last { copies, size }, control_far, into)?;
    let message = vec![7; size];
    let mut outgoing = SocketOut {
        socket: near,
        message,
    };
    measured(&mut outgoing, &[control], plan.turn)
}

struct SocketOut {
    socket: OwnedFd,
    message: Vec<u8>,
}

impl Outgoing for SocketOut {
    fn send(&mut self, head: [u8; HEAD_LEN]) -> io::Result<()> {
        self.message[..HEAD_LEN].copy_from_slice(&head);
        rustix::net::send(&self.socket, &self.message, SendFlags::NOSIGNAL)?;
        Ok(())
    }
}
