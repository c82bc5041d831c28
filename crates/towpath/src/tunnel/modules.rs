//! Modules on the circuits of a tunnel: when they have something to do, and what they counted.

use super::{ProxiedConnection, Tunnel};
use crate::push::ModuleStack;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Octets that modules are given at once: what they put into one frame.
const MODULE_CHUNK_MAX: usize = 64 << 10;

impl Tunnel {
    /// Pushes modules on the circuits of connections that come from now on. Modules that change octets
    /// are the same at the other end, or its connections are reset.
    pub fn set_modules(&mut self, modules: Option<ModuleStack>) {
        if modules.is_some() {
            self.chunk_len = self.chunk_len.min(MODULE_CHUNK_MAX);
        }
        self.modules = modules;
    }

    /// What the modules counted, of all connections together.
    pub fn module_counts(&self) -> BTreeMap<String, u64> {
        let mut all = self.module_counts.clone();
        for connection in self.connections.values() {
            add_counts(&mut all, connection.module_counts());
        }
        all
    }

    /// Keeps what the modules of a connection counted that is over.
    pub(super) fn keep_counts(&mut self, connection: &ProxiedConnection) {
        add_counts(&mut self.module_counts, connection.module_counts());
    }

    /// `limit`, or the time until a module of a connection has something to do.
    pub(super) fn limit_by_modules(&self, limit: Duration) -> Duration {
        if self.modules.is_none() {
            return limit;
        }
        let all = self.connections.values();
        let first = all.filter_map(ProxiedConnection::next_deadline).min();
        first.map_or(limit, |first| {
            limit.min(first.saturating_duration_since(Instant::now()))
        })
    }

    /// Adds the connections of which a module has something to do.
    pub(super) fn add_due(&self, todo: &mut Vec<u64>) {
        if self.modules.is_none() {
            return;
        }
        let now = Instant::now();
        let is_due =
            |connection: &ProxiedConnection| connection.next_deadline().is_some_and(|at| at <= now);
        let due = self.connections.iter().filter(|(_, one)| is_due(one));
        todo.extend(due.map(|(token, _)| *token));
    }
}

fn add_counts(all: &mut BTreeMap<String, u64>, more: BTreeMap<String, u64>) {
    for (name, count) in more {
        *all.entry(name).or_default() += count;
    }
}
