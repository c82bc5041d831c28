//! TPI and options of XTI: what a user of a stream can put before a provider.

#![allow(dead_code, reason = "each target uses one of the functions")]

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;
use streams::{Error, Hysteresis, MessageKind, Module, Priority, Runtime, StreamId, Want};
use xti::carrier::{self, Carried, Carrier, Piece, Socket};
use xti::loopback;
use xti::sctp::{MessageOptions, SctpOptions, SctpPath, SctpPathOptions, SctpStatus};
use xti::tpi::{self, Primitive, parse_options, write_options};
use xti::{ServiceType, StreamOptions, Waiter, inet};

/// Octets of the answer to a request of options at most, which the provider allows 512 octets of.
const ANSWER_MAX: usize = 2048;

/// Octets as options: what is read survives being written, and a provider answers a request of them, whatever
/// it asks for.
pub fn options(octets: &[u8]) -> bool {
    let Some((&action, octets)) = octets.split_first() else {
        return false;
    };
    let parsed = parse_options(octets);
    if let Some(options) = &parsed {
        assert_eq!(
            parse_options(&write_options(options)).as_ref(),
            Some(options)
        );
    }
    let setup: inet::Setup = Arc::new(|_| Ok(()));
    let marks = StreamOptions::default().marks;
    // As many actions of each.
    let provider: Box<dyn Module> = match action / 12 % 2 {
        0 => Box::new(inet::SocketProvider::new(setup, marks)),
        _ => carrier::connections(Box::new(Peer::default()), marks),
    };
    let mut runtime = Runtime::new(Hysteresis::Full);
    let stream = runtime.open(provider).expect("it opens");
    let request = Primitive::OptionsRequest {
        options: octets.to_vec(),
        flags: 1 << (action % 12),
    };
    put(&mut runtime, stream, &request.octets(), &[]);
    let answer = answer(&mut runtime, stream).expect("it is answered");
    match answer {
        Primitive::OptionsAck { options, .. } => {
            assert!(parsed.is_some() && options.len() <= ANSWER_MAX);
            parse_options(&options).is_some()
        }
        Primitive::ErrorAck { .. } => false,
        other => panic!("{other:?} is no answer"),
    }
}

/// Octets as messages to a provider of the loop-back, or to one of messages with options, each with its length in front: requests are answered, or the
/// stream fails. How many were answered.
pub fn messages(mut octets: &[u8]) -> u64 {
    let marks = StreamOptions::default().marks;
    let of_loopback = |service| loopback::connections(service, loopback::RING_OCTETS, marks);
    let provider = match octets.first().copied().unwrap_or(0) % 3 {
        0 => of_loopback(ServiceType::Connections),
        1 => of_loopback(ServiceType::ConnectionsWithRelease),
        _ => carrier::connections(Box::new(Peer::default()), marks),
    };
    let mut runtime = Runtime::new(Hysteresis::Full);
    let stream = runtime.open(provider).expect("it opens");
    let mut answered = 0;
    while let [len, rest @ ..] = octets {
        let (message, rest) = rest.split_at(usize::from(*len % 64).min(rest.len()));
        octets = rest;
        if !put(&mut runtime, stream, message, b"data") {
            break;
        }
        answered += u64::from(answer(&mut runtime, stream).is_some());
        let _ = runtime.ready(stream);
        while runtime
            .take_blocks(stream, Want::Any)
            .is_ok_and(|message| message.kind() != MessageKind::Error)
        {}
    }
    runtime.close(stream).expect("it is open");
    answered
}

/// Sends a message down; false when the stream has failed.
fn put(runtime: &mut Runtime, stream: StreamId, control: &[u8], data: &[u8]) -> bool {
    let data = (!data.is_empty()).then_some(data);
    match runtime.put_message(stream, Some(control), data, Priority::Band(0)) {
        Ok(()) | Err(Error::WouldBlock) => {}
        Err(Error::Failed(_) | Error::HungUp) => return false,
        Err(error) => panic!("{error}"),
    }
    runtime.run(1000);
    true
}

