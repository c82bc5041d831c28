//! What a host does with the driver of a stream and with time.

use crate::kit::{Driver, alike, driver, octets};
use streams::modules::{Buffer, Pass};
use streams::{
    Context, Error, Hysteresis, Message, Module, ModuleInfo, Runtime, Side, StreamId, Want,
};

fn stream_on_a_driver() -> (Runtime, StreamId) {
    let mut runtime = Runtime::new(Hysteresis::Full);
    let stream = runtime.open(driver(64, 0).0).unwrap();
    (runtime, stream)
}

#[test]
fn host_reaches_the_driver_by_its_type_and_nothing_else() {
    let (mut runtime, stream) = stream_on_a_driver();
    runtime.push(stream, Box::new(Pass)).unwrap();
    runtime.write(stream, b"down").unwrap();
    assert_eq!(runtime.queued(stream, Side::Write), Ok(1));
    let taken = runtime.with_driver(stream, |driver: &mut Driver, context| {
        driver.device.lock().unwrap().room = 1;
        driver.service(context, Side::Write);
        let block = context.copy(b"up");
        context.put_next(Side::Read, Message::data(block));
        driver.device.lock().unwrap().taken.len()
    });
    assert_eq!(taken, Ok(1));
    assert_eq!(runtime.queued(stream, Side::Write), Ok(0));
    let up = runtime.take_blocks(stream, Want::Any).unwrap();
    assert_eq!(octets(&up), b"up");
    assert!(runtime.driver::<Driver>(stream).is_ok());
    let other = runtime.with_driver(stream, |_: &mut Pass, _| ());
    assert!(matches!(other, Err(Error::Modules(_))));
    assert!(runtime.driver::<Pass>(stream).is_err());
}

/// Answers each message that travels up.
struct Echo;

impl Module for Echo {
    fn info(&self) -> ModuleInfo {
        alike("echo", streams::modules::PUT_ONLY)
    }
    fn open(&mut self, _: &mut Context<'_>) -> Result<(), Error> {
        Ok(())
    }
    fn close(&mut self, _: &mut Context<'_>) {}
    fn put(&mut self, context: &mut Context<'_>, side: Side, message: Message) {
        if side == Side::Read {
            context.reply(side, message.duplicate());
        }
        context.put_next(side, message);
    }
    fn service(&mut self, _: &mut Context<'_>, _: Side) {}
    fn ready(&mut self, _: &mut Context<'_>) {}
}

#[test]
fn answer_that_arrives_while_the_host_is_at_the_driver_is_handed_over() {
    let (mut runtime, stream) = stream_on_a_driver();
    runtime.push(stream, Box::new(Echo)).unwrap();
    let put = runtime.with_driver(stream, |_: &mut Driver, context| {
        let block = context.copy(b"said");
        context.put_next(Side::Read, Message::data(block));
    });
    assert_eq!(put, Ok(()));
    assert_eq!(runtime.queued(stream, Side::Write), Ok(1));
}

/// Holds what travels down for 100 ns.
struct Hold(Vec<u64>);

impl Module for Hold {
    fn info(&self) -> ModuleInfo {
        Buffer::default().info()
    }
    fn open(&mut self, _: &mut Context<'_>) -> Result<(), Error> {
        Ok(())
    }
    fn close(&mut self, _: &mut Context<'_>) {}
    fn put(&mut self, context: &mut Context<'_>, side: Side, _: Message) {
        let due = context.now() + 100;
        context.enable_at(side, due);
    }
    fn service(&mut self, context: &mut Context<'_>, _: Side) {
        self.0.push(context.now());
        let block = context.copy(&self.0.last().unwrap().to_le_bytes());
        context.put_next(Side::Read, Message::data(block));
    }
    fn ready(&mut self, _: &mut Context<'_>) {}
}

#[test]
fn service_procedures_run_when_their_time_has_come_and_not_before() {
    let (mut runtime, stream) = stream_on_a_driver();
    runtime.push(stream, Box::new(Hold(Vec::new()))).unwrap();
    // The driver is woken by the push.
    runtime.run(10);
    for now in [0, 30] {
        runtime.set_now(now);
        runtime.write(stream, b"x").unwrap();
    }
    assert_eq!(runtime.next_timer(), Some(100));
    runtime.set_now(99);
    assert_eq!(runtime.run(10), 0);
    runtime.set_now(100);
    assert_eq!((runtime.run(10), runtime.next_timer()), (1, Some(130)));
    let up = runtime.take_blocks(stream, Want::Any).unwrap();
    assert_eq!(octets(&up), 100_u64.to_le_bytes());
    // A clock that goes back changes nothing.
    runtime.set_now(0);
    runtime.write(stream, b"x").unwrap();
    runtime.set_now(199);
    assert_eq!((runtime.run(10), runtime.next_timer()), (1, Some(200)));
}

#[test]
fn timers_of_a_module_that_was_popped_are_gone() {
    let (mut runtime, stream) = stream_on_a_driver();
    runtime.push(stream, Box::new(Hold(Vec::new()))).unwrap();
    runtime.write(stream, b"x").unwrap();
    runtime.pop(stream).unwrap();
    // The next module gets the number of the level.
    runtime.push(stream, Box::new(Buffer::default())).unwrap();
    runtime.run(10);
    assert_eq!(runtime.next_timer(), None);
    runtime.set_now(1000);
    assert!(!runtime.has_work());
}
