//! An agent as its clients and its enemies see it.

mod advisories;
mod churn;
mod common;
mod hosts;
mod sessions;
mod strangers;

/// What a worker of these tests is: this same program, with its control channel for standard input.
#[test]
fn worker_of_these_tests() {
    use std::os::fd::AsFd;
    let channel = std::io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .expect("standard input");
    if rustix::net::sockopt::socket_domain(&channel).is_ok() {
        measure::worker::main(channel);
    }
}
