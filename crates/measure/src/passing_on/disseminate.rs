//! One process that sends each message to several others, which read it where it lies.

use super::forward::Copies;
use super::links::{SLOTS, failed, free_slot, kernel_pair, slot_len};
use super::source::{HEAD_LEN, Outgoing, measured};
use super::stage::{Stage, StageProcess, start};
use super::{PassingPlan, TurnTime};
use rustix::net::SendFlags;
use serde::Serialize;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use towpath::channel::{ArenaOwner, ArenaSender, ChannelSender, Geometry, Signal};

/// By what a message gets to several processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Carrier {
    /// It is written into a slot of one arena, whose number each of them gets.
    Arena,
    /// It is written into a ring for each of them.
    Rings,
    /// It is sent through a Unix socket to each of them.
    Sockets,
}

impl Carrier {
    /// All of them.
    pub const ALL: [Carrier; 3] = [Carrier::Arena, Carrier::Rings, Carrier::Sockets];

    /// Its name in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Carrier::Arena => "arena",
            Carrier::Rings => "rings",
            Carrier::Sockets => "sockets",
        }
    }

    /// The way of forwarding whose last process reads what comes by this.
    fn read_as(self) -> Copies {
        match self {
            Carrier::Arena => Copies::None,
            Carrier::Rings => Copies::Two,
            Carrier::Sockets => Copies::Four,
        }
    }
}

/// One turn.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct DisseminateTurn {
    /// By what messages get there.
    pub carrier: Carrier,
    /// Processes that get each message.
    pub receivers: u32,
    /// Of which message, when and how long.
    #[serde(flatten)]
    pub time: TurnTime,
}

/// Measures once.
pub(super) fn turn(
    plan: &PassingPlan,
    receivers: u32,
    carrier: Carrier,
    (size, block): (usize, u32),
) -> io::Result<DisseminateTurn> {
    let started = (0..receivers).map(|_| Receiver::start(plan, carrier, size));
    let started: Vec<Receiver> = started.collect::<io::Result<_>>()?;
    let mut links = Vec::new();
    let mut controls = Vec::new();
    let mut processes = Vec::new();
    for receiver in started {
        links.push(receiver.link);
        controls.push(receiver.control);
        processes.push(receiver.process);
    }
    let message = vec![7; size];
    let message_us = match carrier {
        Carrier::Arena => {
            let mut outgoing = ArenaToAll::open(message, links, &controls)?;
            measured(&mut outgoing, &controls, plan.turn)?
        }
        Carrier::Rings => {
            let mut outgoing = RingsToAll::open(message, links)?;
            measured(&mut outgoing, &controls, plan.turn)?
        }
        Carrier::Sockets => measured(&mut SocketsToAll { links, message }, &controls, plan.turn)?,
    };
    drop(processes);
    Ok(DisseminateTurn {
        carrier,
        receivers,
        time: TurnTime::new(size, block, message_us),
    })
}

/// One of the other processes, and what leads to it.
struct Receiver {
    link: OwnedFd,
    control: UnixStream,
    process: StageProcess,
}

impl Receiver {
    fn start(plan: &PassingPlan, carrier: Carrier, size: usize) -> io::Result<Receiver> {
        let (control, control_far) = UnixStream::pair()?;
        let (link, link_far) = match carrier {
            Carrier::Arena | Carrier::Rings => {
                let (near, far) = UnixStream::pair()?;
                (near.into(), far.into())
            }
            Carrier::Sockets => kernel_pair()?,
        };
        let copies = carrier.read_as();
        let process = start(plan, Stage::Last { copies, size }, control_far, link_far)?;
        Ok(Receiver {
            link,
            control,
            process,
        })
    }
}

struct ArenaToAll {
    owner: ArenaOwner,
    senders: Vec<ArenaSender>,
    message: Vec<u8>,
}

impl ArenaToAll {
    fn open(message: Vec<u8>, links: Vec<OwnedFd>, controls: &[UnixStream]) -> io::Result<Self> {
        let geometry = Geometry::new(slot_len(message.len()), SLOTS).map_err(failed)?;
        let mut owner = ArenaOwner::create(geometry).map_err(failed)?;
        let mut senders = Vec::new();
        for (link, control) in links.into_iter().zip(controls) {
            owner.admit(control.try_clone()?).map_err(failed)?;
            let sender = owner.arena().open(link.into(), Signal::Futex);
            senders.push(sender.map_err(failed)?);
        }
        Ok(Self {
            owner,
            senders,
            message,
        })
    }
}

impl Outgoing for ArenaToAll {
    /// Written once; the slot is free again when the slowest has read it.
    fn send(&mut self, head: [u8; HEAD_LEN]) -> io::Result<()> {
        self.message[..HEAD_LEN].copy_from_slice(&head);
        let mut slot = free_slot(&self.owner, &mut self.senders)?;
        slot.write(0, &self.message).map_err(failed)?;
        for sender in &mut self.senders {
            sender.pass(&slot).map_err(failed)?;
        }
        Ok(())
    }
}

struct RingsToAll {
    senders: Vec<ChannelSender>,
    message: Vec<u8>,
}

impl RingsToAll {
    /// Rings of as many messages as the arena has slots.
    fn open(message: Vec<u8>, links: Vec<OwnedFd>) -> io::Result<Self> {
        let geometry = Geometry::new(slot_len(message.len()), SLOTS).map_err(failed)?;
        let open = |link: OwnedFd| {
            ChannelSender::open(link.into(), geometry, Signal::Futex).map_err(failed)
        };
        let senders = links.into_iter().map(open).collect::<io::Result<_>>()?;
        Ok(Self { senders, message })
    }
}

impl Outgoing for RingsToAll {
    fn send(&mut self, head: [u8; HEAD_LEN]) -> io::Result<()> {
        self.message[..HEAD_LEN].copy_from_slice(&head);
        for sender in &mut self.senders {
            sender.send(&self.message).map_err(failed)?;
        }
        Ok(())
    }
}

struct SocketsToAll {
    links: Vec<OwnedFd>,
    message: Vec<u8>,
}

impl Outgoing for SocketsToAll {
    fn send(&mut self, head: [u8; HEAD_LEN]) -> io::Result<()> {
        self.message[..HEAD_LEN].copy_from_slice(&head);
        for link in &self.links {
            rustix::net::send(link, &self.message, SendFlags::NOSIGNAL)?;
        }
        Ok(())
    }
}
