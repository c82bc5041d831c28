//! Helpers.

use std::net::UdpSocket;
use std::time::Duration;
use testbed::{Host, LinkPlan, Testbed, TestbedPlan};

/// Timeout of all waits.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(10);

/// A testbed of two hosts over `link`; None, with a SKIPPED line, without privileges.
pub fn up(link: &str) -> Option<Testbed> {
    Testbed::up_or_skip(&TestbedPlan::pair(parse(link), 1))
}

pub fn parse(link: &str) -> LinkPlan {
    link.parse()
        .unwrap_or_else(|error| panic!("{link}: {error}"))
}

/// A UDP socket in `host` with a timeout of [`TEST_TIMEOUT`].
pub fn socket(host: &Host) -> UdpSocket {
    let address = host.address();
    let socket = host.run(move || UdpSocket::bind((address, 0)));
    let socket = socket.expect("the host lives").expect("a socket");
    socket
        .set_read_timeout(Some(TEST_TIMEOUT))
        .expect("a limit");
    socket
}
