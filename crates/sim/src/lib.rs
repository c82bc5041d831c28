//! A discrete-event simulator: the same engines as on a real wire, over modelled media, in virtual
//! time.
//!
//! The terms are those of LANSF, its predecessor: stations with chips, a medium between them,
//! patterns of traffic, seeds.
//!
//! * [`network`] - stations on a medium and the event loop; start reading here.
//! * [`node`] - the engine of a station: one with circuits, with transactions, or a router.
//! * [`host`] - a station: its engine, its processes and the chips beside the main processor.
//! * [`cost`] - what a host's work costs: a table, never a clock.
//! * [`adapter`] - a station's queues of cells on an ATM line, and their interrupts.
//! * [`shortcut`] - rings between stations of one host, beside the medium.
//! * [`medium`] - a shared ether, a pair of links, or a switch, of frames or of cells.
//! * [`disturbance`] - crashes, partitions and changes of faults.
//! * [`traffic`], [`distribution`] - which station sends to which, how much and how often.
//! * [`flow`], [`histogram`], [`series`] - what is measured.
//! * [`world`], [`station`] - two stations with the pump of the real driver, for the tests of
//!   engines.
//!
//! Nothing here reads a clock or draws from a global source: a seed and a scenario decide every
//! event, and a run repeats byte for byte. Times are picoseconds; engines see whole nanoseconds.
#![forbid(unsafe_code)]

pub mod adapter;
pub mod cost;
pub mod distribution;
pub mod disturbance;
pub mod flow;
mod frames;
pub mod histogram;
pub mod host;
mod link_framing;
pub mod medium;
pub mod network;
pub mod node;
mod run_queue;
pub mod series;
pub mod shortcut;
pub mod station;
mod station_layer;
mod store;
pub mod traffic;
pub mod world;

pub use adapter::{AdapterConfig, AdapterReport, CellAccess, Interrupts, LastCell, PacketCost};
pub use cost::{HostCost, PerByte};
pub use distribution::Distribution;
pub use disturbance::{Disturbance, PARTITIONS_MAX, Partition};
pub use flow::{FlowReport, MessageNotes, ReceiverReport, Target};
pub use histogram::Histogram;
pub use host::{GROUP, StationReport};
pub use medium::MediumConfig;
pub use network::{
    Network, NetworkConfig, NetworkReport, Observation, PATHS_MAX, PacketEvent, StopReason,
};
pub use node::Node;
pub use series::Series;
pub use shortcut::RingConfig;
pub use station::{Station, StationWire};
pub use traffic::{Calling, Receivers, Reply, Retries, Service, Traffic, UnsentMessages};
pub use world::{TraceLine, World};
