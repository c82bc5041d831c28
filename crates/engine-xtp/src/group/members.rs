//! The member table of a counted group, and the status requests that members have to answer.

use super::admission::is_admitted;
use super::config::{Config, Member, MemberState};
use super::introspection::MemberView;
use super::repair_limit::RepairAccount;
use super::source_share::SourcePrefix;
use crate::config::ErrorControl;
use crate::numbers::{Key, SyncNumber};
use crate::pdu::TrafficSpec;
use engine::{Address, AssociationId, Instant};
use std::collections::{BTreeMap, VecDeque};

/// Departed members kept for the report. Their keys are answered as long.
const DEPARTED_MAX: usize = 1024;

/// The keys that an endpoint made for its own streams and for the members of its groups.
pub(super) type SenderKeys = BTreeMap<Key, AssociationId>;

/// An outstanding status request to the group.
#[derive(Clone, Copy, Debug)]
pub(super) struct StatusRequest {
    pub(super) sync: SyncNumber,
    /// All bytes below were sent before it or with it.
    pub(super) sent: u64,
    pub(super) at: Instant,
}

/// Outstanding requests at most; beyond it the oldest are dropped.
const REQUESTS_MAX: usize = 64;

/// What a member reported last.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemberRow {
    /// Its own key, from JCNTL.
    pub(super) key: Key,
    /// The key granted to it, which its control packets carry (0018, Keys).
    pub(super) granted_key: Key,
    pub(super) start: u64,
    pub(super) rseq: u64,
    pub(super) alloc: u64,
    /// The sync of the last request it answered.
    pub(super) echo: SyncNumber,
    /// WTIMER expiries since its last control packet.
    pub(super) unanswered: u32,
    pub(super) done: bool,
    pub(super) repairs: RepairAccount,
    /// A JCNTL with another key came from its address, and was granted.
    pub(super) rejoin: Option<Rejoin>,
}

/// A member that may have lost its state and joined again. It takes the place of the old one with
/// the first packet that carries its granted key (0018, Keys).
#[derive(Clone, Copy, Debug)]
pub(super) struct Rejoin {
    pub(super) key: Key,
    pub(super) granted_key: Key,
    pub(super) start: u64,
    pub(super) alloc: u64,
    pub(super) traffic: TrafficSpec,
}

#[derive(Clone, Copy, Debug)]
struct DepartedMember {
    member: Member,
    granted_key: Key,
    repairs: RepairAccount,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    table: BTreeMap<Address, MemberRow>,
    departed: VecDeque<DepartedMember>,
    pub(super) requests: VecDeque<StatusRequest>,
}

/// The least of what all members reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GroupMinimum {
    pub(super) rseq: u64,
    pub(super) alloc: u64,
    pub(super) done: bool,
}

impl Members {
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn get(&self, address: Address) -> Option<&MemberRow> {
        self.table.get(&address)
    }

    pub(super) fn get_mut(&mut self, address: Address) -> Option<&mut MemberRow> {
        self.table.get_mut(&address)
    }

    /// Whether a receiver at `address` with the key `key` may join the stream `stream`. Hosts that
    /// were excluded may not.
    pub(super) fn admits(&self, config: &Config, address: Address, key: Key, stream: Key) -> bool {
        let room = self.table.len() < config.members_max || self.table.contains_key(&address);
        let host = SourcePrefix::from(address);
        let is_excluded = |old: &DepartedMember| {
            old.member.state == MemberState::Excluded && host == old.member.address.into()
        };
        room && is_admitted(config, address, key, stream) && !self.departed.iter().any(is_excluded)
    }

    /// Adds a member. It takes on the account of one that left the same host.
    pub(super) fn join(&mut self, address: Address, member: MemberRow) {
        let host = SourcePrefix::from(address);
        let mut left = self.departed.iter().rev();
        let known = left.find(|old| host == old.member.address.into());
        let repairs = known.map_or(member.repairs, |old| old.repairs);
        self.table.insert(address, MemberRow { repairs, ..member });
    }

    /// Removes a member from the table. Its key stays among `keys` as long as the report has it.
    pub(super) fn remove(
        &mut self,
        address: Address,
        state: MemberState,
        keys: &mut SenderKeys,
    ) -> Option<Member> {
        let old = self.table.remove(&address)?;
        if let Some(rejoin) = old.rejoin {
            keys.remove(&rejoin.granted_key);
        }
        if self.departed.len() == DEPARTED_MAX
            && let Some(forgotten) = self.departed.pop_front()
        {
            keys.remove(&forgotten.granted_key);
        }
        let member = Member {
            address,
            state,
            start: old.start,
            received: old.rseq,
        };
        self.departed.push_back(DepartedMember {
            member,
            granted_key: old.granted_key,
            repairs: old.repairs,
        });
        Some(member)
    }

