//! Channels with modules as `shm` and `shm-spin` have them: `flow=`, `order=`, `checksum=`, `reassemble=`.

use super::shm::{limit, to_io_error};
use super::shm_shared;
use crate::connection_info;
use crate::contract::{
    BLOCKING_TIMEOUT, Circuit, Class, ConnectionInfo, Interest, NoConnectionInfo, Note, OptionHelp,
    Part,
};
use crate::options::{Options, switch};
use crate::parts::{self, MessageRest};
use channel::{
    Arrival, Checksum, Flow, ModularReceiver, ModularSender, Modules, Order, PairModules, Receipt,
    Sent,
};
use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

/// The options, which both ends have to be given.
pub(super) static HELP: [OptionHelp; 6] = [
    OptionHelp {
        name: "flow",
        values: "block|drop",
        meaning: "a message without room waits, or is dropped and counted",
    },
    OptionHelp {
        name: "order",
        values: "off|on",
        meaning: "messages are numbered, so that the receiver counts those it missed",
    },
    OptionHelp {
        name: "checksum",
        values: "off|on",
        meaning: "each message has a CRC-32c, checked on the receiver's copy",
    },
    OptionHelp {
        name: "reassemble",
        values: "off|on",
        meaning: "messages longer than the ring are cut into pieces and put together",
    },
    OptionHelp {
        name: "lent",
        values: "off|on",
        meaning: "a shared message is sent from the slots that hold it already, and runs are read where they lie",
    },
    shm_shared::RING,
];

/// What the user chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ModuleChoice {
    drops: bool,
    order: bool,
    checksum: bool,
    reassemble: bool,
}

impl ModuleChoice {
    /// Reads the options; None without modules. The error is a sentence that names the option and its values.
    pub(super) fn parse(own: &BTreeMap<String, String>) -> Result<Option<ModuleChoice>, String> {
        let drops = match own.get("flow").map(String::as_str) {
            None | Some("block") => false,
            Some("drop") => true,
            Some(other) => {
                return Err(format!("'{other}' is no value of flow; give block or drop"));
            }
        };
        let choice = ModuleChoice {
            drops,
            order: switch(own, "order", false)?,
            checksum: switch(own, "checksum", false)?,
            reassemble: switch(own, "reassemble", false)?,
        };
        let none = ModuleChoice {
            drops: false,
            order: false,
            checksum: false,
            reassemble: false,
        };
        Ok((choice != none).then_some(choice))
    }

    /// The modules of both ends.
    pub(super) fn modules(self) -> PairModules {
        PairModules {
            sending: self.of_one_direction(),
            receiving: self.of_one_direction(),
        }
    }

    fn of_one_direction(self) -> Modules {
        let mut modules = Modules::none();
        if self.drops {
            modules = modules.flow(Flow::Drop);
        }
        if self.reassemble {
            modules = modules.reassembling();
        }
        if self.order {
            modules = modules.with(Order::default());
        }
        if self.checksum {
            modules = modules.with(Checksum);
        }
        modules
    }

    /// What circuits with these modules promise.
    pub(super) fn class(self, plain: Class) -> Class {
        Class {
            reliable: !self.drops,
            flow_control: !self.drops,
            checksum: if self.checksum {
                "CRC-32c"
            } else {
                plain.checksum
            },
            ..plain
        }
    }
}

/// One end of a circuit with modules.
#[derive(Debug)]
pub(super) struct ModularCircuit {
    /// None once this direction is finished.
    sender: Option<ModularSender>,
    receiver: ModularReceiver,
    /// Longest wait of a blocking call.
    timeout: Duration,
    /// What is left of a message received in parts.
    rest: MessageRest,
    /// System calls of a sender that is finished, and what it dropped.
    finished: (u64, u64),
    words: String,
}

impl ModularCircuit {
    pub(super) fn new(
        (sender, receiver): (ModularSender, ModularReceiver),
        choice: ModuleChoice,
        options: &Options,
    ) -> Self {
        ModularCircuit {
            sender: Some(sender),
            receiver,
            timeout: options.blocking_timeout.unwrap_or(BLOCKING_TIMEOUT),
            rest: MessageRest::default(),
            finished: (0, 0),
            words: choice.of_one_direction().words(),
        }
    }

