//! Scenarios: results, disturbances, reproducibility, and agreement with a real wire.

mod broken_seeds;
mod callings;
mod calls;
mod cells;
mod congestion;
mod disturbances;
mod fitted_hosts;
mod forwarding;
mod golden;
mod hostile_text;
mod influence;
mod laws;
mod lockstep;
mod options;
mod paths;
mod recorder;
mod scenarios;
mod shortcut;
mod swarm;
mod texts;
mod traffic;
mod transaction_packets;
mod udp;
mod versions;