    /// All keys granted to members, present and departed.
    pub(super) fn granted_keys(&self) -> impl Iterator<Item = Key> {
        let here = self.table.values().flat_map(|member| {
            let rejoin = member.rejoin.map(|rejoin| rejoin.granted_key);
            [member.granted_key].into_iter().chain(rejoin)
        });
        here.chain(self.departed.iter().map(|old| old.granted_key))
    }

    /// Whether the member at `address` has asked for more retransmissions than it may, now that
    /// `sent` bytes were sent and a window has `window` bytes. A member without others harms none.
    pub(super) fn asks_too_much(&self, config: &Config, address: Address, sent: u64) -> bool {
        let Some(member) = self.table.get(&address).filter(|_| self.table.len() > 1) else {
            return false;
        };
        // Go-back-n sends far more again than was lost, so there is nothing to compare.
        let is_counted = config.error == ErrorControl::Selective;
        let others = self.table.iter().filter(|(other, _)| **other != address);
        let next_most = || others.map(|(_, other)| other.repairs.lacked()).max();
        let is_excessive = || {
            let next_most = next_most().unwrap_or(0);
            member.repairs.is_excessive(next_most, sent, config.window)
        };
        member.repairs.is_stubborn() || is_counted && is_excessive()
    }

    /// The minimum over all members; None without members.
    pub(super) fn minimum(&self) -> Option<GroupMinimum> {
        let all = || self.table.values();
        Some(GroupMinimum {
            rseq: all().map(|member| member.rseq).min()?,
            alloc: all().map(|member| member.alloc).min()?,
            done: all().all(|member| member.done),
        })
    }

    /// The report: departed members first, then the present ones.
    pub(super) fn report(&self) -> Vec<Member> {
        let here = self.table.iter();
        let here = here.map(|(&address, row)| present_member(address, row));
        let departed = self.departed.iter().map(|old| old.member);
        departed.chain(here).collect()
    }

    /// At most `max` members of the report, with what only this endpoint knows of them.
    pub(super) fn views(&self, max: usize) -> Vec<MemberView> {
        let departed = self.departed.iter().map(|old| MemberView {
            member: old.member,
            allocation: None,
            unanswered: 0,
            lacked_bytes: old.repairs.lacked(),
        });
        let here = self.table.iter().map(|(&address, row)| MemberView {
            member: present_member(address, row),
            allocation: Some(row.alloc),
            unanswered: row.unanswered,
            lacked_bytes: row.repairs.lacked(),
        });
        departed.chain(here).take(max).collect()
    }

    /// Adds an outstanding request.
    pub(super) fn record_request(&mut self, request: StatusRequest) {
        if self.requests.len() == REQUESTS_MAX {
            self.requests.pop_front();
        }
        self.requests.push_back(request);
    }

    /// The outstanding request with sync `echo`.
    pub(super) fn find_request(&self, echo: SyncNumber) -> Option<StatusRequest> {
        let found = self.requests.iter().find(|request| request.sync == echo);
        found.copied()
    }

    /// Removes the requests that all members answered and returns the newest of them.
    pub(super) fn take_answered(&mut self) -> Option<StatusRequest> {
        let echo = self
            .table
            .values()
            .map(|member| member.echo)
            .reduce(|a, b| if a.is_before(b) { a } else { b })?;
        let mut answered = None;
        while let Some(&first) = self.requests.front() {
            if echo.is_before(first.sync) {
                break;
            }
            answered = self.requests.pop_front();
        }
        answered
    }

    /// Called when WTIMER expires: counts it for each member that did not answer the oldest
    /// request. Returns the members beyond `retries_max`, and how many did not answer.
    pub(super) fn count_unanswered(&mut self, retries_max: u32) -> (Vec<Address>, usize) {
        let Some(sync) = self.requests.front().map(|request| request.sync) else {
            return (Vec::new(), 0);
        };
        let mut silent = Vec::new();
        let mut late = 0;
        for (&address, member) in &mut self.table {
            if member.echo.is_before(sync) {
                late += 1;
                member.unanswered += 1;
                if member.unanswered > retries_max {
                    silent.push(address);
                }
            }
        }
        (silent, late)
    }

    /// The highest count of unanswered requests of any member.
    pub(super) fn unanswered_max(&self) -> u32 {
        let unanswered = self.table.values().map(|member| member.unanswered);
        unanswered.max().unwrap_or(0)
    }
}

fn present_member(address: Address, row: &MemberRow) -> Member {
    Member {
        address,
        state: match row.done {
            true => MemberState::Done,
            false => MemberState::Member,
        },
        start: row.start,
        received: row.rseq,
    }
}
