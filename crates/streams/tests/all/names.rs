//! Names of streams, and streams and descriptors that are passed over pipes.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use streams::modules::{Connld, Pass};
use streams::{Error, Hysteresis, Passed, Runtime, StreamId, Want};

fn read(runtime: &mut Runtime, stream: StreamId) -> Result<Vec<u8>, Error> {
    let mut buffer = [0; 64];
    let len = runtime.read(stream, &mut buffer)?;
    Ok(buffer[..len].to_vec())
}

fn taken(runtime: &mut Runtime, stream: StreamId) -> StreamId {
    match runtime.take_passed(stream) {
        Ok(Passed::Stream(stream)) => stream,
        other => panic!("a stream was passed: {other:?}"),
    }
}

const BUSY: Error = Error::Failed(16);
const NO_NAME: Error = Error::Failed(2);

#[test]
fn name_opens_the_stream_until_it_is_taken_away_or_the_stream_closes() {
    let mut runtime = Runtime::new(Hysteresis::Full);
    let (a, b) = runtime.pipe();
    assert_eq!(runtime.open_name("service"), Err(NO_NAME));
    runtime.attach(a, "service").unwrap();
    assert_eq!(runtime.attach(b, "service"), Err(BUSY));
    assert_eq!(runtime.open_name("service"), Ok(a), "all share one end");
    runtime.attach(a, "second").unwrap();
    runtime.detach("service").unwrap();
    assert_eq!(runtime.detach("service"), Err(NO_NAME));
    runtime.close(a).unwrap();
    assert_eq!(runtime.open_name("second"), Err(NO_NAME));
}

#[test]
fn connld_gives_each_opener_a_pipe_of_his_own() {
    let mut runtime = Runtime::new(Hysteresis::Full);
    let (named, server) = runtime.pipe();
    runtime.push(named, Box::new(Connld)).unwrap();
    runtime.attach(named, "service").unwrap();
    let clients = [(); 3].map(|()| runtime.open_name("service").unwrap());
    for (place, client) in clients.into_iter().enumerate() {
        let end = taken(&mut runtime, server);
        runtime.write(client, &[place as u8]).unwrap();
        assert_eq!(read(&mut runtime, end).unwrap(), [place as u8]);
        runtime.write(end, &[9, place as u8]).unwrap();
        assert_eq!(read(&mut runtime, client).unwrap(), [9, place as u8]);
    }
    assert!(matches!(
        runtime.take_passed(server),
        Err(Error::WouldBlock)
    ));
    // Another module on top: the name is the stream's again.
    runtime.push(named, Box::new(Pass)).unwrap();
    assert_eq!(runtime.open_name("service"), Ok(named));
    runtime.pop(named).unwrap();
    runtime.close(server).unwrap();
    assert_eq!(
        runtime.open_name("service"),
        Err(Error::HungUp),
        "nobody serves"
    );
}

#[test]
fn stream_that_nobody_took_closes_with_the_pipe() {
    let mut runtime = Runtime::new(Hysteresis::Full);
    let (named, server) = runtime.pipe();
    runtime.push(named, Box::new(Connld)).unwrap();
    runtime.attach(named, "service").unwrap();
    let client = runtime.open_name("service").unwrap();
    runtime.close(server).unwrap();
    assert_eq!(runtime.read(client, &mut [0; 4]), Ok(0), "it hung up");
    assert_eq!(runtime.write(client, b"x"), Err(Error::HungUp));
}

#[test]
fn descriptor_is_passed_behind_data_and_read_by_nothing_else() {
    let mut runtime = Runtime::new(Hysteresis::Full);
    let (a, b) = runtime.pipe();
    let (mut near, far) = UnixStream::pair().unwrap();
    runtime.write(a, b"first").unwrap();
    runtime
        .pass(a, Passed::Descriptor(OwnedFd::from(far)))
        .unwrap();
    assert!(
        matches!(runtime.take_passed(b), Err(Error::BadMessage)),
        "data are in front"
    );
    assert_eq!(read(&mut runtime, b).unwrap(), b"first");
    assert_eq!(runtime.read(b, &mut [0; 4]), Err(Error::BadMessage));
    let got = runtime.get_message(b, &mut [], &mut [], Want::Any);
    assert_eq!(got, Err(Error::BadMessage));
    let Ok(Passed::Descriptor(passed)) = runtime.take_passed(b) else {
        panic!("a descriptor was passed");
    };
    UnixStream::from(passed).write_all(b"through").unwrap();
    let mut octets = [0; 7];
    near.read_exact(&mut octets).unwrap();
    assert_eq!(&octets, b"through");
    runtime.close(a).unwrap();
    assert!(matches!(runtime.take_passed(b), Err(Error::HungUp)));
}

#[test]
fn what_cannot_be_passed_comes_back() {
    let mut runtime = Runtime::new(Hysteresis::Full);
    let (a, b) = runtime.pipe();
    let fifo = runtime.fifo();
    for (over, stream) in [(fifo, a), (a, a), (a, b)] {
        let refused = runtime.pass(over, Passed::Stream(stream));
        assert!(
            matches!(refused, Err((Error::Invalid(_), Passed::Stream(back))) if back == stream)
        );
    }
    while runtime.write(a, &[1; 4096]).is_ok() {}
    assert!(matches!(
        runtime.pass(a, Passed::Stream(fifo)),
        Err((Error::WouldBlock, _))
    ));
    runtime.close(b).unwrap();
    assert!(matches!(
        runtime.pass(a, Passed::Stream(fifo)),
        Err((Error::HungUp, _))
    ));
    runtime.write(fifo, b"still open").unwrap();
}
