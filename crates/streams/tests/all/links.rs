//! Multiplexing drivers: streams opened on them, and linked below them.

use crate::kit::{self, Shared, driver, marks, octets};
use crate::random::Random;
use std::sync::{Arc, Mutex};
use streams::modules::{Buffer, Pass};
use streams::{
    Error, Extra, Hysteresis, Leg, LegContext, LinkId, Marks, Message, MessageKind, ModuleInfo,
    Multiplexer, Persistence, Priority, Runtime, Side, StreamId, Want,
};

/// Sends messages of its users down the link whose place among the links their first octet says, and what comes
/// from a link, with its place in front, to the first user.
struct Router {
    marks: Marks,
    refuses_links: bool,
    hung_up: Arc<Mutex<Vec<LinkId>>>,
}

impl Router {
    fn new(marks: Marks) -> Router {
        Router {
            marks,
            refuses_links: false,
            hung_up: Arc::default(),
        }
    }

    fn info(&self) -> ModuleInfo {
        kit::info("router", self.marks)
    }

    /// Where a message goes, and what goes there.
    fn target(context: &mut LegContext<'_>, leg: Leg, message: &Message) -> Option<Leg> {
        let legs = context.legs();
        match leg {
            Leg::Upper(_) => {
                let place = usize::from(*octets(message).first()?);
                let mut lowers = legs.into_iter().filter(|leg| matches!(leg, Leg::Lower(_)));
                lowers.nth(place)
            }
            Leg::Lower(_) => legs.into_iter().find(|leg| matches!(leg, Leg::Upper(_))),
        }
    }

    /// Passes a message on; it comes back where its leg has no room.
    fn pass(&self, context: &mut LegContext<'_>, leg: Leg, message: Message) -> Option<Message> {
        let Some(target) = Router::target(context, leg, &message) else {
            message.release(context.pool());
            return None;
        };
        if !context.can_put_next(target, message.band()) {
            return Some(message);
        }
        context.put_next(target, message);
        None
    }
}

impl Multiplexer for Router {
    fn upper_info(&self) -> ModuleInfo {
        self.info()
    }

    fn lower_info(&self) -> ModuleInfo {
        self.info()
    }

    fn open(&mut self, _: &mut LegContext<'_>, _: StreamId) -> Result<(), Error> {
        Ok(())
    }

