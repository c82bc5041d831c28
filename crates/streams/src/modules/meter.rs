//! `meter`: counts what passes.

use crate::message::Message;
use crate::module::{Context, Module, ModuleInfo, Side};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What passed a meter, by direction: up, and down.
#[derive(Debug, Default)]
pub struct MeterCounts {
    messages: [AtomicU64; 2],
    octets: [AtomicU64; 2],
}

impl MeterCounts {
    /// Messages in a direction.
    pub fn messages(&self, side: Side) -> u64 {
        self.messages[side as usize].load(Ordering::Relaxed)
    }

    /// Octets in a direction, control parts included.
    pub fn octets(&self, side: Side) -> u64 {
        self.octets[side as usize].load(Ordering::Relaxed)
    }
}

/// Counts messages of data and of protocols, and their octets, in both directions.
#[derive(Debug, Default)]
pub struct Meter {
    counts: Arc<MeterCounts>,
}

impl Meter {
    /// Its counts, readable while it is on a stream.
    pub fn counts(&self) -> Arc<MeterCounts> {
        Arc::clone(&self.counts)
    }
}

impl Module for Meter {
    fn info(&self) -> ModuleInfo {
        ModuleInfo::put_only("meter")
    }

    fn put(&mut self, context: &mut Context<'_>, side: Side, message: Message) {
        let at = side as usize;
        let add = |counter: &AtomicU64, more: u64| {
            counter.fetch_add(more, Ordering::Relaxed);
        };
        if message.kind().is_data() {
            add(&self.counts.messages[at], 1);
            add(&self.counts.octets[at], message.octets() as u64);
        }
        context.put_next(side, message);
    }
}
