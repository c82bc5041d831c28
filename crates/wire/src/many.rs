//! Wires side by side: one local address each.

use crate::{Arrival, Capabilities, PathReport, Wire, path_error};
use engine::{Address, Fragmentation, LocalAddress, PacketLen, Path};
use rustix::event::epoll;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// Wires that may be joined: each takes a descriptor, and a receive that finds nothing asks each. A
/// host has a handful of addresses.
const MEMBERS_MAX: usize = 64;

/// Receives from one wire in a row, at most, while it has packets; then the others are asked first.
const ROW_MAX: u32 = 16;

/// Several wires of one kind as one: the wire with index i is [`LocalAddress`] i, and a path says
/// which one carries its packets. A wire that ends takes its paths with it; the others go on. Wires may
/// join and leave later ([`Many::put`], [`Many::remove`]).
///
/// It has no [`crate::Receiver`]: no system call receives from several sockets.
#[derive(Debug)]
pub struct Many<W> {
    members: Vec<Member<W>>,
    /// Readable when a member has a packet, or has room again after it had none.
    epoll: OwnedFd,
    /// The member that had the last packet, and how many it had in a row.
    last: usize,
    in_row: u32,
    /// What all wires of the beginning can do; those that join later can no less.
    capabilities: Capabilities,
    /// What wires that join later are told.
    packet_len: Option<PacketLen>,
    fragmentation: Option<Fragmentation>,
    /// What removed wires dropped.
    unanswerable: u64,
}

#[derive(Debug)]
struct Member<W> {
    /// None after it was removed.
    wire: Option<W>,
    /// The number of the descriptor that `epoll` knows.
    watched: RawFd,
    awaits_room: bool,
    /// Its own error ended it, or it was removed.
    is_over: bool,
}

impl<W: Wire> Member<W> {
    /// Takes a wire, and lets `epoll` watch it.
    fn new(wire: W, epoll: &OwnedFd) -> io::Result<Member<W>> {
        let descriptor = wire.descriptor().ok_or(io::ErrorKind::Unsupported)?;
        watch(epoll, descriptor)?;
        Ok(Member {
            watched: descriptor.as_raw_fd(),
            wire: Some(wire),
            awaits_room: false,
            is_over: false,
        })
    }

    /// Its wire, unless it is over.
    fn live(&self) -> Option<&W> {
        self.wire.as_ref().filter(|_| !self.is_over)
    }

    /// The same, to use it.
    fn live_mut(&mut self) -> Option<&mut W> {
        self.wire.as_mut().filter(|_| !self.is_over)
    }
}