    #[inline]
    fn write(&mut self, message: &[u8], waits: bool) -> io::Result<()> {
        let limit = limit(waits, self.timeout);
        let Some(sender) = &mut self.sender else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        match sender.send(message, limit).map_err(to_io_error)? {
            Sent::Whole | Sent::Dropped => Ok(()),
            Sent::NoRoom => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    #[inline]
    fn read(&mut self, buffer: &mut [u8], waits: bool) -> io::Result<Option<usize>> {
        let limit = limit(waits, self.timeout);
        if !self.rest.is_empty() {
            return Ok(Some(self.rest.take(buffer)));
        }
        let received = self.receipt(buffer, limit)?;
        Ok(received.map(|len| len.min(buffer.len())))
    }

    /// The next message's length; None at the end.
    #[inline]
    fn receipt(&mut self, buffer: &mut [u8], limit: Duration) -> io::Result<Option<usize>> {
        match self.receiver.receive(buffer, limit).map_err(to_io_error)? {
            Receipt::Message(len) => Ok(Some(len)),
            Receipt::End => Ok(None),
            Receipt::Nothing => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Sends pieces that had no room.
    fn flush_within(&mut self, limit: Duration) -> io::Result<()> {
        let Some(sender) = &mut self.sender else {
            return Ok(());
        };
        match sender.flush(limit).map_err(to_io_error)? {
            true => Ok(()),
            false => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

impl Circuit for ModularCircuit {
    parts::blocks_by_flag! { write, read }

    parts::carries_no_notes! {}

    fn receive_part(&mut self, buffer: &mut [u8]) -> io::Result<Option<Part>> {
        if !self.rest.is_empty() {
            return Ok(Some(self.rest.next(buffer)));
        }
        let Some(len) = self.receipt(buffer, self.timeout)? else {
            return Ok(None);
        };
        let rest = self.receiver.rest();
        if rest.is_empty() {
            return Ok(Some(Part {
                len,
                end: true,
                note: Note::default(),
            }));
        }
        self.rest.room(rest.len()).copy_from_slice(rest);
        Ok(Some(self.rest.keep(len, buffer.len())))
    }

    parts::lends_nothing! {}

    fn flush(&mut self) -> io::Result<()> {
        self.flush_within(self.timeout)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.flush_within(self.timeout)?;
        if let Some(sender) = self.sender.take() {
            self.finished = (sender.system_calls(), sender.dropped());
        }
        Ok(())
    }

    fn wait(&mut self, interest: Interest, deadline: Instant) -> io::Result<()> {
        let limit = deadline.saturating_duration_since(Instant::now());
        let waited = match (interest, &mut self.sender) {
            (Interest::Read, _) if !self.rest.is_empty() => Ok(()),
            (Interest::Read, sender) => {
                let flushed = sender
                    .as_mut()
                    .map_or(Ok(true), |sender| sender.flush(Duration::ZERO));
                let waited = self.receiver.wait_for_record(limit);
                flushed.and(waited).map(|_: Arrival| ())
            }
            (Interest::Write, Some(sender)) => sender.wait_for_room(limit).map(drop),
            (Interest::Write, None) => Ok(()),
        };
        waited.map_err(to_io_error)
    }

    fn connection_info(&self) -> Result<ConnectionInfo, NoConnectionInfo> {
        Err(connection_info::NO_PATH)
    }

    fn effective(&self) -> BTreeMap<String, String> {
        let ring = self.receiver.geometry().capacity().to_string();
        BTreeMap::from([
            ("send_buffer".into(), ring.clone()),
            ("receive_buffer".into(), ring),
            ("modules".into(), self.words.clone()),
        ])
    }

    /// The opening is a system call of each end.
    fn counts(&self) -> BTreeMap<String, u64> {
        let sender = self.sender.as_ref();
        let (calls, dropped) = sender.map_or(self.finished, |sender| {
            (sender.system_calls(), sender.dropped())
        });
        let losses = self.receiver.losses();
        BTreeMap::from([
            ("send_calls".into(), 1 + calls),
            ("receive_calls".into(), 1 + self.receiver.system_calls()),
            ("receive_drops".into(), dropped),
            ("records_missing".into(), losses.missing),
            ("records_damaged".into(), losses.damaged),
        ])
    }

    crate::usual_circuit! { send_run send_shared_run recv_run descriptor next_deadline }
}
