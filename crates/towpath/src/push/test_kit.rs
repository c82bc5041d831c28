//! For tests of modules that frame: what goes through two of them.

use streams::{Context, Error, Hysteresis, Message, Module, Runtime, Side, StreamId, Want};

/// The end of one stream, from where the test carries octets to the other.
struct Bottom(Vec<Vec<u8>>);

impl Module for Bottom {
    fn info(&self) -> streams::ModuleInfo {
        streams::ModuleInfo::put_only("bottom")
    }

    fn put(&mut self, context: &mut Context<'_>, _: Side, message: Message) {
        self.0.push(octets(&message));
        message.release(context.pool());
    }
}

fn octets(message: &Message) -> Vec<u8> {
    let mut all = vec![0; message.data_octets()];
    message.copy_data(0, &mut all);
    all
}

fn stream(module: Box<dyn Module>) -> (Runtime, StreamId) {
    let mut runtime = Runtime::new(Hysteresis::Full);
    let stream = runtime
        .open(Box::new(Bottom(Vec::new())))
        .expect("a stream");
    runtime.push(stream, module).expect("a module");
    (runtime, stream)
}

/// What `module` sends for `messages`.
pub(super) fn sent(module: Box<dyn Module>, messages: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let (mut runtime, stream) = stream(module);
    for message in messages {
        let block = runtime.pool_mut().copy(0, message);
        let put = runtime.put_blocks(stream, Message::data(block));
        assert!(put.is_ok());
    }
    let driver = runtime.driver::<Bottom>(stream);
    driver.expect("the bottom").0.clone()
}

/// What the user above `module` receives when `arriving` comes from below, or the error.
pub(super) fn received_all(
    module: Box<dyn Module>,
    arriving: &[Vec<u8>],
) -> Result<Vec<Vec<u8>>, i32> {
    let (mut runtime, stream) = stream(module);
    for part in arriving {
        let put = runtime.with_driver(stream, |_: &mut Bottom, context| {
            let block = context.copy(part);
            context.put_next(Side::Read, Message::data(block));
        });
        put.expect("the bottom");
    }
    let mut all = Vec::new();
    loop {
        match runtime.take_blocks(stream, Want::Any) {
            Ok(message) => all.push(octets(&message)),
            Err(Error::WouldBlock) => return Ok(all),
            Err(error) => return Err(error.errno()),
        }
    }
}

/// The same for one part.
pub(super) fn received(module: Box<dyn Module>, part: &[u8]) -> Result<Vec<Vec<u8>>, i32> {
    received_all(module, &[part.to_vec()])
}

/// What comes out of `to` when `messages` go into `from`, carried in parts of at most `cut` octets.
pub(super) fn through(
    from: Box<dyn Module>,
    to: Box<dyn Module>,
    messages: &[Vec<u8>],
    cut: usize,
) -> Vec<Vec<u8>> {
    let sent = sent(from, messages);
    let parts: Vec<Vec<u8>> = match cut {
        usize::MAX => sent,
        cut => sent.concat().chunks(cut).map(<[u8]>::to_vec).collect(),
    };
    received_all(to, &parts).expect("frames of the peer")
}
