//! Messages on their way in.

use crate::blocks::{BlockMask, GroupMasks, Segment};
use crate::pdu::{Control, Flags, HEADER_LEN, VmtpHeader, header::USER_DATA};
use engine::{Block, CallFlags, CallNote, Deliveries, IncomingMessage, Instant, Note};

/// A message of which blocks have come.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) message: IncomingMessage,
    /// What its sender asks for.
    pub(crate) asked: CallNote,
    code: u32,
    segment: Segment,
    have: GroupMasks,
    /// Packet groups before its own that a Response stands for.
    pub(crate) group_count: u8,
    /// Blocks that have not come.
    missing: u32,
    /// Octets before its segment, which lie in the header.
    head: u64,
    /// Groups of which a packet has come lie below this one.
    pub(crate) begun: u16,
    /// Times that missing blocks were asked for in a row.
    pub(crate) retries: u32,
    pub(crate) last_packet_at: Option<Instant>,
}

impl Incoming {
    /// A message of which the packet with `header` is the first to come.
    pub(crate) fn new(message: IncomingMessage, header: &VmtpHeader) -> Incoming {
        let segment = segment_of(header);
        let groups = segment.groups();
        Incoming {
            message,
            asked: asked_by(header),
            code: header.code,
            group_count: 0,
            segment,
            have: GroupMasks::none(groups),
            missing: (0..groups).map(|group| segment.blocks(group).count()).sum(),
            head: 0,
            begun: 0,
            retries: 0,
            last_packet_at: None,
        }
    }

    /// The answer of a manager: its results, in the header, come before its list.
    pub(crate) fn of_manager(message: IncomingMessage, header: &VmtpHeader) -> Incoming {
        Incoming {
            head: match header.has_segment() {
                true => USER_DATA.len() as u64,
                false => 0,
            },
            ..Incoming::new(message, header)
        }
    }

    /// Takes the blocks of a packet of `group`; whether any of them are new. None if the packet does
    /// not fit the message.
    pub(crate) fn take(
        &mut self,
        header: &VmtpHeader,
        group: u16,
        deliveries: &mut Deliveries,
    ) -> Option<bool> {
        if segment_of(header) != self.segment || group >= self.segment.groups() {
            return None;
        }
        if self.segment.is_empty() {
            let range = header.message_in_header();
            if !header.has_segment() && !range.is_empty() && self.begun == 0 {
                deliveries.blocks.push(Block {
                    message: self.message,
                    message_len: range.len() as u64,
                    offset: 0,
                    range,
                });
            }
            self.begun = 1;
            return Some(true);
        }
        let all = self.segment.blocks(group);
        let octets = self.segment.octets(group, header.delivery);
        let fits = header.delivery.without(all).is_empty()
            && octets.next_multiple_of(8) == header.data_len() as u64;
        if !fits {
            return None;
        }
        if self.head > 0 && self.begun == 0 {
            deliveries.blocks.push(Block {
                message: self.message,
                message_len: self.head + self.segment.len(),
                offset: 0,
                range: USER_DATA,
            });
        }
        self.begun = self.begun.max(group + 1);
        let have = self.have.get(group);
        let fresh = header.delivery.without(have);
        self.have.set(group, have.or(fresh));
        self.missing -= fresh.count();
        self.deliver(group, header.delivery, fresh, deliveries);
        Some(!fresh.is_empty())
    }

    /// Names the octets of the `fresh` blocks in a packet that holds those of `delivery`; adjacent
    /// ones together.
    fn deliver(
        &self,
        group: u16,
        delivery: BlockMask,
        fresh: BlockMask,
        deliveries: &mut Deliveries,
    ) {
        for run in fresh.runs() {
            let before = delivery.and(BlockMask::first(run.start));
            let start = HEADER_LEN + self.segment.octets(group, before) as usize;
            let octets = self.segment.range_of(group, run);
            deliveries.blocks.push(Block {
                message: self.message,
                message_len: self.head + self.segment.len(),
                offset: self.head + octets.start,
                range: start..start + (octets.end - octets.start) as usize,
            });
        }
    }

    /// Blocks of the groups that have begun that have not come.
    pub(crate) fn missing_so_far(&self) -> u32 {
        let groups = 0..self.begun;
        let missing = groups.map(|group| self.segment.blocks(group).without(self.have(group)));
        missing.map(BlockMask::count).sum()
    }

    /// Whether it may be delivered as it is, although blocks are missing (MDM).
    pub(crate) fn is_deliverable_in_part(&self) -> bool {
        let is_partial = self.asked.flags.has(CallFlags::PARTIAL);
        is_partial && self.groups() == 1 && !self.have(0).is_empty()
    }

    /// Whether missing blocks may be asked for (NRT).
    pub(crate) fn is_repaired(&self) -> bool {
        !self.asked.flags.has(CallFlags::NO_REPAIR)
    }

    /// What its receiver is told.
    pub(crate) fn note(&self) -> Note {
        let delivered = (!self.is_whole()).then_some(self.have(0).0);
        Note {
            tag: Some(u64::from(self.code)),
            call: CallNote {
                delivered,
                ..self.asked
            },
            ..Note::default()
        }
    }

    /// The code of the packet that came first.
    pub(crate) fn code(&self) -> u32 {
        self.code
    }

    /// Packet groups of the message.
    pub(crate) fn groups(&self) -> u16 {
        self.segment.groups()
    }

    /// The blocks of a group that have come.
    pub(crate) fn have(&self, group: u16) -> BlockMask {
        self.have.get(group)
    }

    /// Whether all of a group has come.
    pub(crate) fn is_group_whole(&self, group: u16) -> bool {
        self.have.get(group) == self.segment.blocks(group)
    }

    /// Whether all of it has come.
    pub(crate) fn is_whole(&self) -> bool {
        self.missing == 0
    }
}

/// The segment that a packet says its message has.
pub(crate) fn segment_of(header: &VmtpHeader) -> Segment {
    Segment::new(match header.has_segment() {
        true => u64::from(header.segment_size),
        false => 0,
    })
}

/// What the sender of a packet asks for its message.
fn asked_by(header: &VmtpHeader) -> CallNote {
    let (control, flags) = (header.control, header.flags);
    let is_request = !control.is_response();
    let is_co_resident = is_request && flags.has(Flags::CO_RESIDENT);
    CallNote {
        flags: CallFlags::NONE
            .with_if(flags.has(Flags::CONDITIONAL), CallFlags::CONDITIONAL)
            .with_if(flags.has(Flags::PARTIAL), CallFlags::PARTIAL)
            .with_if(
                control.has(Control::NO_RETRANSMISSION),
                CallFlags::NO_REPAIR,
            )
            .with_if(header.checks_header_only, CallFlags::HEADER_CHECK)
            .with_if(
                is_request && flags.has(Flags::MANY_RESPONSES),
                CallFlags::MANY_REPLIES,
            )
            .with_if(
                is_request && control.has(Control::DELAY_RESPONSE),
                CallFlags::DELAYED_REPLIES,
            )
            .with_if(
                is_request && flags.has(Flags::PUBLIC_CODE),
                CallFlags::PUBLIC_CODE,
            ),
        priority: control.priority(),
        co_resident: is_co_resident.then(|| header.co_resident()),
        ..CallNote::default()
    }
}
