//! Wires side by side: one local address each.

use crate::{Arrival, Capabilities, PathReport, Receiver, Wire, path_error};
use engine::{Address, LocalAddress, PacketLen, Path};
use rustix::event::epoll;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// Wires that may be joined: each takes a descriptor, and a receive that finds nothing asks each. A
/// host has a handful of addresses.
const MEMBERS_MAX: usize = 64;

/// Receives from one wire in a row, at most, while it has packets; then the others are asked first.
const ROW_MAX: u32 = 16;

/// Several wires of one kind as one: the wire with index i is [`LocalAddress`] i, and a path says
/// which one carries its packets. A wire that ends takes its paths with it; the others go on.
///
/// It has no [`Receiver`]: no system call receives from several sockets.
#[derive(Debug)]
pub struct Many<W> {
    members: Vec<Member<W>>,
    /// Readable when a member has a packet, or has room again after it had none.
    epoll: OwnedFd,
    /// The member that had the last packet, and how many it had in a row.
    last: usize,
    in_row: u32,
}

#[derive(Debug)]
struct Member<W> {
    wire: W,
    /// The number of the descriptor that `epoll` knows.
    watched: RawFd,
    awaits_room: bool,
    /// Its own error ended it.
    is_over: bool,
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
        let mut members = Vec::with_capacity(wires.len());
        for wire in wires {
            let descriptor = wire.descriptor().ok_or(io::ErrorKind::Unsupported)?;
            watch(&epoll, descriptor)?;
            members.push(Member {
                watched: descriptor.as_raw_fd(),
                wire,
                awaits_room: false,
                is_over: false,
            });
        }
        Ok(Many {
            members,
            epoll,
            last: 0,
            in_row: 0,
        })
    }

    /// The wires, by the index of their local address.
    pub fn wires(&self) -> impl Iterator<Item = &W> {
        self.members.iter().map(|member| &member.wire)
    }

    /// The same, to change how they send. Their descriptors must stay the same.
    pub fn wires_mut(&mut self) -> impl Iterator<Item = &mut W> {
        self.members.iter_mut().map(|member| &mut member.wire)
    }

    fn receive_from(&mut self, at: usize, buffer: &mut [u8]) -> io::Result<Arrival> {
        let member = &mut self.members[at];
        if member.is_over {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let arrival = member.wire.receive(buffer);
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
        let member = &mut self.members[at];
        member.is_over = true;
        if let Some(descriptor) = member.wire.descriptor() {
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
        if let Some(descriptor) = member.wire.descriptor() {
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
        let all = self.members.iter().map(|member| member.wire.capabilities());
        let both = |a: Capabilities, b: Capabilities| Capabilities {
            packet_max: a.packet_max.min(b.packet_max),
            segments_max: a.segments_max.min(b.segments_max),
            batch_bytes_max: a.batch_bytes_max.min(b.batch_bytes_max),
            receive_len: a.receive_len.max(b.receive_len),
        };
        all.reduce(both).expect("there is at least one")
    }

    fn send(&mut self, path: Path, slices: &[IoSlice<'_>], segment_size: usize) -> io::Result<()> {
        let at = usize::from(path.local.0);
        let count = self.members.len();
        let Some(member) = self.members.get_mut(at).filter(|member| !member.is_over) else {
            let text = format!(
                "no local address has index {at}; there were 0 to {}",
                count - 1
            );
            return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, text));
        };
        let sent = member
            .wire
            .send(Path::to(path.remote), slices, segment_size);
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
            let mut report = member.wire.poll_path_error()?;
            report.path.local = LocalAddress(at as u16);
            Some(report)
        })
    }

    fn set_fragmentation(&mut self, fragmentation: engine::Fragmentation) {
        for member in &mut self.members {
            member.wire.set_fragmentation(fragmentation);
        }
    }

    fn path_mtu(&mut self, path: Path) -> usize {
        match self.members.get_mut(usize::from(path.local.0)) {
            Some(member) => member.wire.path_mtu(Path::to(path.remote)),
            None => self.capabilities().packet_max,
        }
    }

    fn unanswerable(&self) -> u64 {
        let each = self.members.iter().map(|member| member.wire.unanswerable());
        each.sum()
    }

    fn set_packet_len(&mut self, packet_len: PacketLen) {
        for member in &mut self.members {
            member.wire.set_packet_len(packet_len);
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.epoll.as_fd())
    }

    fn has_buffered(&self) -> bool {
        let mut members = self.members.iter();
        members.any(|member| !member.is_over && member.wire.has_buffered())
    }

    fn may_wait(&mut self) -> bool {
        let mut members = self.members.iter_mut();
        members.all(|member| member.is_over || member.wire.may_wait())
    }

    /// Joins the group at every local address, or at none.
    fn join(&mut self, group: Address) -> io::Result<()> {
        for at in 0..self.members.len() {
            let member = &mut self.members[at];
            let joined = member.wire.join(group);
            if let Err(error) = joined {
                for member in &mut self.members[..at] {
                    // What was joined just now can be left.
                    let _ = member.wire.leave(group);
                }
                return Err(error);
            }
            if let Some(descriptor) = member.wire.descriptor()
                && descriptor.as_raw_fd() != member.watched
            {
                watch(&self.epoll, descriptor)?;
                member.watched = descriptor.as_raw_fd();
            }
        }
        Ok(())
    }

    fn leave(&mut self, group: Address) -> io::Result<()> {
        let left = self.members.iter_mut();
        let left: Vec<io::Result<()>> = left.map(|member| member.wire.leave(group)).collect();
        left.into_iter().collect()
    }

    fn receiver(&self) -> Option<Box<dyn Receiver>> {
        None
    }
}