impl<W: Wire> Many<W> {
    /// Joins `wires`.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for none, or for more than 64, `Unsupported` for wires in virtual time, or when
    /// the process is out of descriptors.
    pub fn new(wires: Vec<W>) -> io::Result<Many<W>> {
        if !(1..=MEMBERS_MAX).contains(&wires.len()) {
            let count = wires.len();
            let text = format!("{count} wires cannot be joined; join 1 to {MEMBERS_MAX}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let both = |a: Capabilities, b: Capabilities| Capabilities {
            packet_max: a.packet_max.min(b.packet_max),
            segments_max: a.segments_max.min(b.segments_max),
            batch_bytes_max: a.batch_bytes_max.min(b.batch_bytes_max),
            receive_len: a.receive_len.max(b.receive_len),
        };
        let all = wires.iter().map(Wire::capabilities);
        let capabilities = all.reduce(both).expect("there is at least one");
        let members = wires.into_iter().map(|wire| Member::new(wire, &epoll));
        Ok(Many {
            members: members.collect::<io::Result<Vec<Member<W>>>>()?,
            epoll,
            last: 0,
            in_row: 0,
            capabilities,
            packet_len: None,
            fragmentation: None,
            unanswerable: 0,
        })
    }

    /// The wires, by the index of their local address, without those that were removed.
    pub fn wires(&self) -> impl Iterator<Item = &W> {
        self.members
            .iter()
            .filter_map(|member| member.wire.as_ref())
    }

    /// The same, to change how they send. Their descriptors must stay the same.
    pub fn wires_mut(&mut self) -> impl Iterator<Item = &mut W> {
        self.members
            .iter_mut()
            .filter_map(|member| member.wire.as_mut())
    }

    /// Joins another wire as the local address `at`: the next index, or that of a member that was removed
    /// or has ended. It is in no multicast group.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for another index, or a wire that can do less than those of the beginning,
    /// `AlreadyExists` for the index of a member that lives; else as of [`Many::new`].
    pub fn put(&mut self, at: LocalAddress, mut wire: W) -> io::Result<()> {
        let index = usize::from(at.0);
        let count = self.members.len();
        if index > count || index >= MEMBERS_MAX {
            let text =
                format!("no wire can join as {index}; the next index is {count} of {MEMBERS_MAX}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        if self
            .members
            .get(index)
            .is_some_and(|member| !member.is_over)
        {
            let text = format!("local address {index} has a wire; remove it first");
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
        }
        self.check_capabilities(&wire.capabilities())?;
        if let Some(packet_len) = self.packet_len {
            wire.set_packet_len(packet_len);
        }
        if let Some(fragmentation) = self.fragmentation {
            wire.set_fragmentation(fragmentation);
        }
        let member = Member::new(wire, &self.epoll)?;
        match self.members.get_mut(index) {
            Some(place) => *place = member,
            None => self.members.push(member),
        }
        Ok(())
    }

    /// Lets the wire of the local address `at` go; packets that it has received are lost. The last one
    /// that lives ends the whole.
    ///
    /// # Errors
    ///
    /// `NotFound` for an index without a wire.
    pub fn remove(&mut self, at: LocalAddress) -> io::Result<W> {
        let index = usize::from(at.0);
        self.end(index);
        let member = self.members.get_mut(index);
        let wire = member
            .and_then(|member| member.wire.take())
            .ok_or_else(|| {
                let text = format!("local address {index} has no wire");
                io::Error::new(io::ErrorKind::NotFound, text)
            })?;
        self.unanswerable += wire.unanswerable();
        Ok(wire)
    }

    /// Refuses a wire to which packets and batches could be too long.
    fn check_capabilities(&self, new: &Capabilities) -> io::Result<()> {
        let all = &self.capabilities;
        let fits = new.packet_max >= all.packet_max
            && new.segments_max >= all.segments_max
            && new.batch_bytes_max >= all.batch_bytes_max
            && new.receive_len <= all.receive_len;
        if fits {
            return Ok(());
        }
        let text =
            format!("a wire with {new:?} cannot join those with {all:?}; open one of their kind");
        Err(io::Error::new(io::ErrorKind::InvalidInput, text))
    }

    fn receive_from(&mut self, at: usize, buffer: &mut [u8]) -> io::Result<Arrival> {
        let Some(wire) = self.members[at].live_mut() else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        let arrival = wire.receive(buffer);
        match &arrival {
            Ok(_) => {}
            Err(error) if is_passing(error) => {}
            Err(_) => self.end(at),
        }
        let arrival = arrival?;
        Ok(Arrival {
            path: Path {
                local: LocalAddress(at as u16),
                ..arrival.path
            },
            ..arrival
        })
    }

    /// Lets go of a member whose own error ended it.
    fn end(&mut self, at: usize) {
        let Some(member) = self.members.get_mut(at) else {
            return;
        };
        member.is_over = true;
        if let Some(descriptor) = member.wire.as_ref().and_then(Wire::descriptor) {
            // It may be closed, and out of the set by that.
            let _ = epoll::delete(&self.epoll, descriptor);
        }
    }

    /// The error of a member; that of the whole when no member is left.
    fn scoped(&self, error: io::Error) -> io::Error {
        if is_passing(&error) || self.members.iter().all(|member| member.is_over) {
            return error;
        }
        let text = format!("a local address is gone: {error}");
        io::Error::new(io::ErrorKind::AddrNotAvailable, text)
    }

    /// Watches for room at a member, or no longer.
    fn await_room(&mut self, at: usize, awaits: bool) {
        let member = &mut self.members[at];
        if member.awaits_room == awaits {
            return;
        }
        member.awaits_room = awaits;
        if let Some(descriptor) = member.wire.as_ref().and_then(Wire::descriptor) {
            let mut flags = epoll::EventFlags::IN;
            flags.set(epoll::EventFlags::OUT, awaits);
            // It is in the set unless the member has ended.
            let data = epoll::EventData::new_u64(0);
            let _ = epoll::modify(&self.epoll, descriptor, data, flags);
        }
    }
}

/// Whether an error of a member leaves it as it is.
fn is_passing(error: &io::Error) -> bool {
    let kind = error.kind();
    matches!(kind, io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
        || path_error(error).is_some()
}

fn watch(epoll: &OwnedFd, descriptor: BorrowedFd<'_>) -> io::Result<()> {
    let data = epoll::EventData::new_u64(0);
    epoll::add(epoll, descriptor, data, epoll::EventFlags::IN)?;
    Ok(())
}

impl<W: Wire> Wire for Many<W> {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn send(&mut self, path: Path, slices: &[IoSlice<'_>], segment_size: usize) -> io::Result<()> {
        let at = usize::from(path.local.0);
        let count = self.members.len();
        let Some(wire) = self.members.get_mut(at).and_then(Member::live_mut) else {
            let text = format!(
                "no local address has index {at}; there were 0 to {}",
                count - 1
            );
            return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, text));
        };
        let sent = wire.send(Path::to(path.remote), slices, segment_size);
        let is_full = matches!(&sent, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
        self.await_room(at, is_full);
        sent.map_err(|error| {
            if !is_passing(&error) {
                self.end(at);
            }
            self.scoped(error)
        })
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Arrival> {
        let count = self.members.len();
        let first = match self.in_row {
            ROW_MAX.. => self.last + 1,
            _ => self.last,
        };
        for step in 0..count {
            let at = (first + step) % count;
            match self.receive_from(at, buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => {
                    self.in_row = if at == self.last && self.in_row < ROW_MAX {
                        self.in_row + 1
                    } else {
                        1
                    };
                    self.last = at;
                    return other.map_err(|error| self.scoped(error));
                }
            }
        }
        if self.members.iter().all(|member| member.is_over) {
            let text = "every local address is gone; open the wire anew";
            return Err(io::Error::new(io::ErrorKind::NotConnected, text));
        }
        // Room alone may have made the descriptor readable; the sender says so again if it has none.
        for at in 0..count {
            self.await_room(at, false);
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn poll_path_error(&mut self) -> Option<PathReport> {
        let reports = self.members.iter_mut().enumerate();
        reports.into_iter().find_map(|(at, member)| {
            let mut report = member.wire.as_mut()?.poll_path_error()?;
            report.path.local = LocalAddress(at as u16);
            Some(report)
        })
    }

    fn set_fragmentation(&mut self, fragmentation: Fragmentation) {
        self.fragmentation = Some(fragmentation);
        for wire in self.wires_mut() {
            wire.set_fragmentation(fragmentation);
        }
    }

    fn path_mtu(&mut self, path: Path) -> usize {
        let member = self.members.get_mut(usize::from(path.local.0));
        match member.and_then(|member| member.wire.as_mut()) {
            Some(wire) => wire.path_mtu(Path::to(path.remote)),
            None => self.capabilities().packet_max,
        }
    }

    fn unanswerable(&self) -> u64 {
        self.unanswerable + self.wires().map(Wire::unanswerable).sum::<u64>()
    }

    fn receive_drops(&self) -> Option<u64> {
        let counted = self.wires().filter_map(Wire::receive_drops);
        counted.reduce(|sum, drops| sum + drops)
    }

    fn set_packet_len(&mut self, packet_len: PacketLen) {
        self.packet_len = Some(packet_len);
        for wire in self.wires_mut() {
            wire.set_packet_len(packet_len);
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.epoll.as_fd())
    }

    fn has_buffered(&self) -> bool {
        let mut live = self.members.iter().filter_map(Member::live);
        live.any(Wire::has_buffered)
    }

    fn may_wait(&mut self) -> bool {
        let mut live = self.members.iter_mut().filter_map(Member::live_mut);
        live.all(Wire::may_wait)
    }

    /// Joins the group at every local address, or at none.
    fn join(&mut self, group: Address) -> io::Result<()> {
        for at in 0..self.members.len() {
            let member = &mut self.members[at];
            let Some(wire) = member.wire.as_mut() else {
                continue;
            };
            if let Err(error) = wire.join(group) {
                for member in &mut self.members[..at] {
                    // What was joined just now can be left.
                    let _ = member.wire.as_mut().map(|wire| wire.leave(group));
                }
                return Err(error);
            }
            if let Some(descriptor) = wire.descriptor()
                && descriptor.as_raw_fd() != member.watched
            {
                watch(&self.epoll, descriptor)?;
                member.watched = descriptor.as_raw_fd();
            }
        }
        Ok(())
    }

    fn leave(&mut self, group: Address) -> io::Result<()> {
        let left: Vec<io::Result<()>> = self.wires_mut().map(|wire| wire.leave(group)).collect();
        left.into_iter().collect()
    }

    crate::lacks! { references receiver }
}
