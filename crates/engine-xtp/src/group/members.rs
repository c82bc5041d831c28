//! The members of a counted group.

use super::config::{Config, Member, MemberState};
use crate::numbers::sync_before;
use engine::{Address, Instant};
use std::collections::{BTreeMap, VecDeque};

/// Members that are gone and still reported.
const DEPARTED_MAX: usize = 1024;

/// A status request to the group.
#[derive(Clone, Copy, Debug)]
pub(super) struct StatusRequest {
    pub(super) sync: u32,
    /// Everything below was sent before it or with it.
    pub(super) sent: u64,
    pub(super) at: Instant,
}

/// Requests remembered at most. Of more than that, the oldest are not needed any longer.
const REQUESTS_MAX: usize = 64;

/// What one member said.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemberRow {
    pub(super) key: u64,
    pub(super) start: u64,
    pub(super) rseq: u64,
    pub(super) alloc: u64,
    /// The last request it answered.
    pub(super) echo: u32,
    /// Requests it left without an answer since it was heard last.
    pub(super) unanswered: u32,
    pub(super) done: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    table: BTreeMap<Address, MemberRow>,
    departed: VecDeque<Member>,
    pub(super) requests: VecDeque<StatusRequest>,
}

/// What the table says together.
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

    /// Whether another member may join from `address`.
    pub(super) fn admits(&self, config: &Config, address: Address) -> bool {
        let room = self.table.len() < config.members_max || self.table.contains_key(&address);
        room && is_admitted(config, address)
    }

    /// Adds a member; the one of another life at the same address is gone.
    pub(super) fn join(&mut self, address: Address, member: MemberRow) -> Option<Member> {
        let old = self.table.insert(address, member);
        let old = old.filter(|old| old.key != member.key)?;
        Some(self.record_departure(address, &old, MemberState::Restarted))
    }

    /// Takes a member out of the table.
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

    /// The least of what all members said; None without members.
    pub(super) fn minimum(&self) -> Option<GroupMinimum> {
        let all = || self.table.values();
        Some(GroupMinimum {
            rseq: all().map(|member| member.rseq).min()?,
            alloc: all().map(|member| member.alloc).min()?,
            done: all().all(|member| member.done),
        })
    }

    /// Everybody, those that are gone first.
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

    /// Remembers a request.
    pub(super) fn record_request(&mut self, request: StatusRequest) {
        if self.requests.len() == REQUESTS_MAX {
            self.requests.pop_front();
        }
        self.requests.push_back(request);
    }

    /// The request with sync `echo`, if it is remembered.
    pub(super) fn find_request(&self, echo: u32) -> Option<StatusRequest> {
        let found = self.requests.iter().find(|request| request.sync == echo);
        found.copied()
    }

    /// Forgets requests that everybody answered; gives the newest of them.
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

    /// Counts a try for everybody who did not answer the oldest request. Gives those with more than
    /// `retries_max`, and how many are late.
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

    /// The most tries any member that did not answer has left.
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
