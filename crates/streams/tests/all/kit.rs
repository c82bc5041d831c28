//! A driver that keeps what reaches it, takes it at the test's pace, and sends up what it is told.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use streams::{
    Context, Error, Extra, IoctlRequest, Marks, Message, MessageKind, Module, ModuleInfo,
    QueueInfo, Side,
};

/// The world behind the driver.
#[derive(Default)]
pub struct Device {
    /// Messages that it may still take.
    pub room: usize,
    /// What it took.
    pub taken: Vec<(MessageKind, u8, Vec<u8>)>,
    /// What it will send up.
    pub arriving: VecDeque<Message>,
}

pub type Shared = Arc<Mutex<Device>>;

pub struct Driver {
    pub device: Shared,
    pub marks: Marks,
}

/// The command that the driver answers, with the octets of the request turned round.
pub const REVERSE: u32 = 7;

pub fn marks(high: usize, low: usize) -> Marks {
    Marks::new(high, low).unwrap()
}

/// A driver with marks, and its device.
pub fn driver(high: usize, low: usize) -> (Box<Driver>, Shared) {
    let device = Shared::default();
    let driver = Driver {
        device: Arc::clone(&device),
        marks: marks(high, low),
    };
    (Box::new(driver), device)
}

/// A module with a service procedure on both sides.
pub fn info(name: &'static str, marks: Marks) -> ModuleInfo {
    let queue = QueueInfo {
        marks,
        packet: (0, 4096),
        service: true,
    };
    alike(name, queue)
}

/// A module whose sides are alike.
pub fn alike(name: &'static str, queue: QueueInfo) -> ModuleInfo {
    ModuleInfo {
        name,
        read: queue,
        write: queue,
    }
}

pub fn octets(message: &Message) -> Vec<u8> {
    let mut all = message
        .control
        .as_ref()
        .map_or(vec![], |part| part.octets().to_vec());
    let mut data = vec![0; message.data_octets()];
    message.copy_data(0, &mut data);
    all.extend(data);
    all
}

impl Module for Driver {
    fn info(&self) -> ModuleInfo {
        info("device", self.marks)
    }

    fn open(&mut self, _: &mut Context<'_>) -> Result<(), Error> {
        Ok(())
    }

    fn close(&mut self, _: &mut Context<'_>) {}

    fn put(&mut self, context: &mut Context<'_>, side: Side, message: Message) {
        match (message.kind(), message.extra.as_deref()) {
            (MessageKind::Flush, Some(&Extra::Flush(request))) => context.flush_and_turn(request),
            (MessageKind::Ioctl, Some(&Extra::Ioctl(request))) => {
                answer(context, request, &message)
            }
            _ => context.put_queue(side, message),
        }
    }

    fn service(&mut self, context: &mut Context<'_>, side: Side) {
        let mut device = self.device.lock().unwrap();
        match side {
            Side::Write => {
                while device.room > 0 {
                    let Some(message) = context.get(Side::Write) else {
                        return;
                    };
                    device.room -= 1;
                    device
                        .taken
                        .push((message.kind(), message.band(), octets(&message)));
                    message.release(context.pool());
                }
            }
            Side::Read => {
                while let Some(message) = device.arriving.pop_front() {
                    let high = message.kind().is_high_priority();
                    if !high && !context.can_put_next(Side::Read, message.band()) {
                        return device.arriving.push_front(message);
                    }
                    context.put_next(Side::Read, message);
                }
            }
        }
    }

    fn ready(&mut self, context: &mut Context<'_>) {
        context.enable(Side::Read);
        context.enable(Side::Write);
    }
}

fn answer(context: &mut Context<'_>, request: IoctlRequest, message: &Message) {
    let known = request.command == REVERSE;
    let kind = if known {
        MessageKind::IoctlAck
    } else {
        MessageKind::IoctlNak
    };
    let mut answer = Message::with_extra(kind, Extra::Ioctl(request));
    if known {
        let mut turned = octets(message);
        turned.reverse();
        let block = context.copy(&turned);
        answer.data.push(block);
    }
    context.reply(Side::Write, answer);
}
