//! Scenarios: what they give, what befalls them, that they repeat, and that they are as on a wire.

mod congestion;
mod disturbances;
mod golden;
mod laws;
mod lockstep;
mod options;
mod scenarios;
mod swarm;
mod versions;
