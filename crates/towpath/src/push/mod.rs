//! Modules between the user of a circuit and its transport: `tcp,push=meter/buffer`.
//!
//! Every transport that moves something to one other end takes the option `push`, because the registry wraps it in a
//! [`Pushable`]. Without the option the transport's own circuits are returned, and no stream head is
//! on their path.
//!
//! * `stack`, `settings` - the words of the option, which modules there are, what each may stand on, and
//!   their options.
//! * `capture`, `compress`, `fault`, `seal` - modules that are not of crate `streams`: they need files,
//!   random numbers and libraries. `frames`: what those that change octets put around them.
//! * `driver` - the bottom of the stream: a module around a circuit.
//! * `circuit` - its top: what the user calls; `lent_run` - sends that are lent to the stream.
//! * `chain`, `pushed_stream` - modules on byte streams of XTP that carry other programs' octets, as in
//!   `towpath forward`.

mod capture;
mod chain;
mod circuit;
mod compress;
mod driver;
mod fault;
mod frames;
mod lent_run;
mod pushed_stream;
mod seal;
mod settings;
mod stack;
#[cfg(test)]
mod test_kit;

use crate::contract::{
    Circuit, CircuitResult, CircuitsResult, Class, Listener, OptionHelp, Rendezvous, Sharing,
    Transport, Unavailable,
};
use crate::options::{Options, invalid};
use circuit::PushedCircuit;
pub(crate) use pushed_stream::PushedStream;
use settings::{OPTIONS, PUSH};
pub use stack::ModuleStack;
use stack::Place;
use std::collections::BTreeMap;
use std::io;
use std::sync::OnceLock;
use std::time::Instant;

/// Whether `name` is the option that pushes modules, or one of a module.
pub fn is_option(name: &str) -> bool {
    name == PUSH.name || is_setting(name)
}

/// Whether `name` is an option of one module.
pub fn is_setting(name: &str) -> bool {
    OPTIONS.iter().any(|option| option.name == name)
}

/// Whether `name` is a count that a module adds to those of its circuit: `meter_messages_sent`,
/// `meter2_octets_sent`.
pub fn is_count(name: &str) -> bool {
    let module = name.split('_').next().unwrap_or_default();
    stack::is_counting(module.trim_end_matches(|c: char| c.is_ascii_digit()))
}

/// A transport on whose circuits modules can be pushed.
pub struct Pushable {
    inner: &'static dyn Transport,
    /// There is a stream head also where nothing is pushed.
    has_head: bool,
    help: OnceLock<Vec<OptionHelp>>,
    /// What its class says of batching and offloads below a stream head.
    offload: OnceLock<&'static str>,
}

impl Pushable {
    /// The transport `inner` with the options of modules.
    pub const fn new(inner: &'static dyn Transport) -> Pushable {
        Pushable::made(inner, false)
    }

    /// A transport whose circuits are streams: `inner` always has a stream head on it.
    pub const fn with_head(inner: &'static dyn Transport) -> Pushable {
        Pushable::made(inner, true)
    }

    const fn made(inner: &'static dyn Transport, has_head: bool) -> Pushable {
        Pushable {
            inner,
            has_head,
            help: OnceLock::new(),
            offload: OnceLock::new(),
        }
    }

    /// The modules, and the options left for the transport.
    fn split(
        &self,
        own: &BTreeMap<String, String>,
    ) -> Result<(Option<ModuleStack>, BTreeMap<String, String>), String> {
        let mut rest = own.clone();
        let stack = ModuleStack::take(&mut rest)?;
        let stack = stack.or_else(|| self.has_head.then(ModuleStack::default));
        if let Some(stack) = &stack {
            stack.check(self.inner.name(), &self.inner.class_with(&rest))?;
        }
        Ok((stack, rest))
    }

    fn inner_options(&self, options: &Options) -> io::Result<(Option<ModuleStack>, Options)> {
        let (stack, transport_specific) =
            self.split(&options.transport_specific).map_err(invalid)?;
        let inner = Options {
            transport_specific,
            ..options.clone()
        };
        Ok((stack, inner))
    }

    /// A head takes what a user sends in blocks of its own, so that nothing is sent in place. The text
    /// lives as long as the program, once a transport: classes are copied.
    fn offload(&self, below: &str) -> &'static str {
        let text = || format!("copied into blocks by a stream head; below: {below}");
        self.offload.get_or_init(|| text().leak())
    }
}

