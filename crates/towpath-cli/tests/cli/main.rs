//! The program as its users meet it: every test starts the real thing.
//!
//! * `workloads` - each workload with each transport, and what a result then holds.
//! * `options` - what an option changes, and that it can be read back.
//! * `refusals` - wrong input: one line, the right exit code, nothing left that looks whole.
//! * `endings` - races that are stopped, killed, or lose a worker.
//! * `reading` - show, report, compare, fit and export, on whole and on broken folders.
//! * `links` - what links of each kind do to the transports that cross them.
//! * `profiles` - where a message's time goes.
//! * `testbeds` - hosts, links and loads, and that nothing stays behind.
//! * `simulations` - scenarios, sweeps, traces and studies.
//! * `tools` - forwarding and copying, with other programs at the ends.
//! * `ways` - what lies between two hosts.
//! * `surface` - help, man page, completions, JSON, colours, pipes.

mod agents;
mod doctor_paths;
mod help_and_output;
mod interruptions;
mod links;
mod options;
mod profiles;
mod refusals;
mod result_commands;
mod schema;
mod simulations;
mod support;
mod testbeds;
mod unprivileged;
mod workloads;
mod xtp_tools;
