//! Endpoints on the loopback.

use std::sync::Arc;
use std::time::{Duration, Instant};
use streams::{Error, Runtime, StreamId};
use xti::tpi::TransportOption;
use xti::{Hysteresis, Marks, StreamOptions, XtiEndpoint, inet};

/// Ends a test that hangs.
pub const LIMIT: Duration = Duration::from_secs(20);

pub fn deadline() -> Instant {
    Instant::now() + LIMIT
}

pub fn open(options: StreamOptions) -> XtiEndpoint {
    let setup: inet::Setup = Arc::new(|socket| socket.set_read_timeout(Some(LIMIT)));
    XtiEndpoint::open_tcp(setup, options).unwrap()
}

pub fn loopback() -> Vec<u8> {
    inet::encode("127.0.0.1:0".parse().unwrap())
}

/// A listener, and its address.
pub fn listener(queue_len: u32) -> (XtiEndpoint, Vec<u8>) {
    let end = open(StreamOptions::default());
    let bound = end.bind(&loopback(), queue_len).unwrap();
    (end, bound.address)
}

/// Two ends of a connection.
pub fn pair(options: StreamOptions) -> (XtiEndpoint, XtiEndpoint) {
    let (listener, address) = listener(4);
    let client = open(options);
    client.bind(&[], 0).unwrap();
    client.connect(&address, deadline()).unwrap();
    let call = listener.listen(deadline()).unwrap();
    let server = open(options);
    listener.accept(&server, call.sequence).unwrap();
    (client, server)
}

/// All factors of a stream, each way.
pub fn all_options() -> Vec<StreamOptions> {
    let mut all = Vec::new();
    for hysteresis in [Hysteresis::Full, Hysteresis::Wake, Hysteresis::Off] {
        for deferred in [true, false] {
            for (high, low) in [(1, 0), (5000, 5000), (32_768, 0)] {
                for hold in [true, false] {
                    all.push(StreamOptions {
                        hysteresis,
                        deferred,
                        hold,
                        marks: Marks::new(high, low).unwrap(),
                        lent: hold,
                        ..StreamOptions::default()
                    });
                }
            }
        }
    }
    all
}

/// A request of a head, and its answer.
pub fn ask(
    runtime: &mut Runtime,
    stream: StreamId,
    command: u32,
    octets: &[u8],
) -> Result<(i32, Vec<u8>), Error> {
    runtime.request(stream, command, octets).unwrap();
    runtime.run(100);
    let answer = runtime.take_answer(stream)?;
    Ok((answer.value, answer.octets))
}

/// An option to ask for.
pub fn option(level: u32, name: u32, value: &[u8]) -> TransportOption {
    TransportOption {
        level,
        name,
        status: None,
        value: value.to_vec(),
    }
}