/// `circuit` of a transport with `options`, with the modules on it.
fn on_top(
    stack: Option<&ModuleStack>,
    class: &Class,
    options: &Options,
    connects: bool,
    circuit: Box<dyn Circuit>,
) -> CircuitResult {
    let Some(stack) = stack else {
        return Ok(circuit);
    };
    let place = Place {
        is_stream: class.stream,
        is_reliable: class.reliable,
        connects,
    };
    let read_len = options.read_len;
    Ok(Box::new(PushedCircuit::new(
        circuit, stack, place, read_len,
    )?))
}

impl Transport for Pushable {
    fn class(&self) -> Class {
        self.class_with(&BTreeMap::new())
    }

    fn class_with(&self, own: &BTreeMap<String, String>) -> Class {
        match self.split(own) {
            Err(_) => self.inner.class(),
            Ok((None, rest)) => self.inner.class_with(&rest),
            Ok((Some(stack), rest)) => {
                let class = self.inner.class_with(&rest);
                let offload = self.offload(class.offload);
                stack.class(Class { offload, ..class })
            }
        }
    }

    fn is_one_way(&self, own: &BTreeMap<String, String>) -> bool {
        let split = self.split(own);
        split.is_ok_and(|(_, rest)| self.inner.is_one_way(&rest))
    }

    fn carries_empty(&self, own: &BTreeMap<String, String>) -> bool {
        let split = self.split(own);
        split.is_ok_and(|(_, rest)| self.inner.carries_empty(&rest))
    }

    fn sends_unanswered(&self, own: &BTreeMap<String, String>) -> bool {
        let split = self.split(own);
        split.is_ok_and(|(_, rest)| self.inner.sends_unanswered(&rest))
    }

    fn option_to_many(
        &self,
        own: &BTreeMap<String, String>,
        sharing: Sharing,
    ) -> Option<(&'static str, &'static str)> {
        match self.split(own) {
            Ok((None, rest)) => self.inner.option_to_many(&rest, sharing),
            // A stream has one other end.
            _ => None,
        }
    }

    fn options(&self) -> &[OptionHelp] {
        self.help.get_or_init(|| {
            let inner = self.inner.options().iter();
            inner.chain([&PUSH]).chain(&OPTIONS).copied().collect()
        })
    }

    fn check_options(&self, own: &BTreeMap<String, String>) -> Result<(), String> {
        let (_, rest) = self.split(own)?;
        self.inner.check_options(&rest)
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        let (stack, options) = self.inner_options(options)?;
        let inner = self.inner.listen(&options)?;
        Ok(match stack {
            None => inner,
            Some(stack) => Box::new(PushedListener {
                inner,
                stack,
                class: self.inner.class_with(&options.transport_specific),
                options,
            }),
        })
    }

    fn connect(&self, rendezvous: &Rendezvous, index: usize, options: &Options) -> CircuitResult {
        let (stack, options) = self.inner_options(options)?;
        let circuit = self.inner.connect(rendezvous, index, &options)?;
        let class = self.inner.class_with(&options.transport_specific);
        on_top(stack.as_ref(), &class, &options, true, circuit)
    }

    fn connect_all(&self, rendezvous: &Rendezvous, options: &Options) -> CircuitsResult {
        let (stack, options) = self.inner_options(options)?;
        let circuits = self.inner.connect_all(rendezvous, &options)?;
        let class = self.inner.class_with(&options.transport_specific);
        let pushed = circuits
            .into_iter()
            .map(|circuit| on_top(stack.as_ref(), &class, &options, true, circuit));
        pushed.collect()
    }

    fn connect_to_many(&self, rendezvous: &[Rendezvous], options: &Options) -> CircuitResult {
        match self.inner_options(options)? {
            (None, options) => self.inner.connect_to_many(rendezvous, &options),
            (Some(_), _) => {
                let text = "a stream has one other end; leave out push= or the several listeners";
                Err(io::Error::new(io::ErrorKind::Unsupported, text))
            }
        }
    }

    engine::forward! { self.inner;
        fn name(&self) -> &'static str;
        fn summary(&self) -> &'static str;
        fn is_one_to_many(&self) -> bool;
        fn only_answers(&self) -> bool;
        fn message_max(&self) -> Option<u64>;
        fn available(&self, options: &Options) -> Result<(), Unavailable>;
    }
}

/// Accepts circuits and pushes modules on each.
struct PushedListener {
    inner: Box<dyn Listener>,
    stack: ModuleStack,
    class: Class,
    options: Options,
}

impl Listener for PushedListener {
    fn rendezvous(&self) -> io::Result<Rendezvous> {
        self.inner.rendezvous()
    }

    fn accept(&mut self, deadline: Instant) -> CircuitResult {
        let circuit = self.inner.accept(deadline)?;
        let stack = Some(&self.stack);
        on_top(stack, &self.class, &self.options, false, circuit)
    }
}