fn answer(runtime: &mut Runtime, stream: StreamId) -> Option<Primitive> {
    let message = runtime.take_blocks(stream, Want::High).ok()?;
    let control = message.control.as_ref().expect("an answer has one");
    Some(tpi::parse(control.octets()).expect("a provider writes primitives"))
}

/// Streams of each connection to [`Peer`].
const STREAMS: u16 = 4;

/// A carrier with the options of SCTP whose peer takes everything and says nothing, and its connections.
#[derive(Default)]
pub struct Peer {
    path: SctpPathOptions,
}

fn options_of_peer() -> SctpOptions {
    SctpOptions {
        cookie_life_ms: 60_000,
        rto_initial_ms: 1000,
        rto_min_ms: 200,
        rto_max_ms: 60_000,
        outbound_streams: STREAMS,
        inbound_streams: 33,
        segment_max: 1172,
        ..SctpOptions::default()
    }
}

struct NoWait;

impl Waiter for NoWait {
    fn wait(&self, _: u64, _: Duration) -> io::Result<()> {
        Ok(())
    }
}

impl Carrier for Peer {
    fn name(&self) -> &'static str {
        "peer"
    }

    fn message_max(&self) -> Option<usize> {
        Some(4096)
    }

    fn has_half_close(&self) -> bool {
        false
    }

    fn bind(&mut self, _: Option<&[u8]>, _: bool) -> io::Result<Vec<u8>> {
        Ok(inet::encode(([127, 0, 0, 1], 1).into()))
    }

    fn stop_listening(&mut self) {}

    fn try_accept(&mut self) -> io::Result<Box<dyn Carried>> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn options(&self) -> Option<SctpOptions> {
        Some(options_of_peer())
    }

    fn set_options(&mut self, options: &SctpOptions) {
        assert!(options.rto_min_ms <= options.rto_max_ms && options.outbound_streams > 0);
    }

    fn running_options(&self) -> Option<SctpOptions> {
        None
    }

    fn begin_connect(&mut self, _: &[u8]) -> io::Result<Box<dyn Carried>> {
        Ok(Box::new(Peer::default()))
    }

    fn waiter(&self) -> Option<(Arc<dyn Waiter>, u64)> {
        None
    }
}

impl Carried for Peer {
    fn peer(&self) -> &[u8] {
        &[]
    }

    fn is_open(&mut self) -> io::Result<bool> {
        Ok(true)
    }

    fn options(&self) -> Option<SctpOptions> {
        Some(options_of_peer())
    }

    fn status(&self) -> Option<SctpStatus> {
        let path = SctpPath {
            address: Some(Ipv4Addr::LOCALHOST),
            congestion_window: 4380,
            flight: 100,
            srtt_ms: 3,
            rttvar_ms: 1,
            rto_ms: 200,
            options: self.path,
        };
        Some(SctpStatus {
            receive_window: 1000,
            receive_buffer: 2000,
            paths: vec![path],
        })
    }

    fn set_path(&mut self, path: &SctpPath) {
        let options = path.options;
        assert!(
            path.address == Some(Ipv4Addr::LOCALHOST) && options.rto_min_ms <= options.rto_max_ms
        );
        self.path = options;
    }

    fn try_send(&mut self, octets: &[u8], options: &MessageOptions) -> io::Result<()> {
        assert!(options.stream < STREAMS && octets.len() <= 4096);
        Ok(())
    }

    fn try_receive(&mut self, _: &mut [u8]) -> io::Result<Option<Piece>> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn has_unsent(&self) -> bool {
        false
    }

    fn abort(&mut self) {}

    fn socket(&self) -> Option<Socket> {
        None
    }

    fn waiter(&self, _: bool) -> (Arc<dyn Waiter>, u64) {
        (Arc::new(NoWait), 0)
    }

    fn system_calls(&self) -> (u64, u64) {
        (0, 0)
    }
}