    fn close(&mut self, _: &mut LegContext<'_>, _: StreamId) {}

    fn link(&mut self, _: &mut LegContext<'_>, _: LinkId) -> Result<(), Error> {
        match self.refuses_links {
            true => Err(Error::Failed(12)),
            false => Ok(()),
        }
    }

    fn unlink(&mut self, _: &mut LegContext<'_>, _: LinkId) {}

    fn put(&mut self, context: &mut LegContext<'_>, leg: Leg, side: Side, message: Message) {
        match (message.kind(), message.extra.as_deref(), leg) {
            (MessageKind::HangUp, _, Leg::Lower(link)) => self.hung_up.lock().unwrap().push(link),
            (MessageKind::Flush, Some(&Extra::Flush(request)), Leg::Upper(_)) => {
                if request.write {
                    context.flush(leg, Side::Write, request.band, streams::FlushScope::Data);
                }
                message.release(context.pool());
            }
            _ if !context.is_empty(leg, side) => context.put_queue(leg, side, message),
            _ => {
                if let Some(message) = self.pass(context, leg, message) {
                    context.put_queue(leg, side, message);
                }
            }
        }
    }

    fn service(&mut self, context: &mut LegContext<'_>, leg: Leg, side: Side) {
        let comes_in = matches!(
            (leg, side),
            (Leg::Upper(_), Side::Write) | (Leg::Lower(_), Side::Read)
        );
        if !comes_in {
            // This leg has room again: those whose messages may wait for it go on.
            for other in context.legs() {
                let side = match other {
                    Leg::Upper(_) => Side::Write,
                    Leg::Lower(_) => Side::Read,
                };
                context.enable(other, side);
            }
            return;
        }
        while let Some(message) = context.get(leg, side) {
            if let Some(message) = self.pass(context, leg, message) {
                return context.put_back(leg, side, message);
            }
        }
    }
}

fn read(runtime: &mut Runtime, stream: StreamId) -> Result<Vec<u8>, Error> {
    let mut buffer = [0; 64];
    let len = runtime.read(stream, &mut buffer)?;
    Ok(buffer[..len].to_vec())
}

#[test]
fn messages_go_down_the_links_that_they_name_and_up_from_them() {
    let mut runtime = Runtime::new(Hysteresis::Full);
    let router = runtime.add_multiplexer(Box::new(Router::new(marks(4096, 512))));
    let control = runtime.open_multiplexer(router).unwrap();
    runtime.push(control, Box::new(Pass)).unwrap();
    let (near, far): (Vec<_>, Vec<_>) = (0..3).map(|_| runtime.pipe()).unzip();
    // What waits at a head goes to the driver, and so up.
    runtime.write(far[1], b"early").unwrap();
    runtime.push(near[2], Box::new(Buffer::default())).unwrap();
    for stream in &near {
        runtime
            .link(control, *stream, Persistence::WithStream)
            .unwrap();
    }
    assert_eq!(read(&mut runtime, control).unwrap(), b"early");
    for (place, stream) in far.iter().enumerate() {
        runtime.write(control, &[place as u8, b'd']).unwrap();
        runtime.write(*stream, &[b'u', place as u8]).unwrap();
        assert_eq!(read(&mut runtime, *stream).unwrap(), [place as u8, b'd']);
        assert_eq!(read(&mut runtime, control).unwrap(), [b'u', place as u8]);
    }
    let links = runtime.links(control).unwrap();
    assert_eq!(
        links.iter().map(|(_, lower)| *lower).collect::<Vec<_>>(),
        near
    );
    runtime.unlink(control, links[1].0).unwrap();
    runtime.write(far[1], b"own").unwrap();
    assert_eq!(read(&mut runtime, near[1]).unwrap(), b"own");
    runtime.write(control, &[1]).unwrap();
    assert_eq!(
        read(&mut runtime, far[2]).unwrap(),
        [1],
        "the second link now"
    );
}

#[test]
fn linked_stream_can_only_be_closed_and_closes_when_it_is_unlinked() {
    let mut runtime = Runtime::new(Hysteresis::Full);
    let router = runtime.add_multiplexer(Box::new(Router::new(marks(4096, 512))));
    let control = runtime.open_multiplexer(router).unwrap();
    let (near, far) = runtime.pipe();
    let link = runtime
        .link(control, near, Persistence::Persistent)
        .unwrap();
    let refused = |result: Result<usize, Error>| matches!(result, Err(Error::Invalid(_)));
    assert!(refused(runtime.write(near, b"x")));
    assert!(refused(runtime.read(near, &mut [0; 4])));
    assert!(refused(runtime.push(near, Box::new(Pass)).map(|()| 0)));
    assert!(refused(
        runtime
            .link(control, near, Persistence::Persistent)
            .map(|_| 0)
    ));
    assert!(runtime.poll(near).is_err());
    runtime.close(near).unwrap();
    runtime.write(control, &[0, 9]).unwrap();
    assert_eq!(read(&mut runtime, far).unwrap(), [0, 9], "the link goes on");
    runtime.unlink(control, link).unwrap();
    assert_eq!(runtime.read(near, &mut [0; 4]), Err(Error::BadStream));
    assert_eq!(runtime.read(far, &mut [0; 4]), Ok(0), "it hung up");
}

#[test]
fn links_end_with_their_stream_unless_they_are_persistent() {
    let mut runtime = Runtime::new(Hysteresis::Full);
    let router = runtime.add_multiplexer(Box::new(Router::new(marks(4096, 512))));
    let first = runtime.open_multiplexer(router).unwrap();
    let second = runtime.open_multiplexer(router).unwrap();
    let ends = [runtime.pipe(), runtime.pipe(), runtime.pipe()];
    runtime
        .link(first, ends[0].0, Persistence::WithStream)
        .unwrap();
    runtime
        .link(first, ends[1].0, Persistence::Persistent)
        .unwrap();
    runtime
        .link(second, ends[2].0, Persistence::WithStream)
        .unwrap();
    runtime.close(first).unwrap();
    let left: Vec<_> = runtime.links(second).unwrap();
    assert_eq!(
        left.iter().map(|(_, lower)| *lower).collect::<Vec<_>>(),
        [ends[1].0, ends[2].0]
    );
    runtime.write(ends[1].1, b"to the second").unwrap();
    assert_eq!(read(&mut runtime, second).unwrap(), b"to the second");
    runtime.write(ends[0].1, b"own").unwrap();
    assert_eq!(read(&mut runtime, ends[0].0).unwrap(), b"own");
}

#[test]
fn what_cannot_be_linked_is_refused_and_stays_as_it_was() {
    let mut runtime = Runtime::new(Hysteresis::Full);
    let mut refusing = Router::new(marks(4096, 512));
    refusing.refuses_links = true;
    let (router, refusing) = (
        runtime.add_multiplexer(Box::new(Router::new(marks(4096, 512)))),
        runtime.add_multiplexer(Box::new(refusing)),
    );
    let upper = runtime.open_multiplexer(router).unwrap();
    let other = runtime.open_multiplexer(router).unwrap();
    let closed = runtime.open_multiplexer(refusing).unwrap();
    let (near, far) = runtime.pipe();
    let fifo = runtime.fifo();
    let with = Persistence::WithStream;
    assert_eq!(runtime.link(closed, near, with), Err(Error::Failed(12)));
    runtime.write(far, b"still").unwrap();
    assert_eq!(read(&mut runtime, near).unwrap(), b"still");
    for (control, lower) in [(near, far), (upper, upper), (upper, other), (upper, fifo)] {
        assert!(matches!(
            runtime.link(control, lower, with),
            Err(Error::Invalid(_))
        ));
    }
    // A driver below a driver, and then the first below the second.
    let second = runtime.add_multiplexer(Box::new(Router::new(marks(4096, 512))));
    let above = runtime.open_multiplexer(second).unwrap();
    let link = runtime.link(above, other, with).unwrap();
    let circle = runtime.open_multiplexer(second).unwrap();
    assert!(matches!(
        runtime.link(upper, circle, with),
        Err(Error::Invalid(_))
    ));
    assert!(
        runtime.unlink(upper, link).is_err(),
        "a link of the other driver"
    );
    runtime.close(fifo).unwrap();
    assert_eq!(runtime.link(upper, fifo, with), Err(Error::BadStream));
    runtime.unlink(above, link).unwrap();
    assert!(runtime.unlink(above, link).is_err());
}

#[test]
fn hang_up_of_a_linked_pipe_reaches_the_driver() {
    let mut runtime = Runtime::new(Hysteresis::Full);
    let router = Router::new(marks(4096, 512));
    let hung_up = Arc::clone(&router.hung_up);
    let router = runtime.add_multiplexer(Box::new(router));
    let control = runtime.open_multiplexer(router).unwrap();
    let (near, far) = runtime.pipe();
    let link = runtime
        .link(control, near, Persistence::WithStream)
        .unwrap();
    runtime.close(far).unwrap();
    assert_eq!(*hung_up.lock().unwrap(), [link]);
}

/// Messages by link.
type Lists = Vec<Vec<Vec<u8>>>;

/// Users of a driver under random calls, over devices that take messages at random times.
fn play(seed: u64) -> Lists {
    let mut random = Random(seed);
    let all = [Hysteresis::Full, Hysteresis::Wake, Hysteresis::Off];
    let mut runtime = Runtime::new(all[random.below(3) as usize]);
    let high = 1 + random.below(12) as usize;
    let low = random.below(high as u64 + 1) as usize;
    let router = runtime.add_multiplexer(Box::new(Router::new(marks(high, low))));
    let control = runtime.open_multiplexer(router).unwrap();
    let (mut devices, mut lowers) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let (driver, device) = driver(high, low);
        let lower = runtime.open(driver).unwrap();
        if random.below(2) == 0 {
            runtime
                .push(lower, Box::new(Buffer::new(marks(high, low))))
                .unwrap();
        }
        runtime
            .link(control, lower, Persistence::WithStream)
            .unwrap();
        devices.push(device);
        lowers.push(lower);
    }
    let (mut sent, mut came) = ([0_u8; 3], vec![Vec::new(); 3]);
    let mut arriving = [0_u8; 3];
    for _ in 0..300 {
        let place = random.below(3) as usize;
        match random.below(8) {
            0..3 => {
                let octets = [place as u8, sent[place]];
                match runtime.put_message(control, None, Some(&octets), Priority::Band(0)) {
                    Ok(()) => sent[place] += 1,
                    Err(error) => assert_eq!(error, Error::WouldBlock),
                }
            }
            3 => {
                let mut device = devices[place].lock().unwrap();
                device.room += 1;
                let block = runtime.pool_mut().copy(0, &[place as u8, arriving[place]]);
                device.arriving.push_back(Message::data(block));
                arriving[place] += 1;
                drop(device);
                runtime.ready(lowers[place]).unwrap();
            }
            4 => receive(&mut runtime, control, &mut came),
            _ => {
                let budget = random.below(4) as usize;
                runtime.run(budget);
            }
        }
    }
    for (device, lower) in devices.iter().zip(&lowers) {
        device.lock().unwrap().room = usize::MAX;
        runtime.ready(*lower).unwrap();
    }
    for _ in 0..1000 {
        assert!(
            runtime.run(10_000) < 10_000,
            "no procedure runs for ever: seed {seed}"
        );
        receive(&mut runtime, control, &mut came);
    }
    check(&devices, sent, arriving, came)
}

/// Each link carried everything in order, both ways; what it carried.
fn check(devices: &[Shared], sent: [u8; 3], arriving: [u8; 3], came: Lists) -> Lists {
    let numbered = |place: usize, count: u8| -> Vec<Vec<u8>> {
        (0..count).map(|at| vec![place as u8, at]).collect()
    };
    let mut all = came;
    for (place, device) in devices.iter().enumerate() {
        let device = device.lock().unwrap();
        let taken: Vec<_> = device
            .taken
            .iter()
            .map(|(.., octets)| octets.clone())
            .collect();
        assert_eq!(taken, numbered(place, sent[place]), "down link {place}");
        assert_eq!(
            all[place],
            numbered(place, arriving[place]),
            "up from link {place}"
        );
        all.push(taken);
    }
    all
}

fn receive(runtime: &mut Runtime, control: StreamId, came: &mut [Vec<Vec<u8>>]) {
    let mut buffer = [0; 8];
    if let Ok(got) = runtime.get_message(control, &mut [], &mut buffer, Want::Any) {
        let octets = buffer[..got.data.unwrap_or(0)].to_vec();
        came[usize::from(octets[0])].push(octets);
    }
}

#[test]
fn nothing_is_lost_doubled_or_out_of_order_through_a_driver() {
    for seed in 0..400 {
        assert_eq!(play(seed), play(seed), "the same seed, the same messages");
    }
}
