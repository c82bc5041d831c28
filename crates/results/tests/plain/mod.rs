//! A plan and a trial as most races have them, of which tests change what they are about.
#![allow(dead_code, reason = "each test uses its own part")]

use results::{BlockPlan, Cell, Plan, SCHEMA_VERSION, Trial};
use std::collections::BTreeMap;

pub fn plan(transports: &[&str]) -> Plan {
    Plan {
        version: SCHEMA_VERSION,
        command: vec!["towpath".into(), "race".into()],
        seed: 1,
        transports: transports.iter().map(|&name| name.to_owned()).collect(),
        baseline: transports[0].to_owned(),
        control: true,
        workloads: vec!["throughput".into()],
        sizes: vec![64, 1024, 16_384],
        blocks: BlockPlan {
            min: 5,
            max: 20,
            looks: vec![5, 10, 20],
        },
        alpha: 0.05,
        equal_within: 0.03,
        time_s: 60.0,
        trial_s: 0.2,
        options: BTreeMap::new(),
    }
}

pub fn cell(transport: &str, workload: &str, size: u64) -> Cell {
    Cell::default()
        .with(Cell::TRANSPORT, transport)
        .with(Cell::WORKLOAD, workload)
        .with(Cell::SIZE, size)
}

/// A trial that measured nothing.
pub fn trial(block: u32, cell: Cell) -> Trial {
    Trial {
        span_s: 0.2,
        ..Trial::empty(0, block, cell)
    }
}
