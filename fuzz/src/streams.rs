//! Requests of a user to the heads of streams (ioctl): pushes, pops, flushes, links, passes, options, signals, and
//! requests of modules.

#![allow(dead_code, reason = "the tests run it too")]

use streams::modules::{Buffer, Connld, Meter, Pass, Pipemod};
use streams::{
    Error, FlushRequest, HeadOptions, Hysteresis, Module, Passed, ReadControl, ReadMode, Runtime,
    SignalEvents, StreamId, Want,
};

/// Streams that a script has at most.
const STREAMS_MAX: usize = 16;

/// Octets that lie in one stream at most: those of its queues, and the last write of each.
const OCTETS_MAX: usize = 64 << 20;

/// A script: four octets an operation - the request, the stream, two arguments. Whatever it asks for, nothing panics,
/// each stream stays readable or says why not, and a runtime that has nothing left to do stops. Returns how many
/// requests were carried out.
pub fn ioctls(script: &[u8]) -> u32 {
    let hysteresis = match script.first().map_or(0, |first| first % 3) {
        0 => Hysteresis::Full,
        1 => Hysteresis::Wake,
        _ => Hysteresis::Off,
    };
    let mut runtime = Runtime::new(hysteresis);
    let (a, b) = runtime.pipe();
    let mut streams = vec![a, b, runtime.fifo()];
    let (operations, _) = script.as_chunks::<4>();
    let mut done = 0;
    for operation in operations {
        done += u32::from(run(&mut runtime, &mut streams, *operation).is_ok());
        assert!(runtime.run(10_000) < 10_000, "it runs without end");
    }
    for stream in streams {
        let mut octets = 0;
        while let Ok(message) = runtime.take_blocks(stream, Want::Any) {
            octets += message.octets();
            message.release(runtime.pool_mut());
        }
        assert!(octets <= OCTETS_MAX, "{octets} octets in a stream");
        // One that was closed meanwhile is gone.
        let _ = runtime.close(stream);
    }
    done
}

fn run(
    runtime: &mut Runtime,
    streams: &mut Vec<StreamId>,
    [request, at, first, second]: [u8; 4],
) -> Result<(), Error> {
    let stream = streams[usize::from(at) % streams.len()];
    let other = streams[usize::from(first) % streams.len()];
    let name = ["one", "two", "three"][usize::from(second) % 3];
    match request % 24 {
        0 => runtime.push(stream, module(first)),
        1 => runtime.pop(stream),
        2 => runtime.modules(stream).map(drop),
        3 => runtime.flush(
            stream,
            FlushRequest {
                read: first & 1 != 0,
                write: first & 2 != 0,
                band: (first & 4 != 0).then_some(second),
            },
        ),
        4 => runtime.request(stream, u32::from(first), &vec![second; usize::from(second)]),
        5 => runtime.take_answer(stream).map(drop),
        6 => runtime.abandon_request(stream),
        7 => runtime.readable(stream).map(drop),
        8 => runtime.can_put(stream, first).map(drop),
        9 => runtime.set_options(stream, options(first, second)),
        10 => runtime.set_signals(stream, SignalEvents::new(u32::from(first) << 2)?),
        11 => runtime.signals(stream).map(drop),
        12 => runtime.take_signalled(stream).map(drop),
        13 => runtime.attach(stream, name),
        14 => runtime.detach(name),
        15 => runtime.open_name(name).map(|opened| add(streams, opened)),
        16 => runtime
            .pass(stream, Passed::Stream(other))
            .map_err(|(error, _)| error),
        17 => runtime.take_passed(stream).map(drop),
        18 => runtime
            .write(stream, &vec![first; usize::from(second) * 64])
            .map(drop),
        19 => runtime
            .read(stream, &mut vec![0; usize::from(second) * 64])
            .map(drop),
        20 => runtime.close(stream),
        21 if streams.len() < STREAMS_MAX => {
            let (a, b) = runtime.pipe();
            add(streams, a);
            add(streams, b);
            Ok(())
        }
        22 => runtime.poll(stream).map(drop),
        _ => runtime.check_room(stream, first).map(drop),
    }
}

fn add(streams: &mut Vec<StreamId>, stream: StreamId) {
    if streams.len() < STREAMS_MAX {
        streams.push(stream);
    }
}

fn module(number: u8) -> Box<dyn Module> {
    match number % 5 {
        0 => Box::new(Pass),
        1 => Box::<Buffer>::default(),
        2 => Box::<Meter>::default(),
        3 => Box::new(Pipemod),
        _ => Box::new(Connld),
    }
}

fn options(first: u8, second: u8) -> HeadOptions {
    let octets = usize::from(second) * 16;
    let some = |bit: u8| (first & bit != 0).then_some(octets);
    HeadOptions {
        read_mode: match first % 4 {
            0 => None,
            1 => Some(ReadMode::Octets),
            2 => Some(ReadMode::MessageOrLose),
            _ => Some(ReadMode::MessageAndKeep),
        },
        read_control: match second % 4 {
            0 => None,
            1 => Some(ReadControl::Refuse),
            2 => Some(ReadControl::AsData),
            _ => Some(ReadControl::Discard),
        },
        write_offset: some(4),
        packet_min: some(8),
        packet_max: some(16),
        high_water: some(32),
        low_water: some(64),
        notify_readers: Some(second & 1 != 0),
        hold: some(128),
    }
}
