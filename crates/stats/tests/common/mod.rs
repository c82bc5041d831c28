//! Synthetic races: plans, and trials with noise drawn from a seed.
#![allow(dead_code, reason = "each test binary uses a part")]

#[path = "../../../results/tests/plain/mod.rs"]
mod plain;

pub use plain::plan;
use random::SplitMix64;
use results::{Plan, Trial, metric};
use std::collections::BTreeMap;

pub fn trial(block: u32, transport: &str, workload: &str, size: u64, value: f64) -> Trial {
    Trial {
        metrics: BTreeMap::from([(metric::primary(workload).to_owned(), value)]),
        ..plain::trial(block, plain::cell(transport, workload, size))
    }
}

/// The noise of a machine: lognormal, and in a share of the trials a slow phase.
pub struct Noise {
    pub random: SplitMix64,
    pub deviation: f64,
    pub slow_share: f64,
    pub slow_rate: f64,
}

impl Noise {
    /// 3 % noise, and 12 % of the trials at 0.8 of the speed.
    pub fn usual(seed: u64) -> Noise {
        Noise {
            random: SplitMix64::new(seed),
            deviation: 0.03,
            slow_share: 0.12,
            slow_rate: 0.8,
        }
    }

    /// 3 % noise alone.
    pub fn calm(seed: u64) -> Noise {
        Noise {
            slow_share: 0.0,
            ..Noise::usual(seed)
        }
    }

    pub fn factor(&mut self) -> f64 {
        let slow = if self.random.unit() < self.slow_share {
            self.slow_rate
        } else {
            1.0
        };
        // Box and Muller.
        let radius = (-2.0 * (1.0 - self.random.unit()).ln()).sqrt();
        let normal = radius * (std::f64::consts::TAU * self.random.unit()).cos();
        slow * (self.deviation * normal).exp()
    }
}

/// All trials of one block: every transport of the plan at every size, and the control. A
/// transport's speed is `speed(transport, size)`.
pub fn block(
    plan: &Plan,
    number: u32,
    noise: &mut Noise,
    speed: impl Fn(&str, u64) -> f64,
) -> Vec<Trial> {
    let mut trials = Vec::new();
    for &size in &plan.sizes {
        for transport in &plan.transports {
            let rate = 1e6 * speed(transport, size) * noise.factor();
            trials.push(trial(number, transport, "throughput", size, rate));
        }
        let rate = 1e6 * speed(&plan.baseline, size) * noise.factor();
        let mut control = trial(number, &plan.baseline, "throughput", size, rate);
        control.control = true;
        trials.push(control);
    }
    trials
}
