//! End-to-end tests: every test starts the real program.
//!
//! * `workloads` - each workload with each transport.
//! * `beside_others` - circuits beside others, each against one alone.
//! * `options` - effect of options, and that they are recorded in the result.
//! * `refusals` - wrong input: a one-line error, the right exit code, no complete-looking folder.
//! * `interruptions` - races that are stopped, killed, or lose a worker.
//! * `leftovers` - what killed programs leave is removed by the next one.
//! * `result_commands` - show, report, compare, fit and export, on complete and damaged folders.
//! * `links` - effects of links of each kind on transports.
//! * `paths` - links side by side, and what the result says of each.
//! * `profiles` - CPU time by layer and procedure.
//! * `testbeds` - hosts, links and loads, and their removal.
//! * `simulations` - scenarios, sweeps and traces.
//! * `slurm` - a sweep as an array of jobs under a slurmctld.
//! * `studies` - studies as data.
//! * `measured_study` - a study that measures, in its short form, killed and resumed.
//! * `study_folders` - several studies and their index, resumed; runs of each kind.
//! * `xtp_tools` - tunnel, file copy, contexts, router and relay.
//! * `channel_tools` - proxies of channels of shared memory.
//! * `sctp_tools`, `stt` - programs of SCTP, and the public tester of its packets against one.
//! * `vmtp_tools` - the storage server, and reports of VMTP's endpoints.
//! * `agent_allowances` - raw sockets and loads that an agent's operator allows.
//! * `agents` - keys, agents and races against them.
//! * `between_hosts` - turns, short messages beside bulk and races taken on, through agents and over links.
//! * `unprivileged` - the program for a user without privileges.
//! * `doctor_paths` - the path between two hosts.
//! * `watching` - running races from their files.
//! * `two_builds` - two builds in one race, and the gate.
//! * `planted` - a contestant that is slower by a known share.
//! * `static_program` - the packages' program, where it was built.
//! * `own_programs` - programs of other projects as contestants.
//! * `one_race` - one race at a time on a machine.
//! * `copies` - TCP without a copy and from a file; rows that only say why they do not run.
//! * `responsive` - short messages beside bulk.
//! * `sends` - time of a send into a wire that discards: copies and the rest.
//! * `empty_messages` - messages of 0 B, where contestants keep messages apart.
//! * `ring_captures` - captures of what crosses rings of shared memory, and of cells.
//! * `resumed` - races that take on what an older one left open.
//! * `transactions` - clients, replies and services.
//! * `exhaustion` - no descriptors left.
//! * `hostile_files` - results and scenarios that are pipes, devices, endless or huge.
//! * `help_and_output` - help, man page, completions, JSON, colours, pipes.

/// The words of a command line: literals as they are typed, between spaces, and other words as they are.
macro_rules! words {
    (@of [$($done:tt)*]) => { [$($done)*].concat() };
    (@of [$($done:tt)*] $line:literal $(, $($rest:tt)*)?) => {
        words!(@of [$($done)* $line.split(' ').collect::<Vec<&str>>(),] $($($rest)*)?)
    };
    (@of [$($done:tt)*] $word:expr $(, $($rest:tt)*)?) => {
        words!(@of [$($done)* <[&str]>::to_vec(&[$word]),] $($($rest)*)?)
    };
    ($($all:tt)+) => { words!(@of [] $($all)+) };
}

mod agent_allowances;
mod agents;
mod beside_others;
mod between_hosts;
mod channel_tools;
mod copies;
mod cp_trees;
mod dead_ends;
mod doctor_paths;
mod empty_messages;
mod exhaustion;
mod fan_out;
mod help_and_output;
mod hostile_files;
mod interruptions;
mod leftovers;
mod links;
mod measured_study;
mod message_counts;
mod one_race;
mod options;
mod own_programs;
mod own_studies;
mod paths;
mod planted;
mod profiles;
mod refusals;
mod responsive;
mod result_commands;
mod resumed;
mod ring_captures;
mod schema;
mod sctp_tools;
mod sends;
mod series;
mod simulations;
mod size_steps;
mod slurm;
mod static_program;
mod stt;
mod studies;
mod study_folders;
mod support;
mod testbeds;
mod transactions;
mod turns;
mod two_builds;
mod unprivileged;
mod vmtp_tools;
mod watching;
mod workloads;
mod xtp_ask;
mod xtp_captures;
mod xtp_tools;
