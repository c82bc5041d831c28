//! The member table of a counted group, and the status requests that members have to answer.

use super::config::{Config, Member, MemberState};
use crate::numbers::sync_before;
use engine::{Address, Instant};
use std::collections::{BTreeMap, VecDeque};

/// Departed members kept for the report.
const DEPARTED_MAX: usize = 1024;

/// An outstanding status request to the group.
#[derive(Clone, Copy, Debug)]
pub(super) struct StatusRequest {
    pub(super) sync: u32,
    /// All bytes below were sent before it or with it.
    pub(super) sent: u64,
    pub(super) at: Instant,
}

/// Outstanding requests at most; beyond it the oldest are dropped.
const REQUESTS_MAX: usize = 64;

/// What a member reported last.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemberRow {
    pub(super) key: u64,
    pub(super) start: u64,
    pub(super) rseq: u64,
    pub(super) alloc: u64,
    /// The sync of the last request it answered.
    pub(super) echo: u32,
    /// WTIMER expiries since its last control packet.
    pub(super) unanswered: u32,
    pub(super) done: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    table: BTreeMap<Address, MemberRow>,
    departed: VecDeque<Member>,
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

    /// Whether a receiver at `address` may join.
    pub(super) fn admits(&self, config: &Config, address: Address) -> bool {
        let room = self.table.len() < config.members_max || self.table.contains_key(&address);
        room && is_admitted(config, address)
    }

    /// Adds a member. One with another key at the same address has restarted and departs
    /// (0009, Counted groups).
    pub(super) fn join(&mut self, address: Address, member: MemberRow) -> Option<Member> {
        let old = self.table.insert(address, member);
        let old = old.filter(|old| old.key != member.key)?;
        Some(self.record_departure(address, &old, MemberState::Restarted))
    }

    /// Removes a member from the table.
    pub(super) fn remove(&mut self, address: Address, state: MemberState) -> Option<Member> {
        let old = self.table.remove(&address)?;
        Some(self.record_departure(address, &old, state))
    }

    fn record_departure(
        &mut self,
        address: Address,
        old: &MemberRow,
        state: MemberState,
    ) -> Member {
        if self.departed.len() == DEPARTED_MAX {
            self.departed.pop_front();
        }
        let member = Member {
            address,
            state,
            start: old.start,
            received: old.rseq,
        };
        self.departed.push_back(member);
        member
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
        let here = self.table.iter().map(|(&address, member)| Member {
            address,
            state: if member.done {
                MemberState::Done
            } else {
                MemberState::Member
            },
            start: member.start,
            received: member.rseq,
        });
        self.departed.iter().copied().chain(here).collect()
    }

    /// Adds an outstanding request.
    pub(super) fn record_request(&mut self, request: StatusRequest) {
        if self.requests.len() == REQUESTS_MAX {
            self.requests.pop_front();
        }
        self.requests.push_back(request);
    }

    /// The outstanding request with sync `echo`.
    pub(super) fn find_request(&self, echo: u32) -> Option<StatusRequest> {
        let found = self.requests.iter().find(|request| request.sync == echo);
        found.copied()
    }

    /// Removes the requests that all members answered and returns the newest of them.
    pub(super) fn take_answered(&mut self) -> Option<StatusRequest> {
        let echo = self
            .table
            .values()
            .map(|member| member.echo)
            .reduce(|a, b| if sync_before(a, b) { a } else { b })?;
        let mut answered = None;
        while let Some(&first) = self.requests.front() {
            if sync_before(echo, first.sync) {
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
            if sync_before(member.echo, sync) {
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

fn is_admitted(config: &Config, address: Address) -> bool {
    match (&config.admitted, address) {
        (None, _) => true,
        (Some(hosts), Address::Socket(socket)) => hosts.contains(&socket.ip()),
        (Some(_), Address::Station(_) | Address::Ether(_)) => false,
    }
}
