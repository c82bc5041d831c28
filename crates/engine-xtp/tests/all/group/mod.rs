//! Groups in virtual time: one sender or many, up to a hundred receivers, and what the medium and
//! the hosts do to them.

mod members;
mod plan;
mod silence;
mod swarm;
mod world;
