//! Events that a user asked to be signalled of (I_SETSIG), and signals of modules.

use crate::kit::{Shared, driver};
use streams::{
    Error, Extra, Hysteresis, Message, MessageKind, Runtime, SignalEvents as Events, StreamId,
};

fn open() -> (Runtime, StreamId, Shared) {
    let (driver, device) = driver(8, 2);
    let mut runtime = Runtime::new(Hysteresis::Full);
    let stream = runtime.open(driver).unwrap();
    (runtime, stream, device)
}

/// The device sends a message up; the events that the user is told of.
fn arrival(
    (runtime, stream, device): &mut (Runtime, StreamId, Shared),
    message: Message,
) -> Events {
    device.lock().unwrap().arriving.push_back(message);
    runtime.ready(*stream).unwrap();
    runtime.run(100);
    runtime.take_signalled(*stream).unwrap()
}

fn data(band: u8) -> Message {
    Message::data(streams::Pool::default().copy(0, b"x")).in_band(band)
}

fn high() -> Message {
    Message::high_proto(streams::Pool::default().copy(0, b"h"))
}

fn signal(kind: MessageKind, number: i32) -> Message {
    Message::with_extra(kind, Extra::Signal(number))
}

#[test]
fn arrivals_are_signalled_as_far_as_they_were_asked_for() {
    let nothing = Events::default();
    let mut of = open();
    assert_eq!(arrival(&mut of, data(0)), nothing, "nobody asked");
    assert!(matches!(of.0.signals(of.1), Err(Error::Invalid(_))));
    of.0.set_signals(of.1, Events::INPUT | Events::HIGH)
        .unwrap();
    assert_eq!(of.0.signals(of.1), Ok(Events::INPUT | Events::HIGH));
    assert_eq!(arrival(&mut of, data(0)), Events::INPUT);
    assert_eq!(arrival(&mut of, data(3)), Events::INPUT);
    assert_eq!(arrival(&mut of, high()), Events::HIGH);
    assert_eq!(
        arrival(&mut of, high()),
        nothing,
        "one is held, others are dropped"
    );
    assert_eq!(of.0.take_signalled(of.1), Ok(nothing), "told once");

    of.0.set_signals(of.1, Events::NORMAL | Events::BAND | Events::BAND_URGENT)
        .unwrap();
    assert_eq!(arrival(&mut of, data(0)), Events::NORMAL);
    assert_eq!(
        arrival(&mut of, data(1)),
        Events::BAND | Events::BAND_URGENT
    );
    of.0.set_signals(of.1, Events::BAND_URGENT).unwrap();
    assert_eq!(arrival(&mut of, data(1)), nothing, "it says how, not what");
    of.0.set_signals(of.1, nothing).unwrap();
    assert_eq!(arrival(&mut of, data(0)), nothing);
}

#[test]
fn room_for_a_writer_that_was_refused_is_signalled() {
    let (mut runtime, stream, device) = open();
    runtime.set_signals(stream, Events::OUTPUT).unwrap();
    runtime.write(stream, b"12345678").unwrap();
    assert_eq!(runtime.write(stream, b"9"), Err(Error::WouldBlock));
    assert_eq!(runtime.take_signalled(stream), Ok(Events::default()));
    device.lock().unwrap().room = 1;
    runtime.run(100);
    assert_eq!(runtime.take_signalled(stream), Ok(Events::OUTPUT));
    // Nobody was refused since.
    device.lock().unwrap().room = 10;
    runtime.write(stream, b"9").unwrap();
    runtime.run(100);
    assert_eq!(runtime.take_signalled(stream), Ok(Events::default()));
}

#[test]
fn signals_of_modules_reach_the_user_by_number_and_sigpoll_as_an_event_too() {
    let mut of = open();
    of.0.set_signals(of.1, Events::MESSAGE).unwrap();
    assert_eq!(
        arrival(&mut of, signal(MessageKind::Signal, 2)),
        Events::default()
    );
    assert_eq!(
        arrival(&mut of, signal(MessageKind::Signal, 29)),
        Events::MESSAGE
    );
    assert_eq!(
        arrival(&mut of, signal(MessageKind::HighSignal, 1)),
        Events::default()
    );
    let numbers: Vec<_> = std::iter::from_fn(|| of.0.take_signal(of.1).unwrap()).collect();
    assert_eq!(numbers, [2, 29, 1]);
}

#[test]
fn failure_and_hang_up_are_signalled() {
    let mut of = open();
    of.0.set_signals(of.1, Events::ERROR | Events::HANG_UP)
        .unwrap();
    let errors =
        |read, write| Message::with_extra(MessageKind::Error, Extra::Errors { read, write });
    assert_eq!(arrival(&mut of, errors(Some(71), None)), Events::ERROR);
    assert_eq!(
        arrival(&mut of, errors(Some(0), Some(0))),
        Events::default(),
        "it ended"
    );
    let hang_up = Message::new(MessageKind::HangUp);
    assert_eq!(arrival(&mut of, hang_up), Events::HANG_UP);
}

#[test]
fn numbers_are_those_of_svr4() {
    assert_eq!(Events::new(0x3ff).map(Events::number), Ok(0x3ff));
    assert!(matches!(Events::new(0x400), Err(Error::Invalid(_))));
    assert_eq!((Events::INPUT | Events::BAND_URGENT).number(), 0x201);
}
