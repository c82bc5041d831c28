//! TPI and options of XTI: what a user of a stream can put before a provider.

#![allow(dead_code, reason = "each target uses one of the functions")]

use std::sync::Arc;
use streams::{Error, Hysteresis, MessageKind, Priority, Runtime, StreamId, Want};
use xti::loopback;
use xti::tpi::{self, Primitive, parse_options, write_options};
use xti::{ServiceType, StreamOptions, inet};

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
    let provider = inet::TcpProvider::new(setup, StreamOptions::default().marks);
    let mut runtime = Runtime::new(Hysteresis::Full);
    let stream = runtime.open(Box::new(provider)).expect("it opens");
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

/// Octets as messages to a provider of the loop-back, each with its length in front: requests are answered, or the
/// stream fails. How many were answered.
pub fn messages(mut octets: &[u8]) -> u64 {
    let service = match octets.first().copied().unwrap_or(0) % 2 {
        0 => ServiceType::Connections,
        _ => ServiceType::ConnectionsWithRelease,
    };
    let marks = StreamOptions::default().marks;
    let provider = loopback::connections(service, loopback::RING_OCTETS, marks);
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
