//! The calls of a script's sockets, in terms of the engine.

use super::player::{Fault, Player};
use super::script::Call;
use super::value::{Item, Value};
use crate::support::PUSHED;
use core::time::Duration;
use engine::{
    AssociationId, Associations, Bytes, Close, CloseReason, Deliveries, Event, Note, Reliability,
};
use std::collections::{BTreeMap, VecDeque};

/// A message that arrived.
struct Arrived {
    note: Note,
    len: usize,
}

/// Descriptors and what happened to the associations behind them.
#[derive(Default)]
pub struct Sockets {
    associations: BTreeMap<i64, AssociationId>,
    /// Opened by the peer, and not taken yet.
    accepted: VecDeque<AssociationId>,
    arrived: VecDeque<Arrived>,
    /// Messages of which more is to come, by stream and order.
    unfinished: BTreeMap<(u16, bool), usize>,
    is_finished: bool,
    closed: Option<CloseReason>,
    is_connected: bool,
    /// Position of the end of what was submitted.
    submitted: u64,
    is_shut_down: bool,
}

impl Sockets {
    pub fn association(&self, descriptor: i64) -> Option<AssociationId> {
        self.associations.get(&descriptor).copied()
    }

    pub fn note(&mut self, event: Event) {
        match event {
            Event::Connected(_) => self.is_connected = true,
            Event::Accepted(id, _) => {
                self.is_connected = true;
                self.accepted.push_back(id);
            }
            Event::Finished(_) => self.is_finished = true,
            Event::Closed(_, reason) => {
                self.closed = Some(reason);
                self.is_finished = true;
            }
            _ => {}
        }
    }

    pub fn deliver(&mut self, deliveries: Deliveries) {
        for delivery in deliveries.bytes {
            let len = match &delivery.bytes {
                Bytes::Packet(range) => range.len(),
                Bytes::Reassembled(octets) => octets.len(),
            };
            let key = (delivery.note.stream, delivery.note.unordered);
            let so_far = self.unfinished.remove(&key).unwrap_or(0) + len;
            match (delivery.end_of_message, delivery.gap && len == 0) {
                // The sender gave it up.
                (_, true) => {}
                (true, false) => self.arrived.push_back(Arrived {
                    note: delivery.note,
                    len: so_far,
                }),
                (false, false) => {
                    self.unfinished.insert(key, so_far);
                }
            }
        }
    }
}

/// What a call returned: a number, or an error's name.
type Returned = Result<i64, &'static str>;

impl Player {
    pub fn call(&mut self, call: &Call) -> Result<(), Fault> {
        let number = |at: usize| match call.arguments.get(at) {
            Some(Value::Number(number)) => *number,
            _ => 0,
        };
        let returned = match call.name.as_str() {
            "socket" | "bind" | "fcntl" | "setsockopt" => return Ok(()),
            "listen" => {
                self.engine.listen(true);
                Ok(0)
            }
            "connect" | "sctp_connectx" => {
                let id = self.engine.connect(self.now, &[Player::peer()]);
                let id = id.map_err(|error| Fault::Wrong(error.to_string()))?;
                self.sockets.associations.insert(number(0), id);
                Err("EINPROGRESS")
            }
            "accept" => match self.sockets.accepted.pop_front() {
                // There is one, whatever the script says.
                Some(_) if call.result < 0 => Ok(0),
                Some(id) => {
                    self.sockets.associations.insert(call.result, id);
                    Ok(call.result)
                }
                None => Err("EAGAIN"),
            },
            "close" => {
                if let Some(id) = self.sockets.associations.remove(&number(0)) {
                    self.engine.close(self.now, id, Close::Graceful);
                }
                Ok(0)
            }
            "shutdown" => {
                let id = self.association(number(0))?;
                self.engine.close(self.now, id, Close::Graceful);
                self.sockets.is_shut_down = true;
                Ok(0)
            }
            "getsockopt" => return self.get_option(call),
            "write" | "send" | "sctp_sendmsg" | "sctp_sendv" => self.send(call, number(0))?,
            "read" | "recv" => self.read(number(0), number(2), None)?,
            "sctp_recvmsg" => self.read(number(0), number(2), call.arguments.get(5))?,
            other => return Err(Fault::Unknown(format!("call {other}"))),
        };
        check(call, returned)
    }

    fn get_option(&mut self, call: &Call) -> Result<(), Fault> {
        let wrong = |is: String| {
            Err(Fault::Wrong(format!(
                "{:?} was to be, {is}",
                call.arguments
            )))
        };
        match &call.arguments[..] {
            [_, _, Value::Word(name), Value::List(error), ..] if name == "SO_ERROR" => {
                let is = match self.sockets.closed {
                    None | Some(CloseReason::Graceful) => "0",
                    Some(CloseReason::TimedOut) => "ETIMEDOUT",
                    Some(CloseReason::Refused) => "ECONNREFUSED",
                    Some(CloseReason::Aborted) => "ECONNRESET",
                };
                match error.first() {
                    Some(Value::Number(0)) if is == "0" => Ok(()),
                    Some(Value::Word(name)) if name == is => Ok(()),
                    _ => wrong(is.into()),
                }
            }
            [descriptor, _, Value::Word(name), Value::Item(status), ..]
                if name == "SCTP_STATUS" =>
            {
                let Value::Number(descriptor) = descriptor else {
                    return wrong("no descriptor".into());
                };
                let id = self.association(*descriptor)?;
                let views = self.engine.association_views(8);
                let view = views.iter().find(|view| view.association == id);
                let streams = status.number("sstat_outstrms")?;
                match view {
                    Some(view) if view.state == "established" => {
                        let is = i64::from(view.outbound_streams);
                        match streams.is_none_or(|streams| streams == is) {
                            true => Ok(()),
                            false => wrong(format!("{is} streams to send on")),
                        }
                    }
                    _ => wrong("it is not open".into()),
                }
            }
            _ => Err(Fault::Unknown(format!(
                "getsockopt of {:?}",
                call.arguments.get(2)
            ))),
        }
    }

    fn send(&mut self, call: &Call, descriptor: i64) -> Result<Returned, Fault> {
        let Some(id) = self.sockets.association(descriptor) else {
            return Err(Fault::Wrong(format!(
                "no association behind descriptor {descriptor}"
            )));
        };
        let (note, len) = message(call)?;
        if self.sockets.closed.is_some() || self.sockets.is_finished || self.sockets.is_shut_down {
            return Ok(Err("EPIPE"));
        }
        self.sockets.submitted += len as u64;
        let end = self.sockets.submitted;
        self.engine.submit(self.now, id, end, PUSHED, &note);
        Ok(Ok(len))
    }

    fn read(
        &mut self,
        descriptor: i64,
        room: i64,
        info: Option<&Value>,
    ) -> Result<Returned, Fault> {
        if self.sockets.arrived.is_empty() {
            return Ok(match self.sockets.is_finished {
                true => Ok(0),
                false => Err("EAGAIN"),
            });
        }
        let id = self.sockets.association(descriptor);
        // Messages of different streams have no order.
        let arrived = &mut self.sockets.arrived;
        let at = match info {
            Some(Value::Item(info)) => {
                let stream = info.number("sinfo_stream")?;
                let of_stream = |message: &Arrived| {
                    stream.is_none_or(|stream| stream == i64::from(message.note.stream))
                };
                let fits = |message: &Arrived| check_info(info, &message.note).is_ok();
                // The unordered ones of a stream have no order with the others.
                let at = arrived.iter().position(of_stream).unwrap_or(0);
                let other = arrived.iter().position(|message| {
                    message.note.unordered != arrived[at].note.unordered && fits(message)
                });
                let at = other.filter(|_| !fits(&arrived[at])).unwrap_or(at);
                check_info(info, &arrived[at].note)?;
                at
            }
            _ => 0,
        };
        let first = &mut arrived[at];
        let taken = first.len.min(room as usize);
        first.len -= taken;
        if first.len == 0 {
            arrived.remove(at);
        }
        if let Some(id) = id {
            self.engine.consume(self.now, id, taken as u64);
        }
        Ok(Ok(taken as i64))
    }
}

/// Compares what a call returned with what the script says.
fn check(call: &Call, returned: Returned) -> Result<(), Fault> {
    let fits = match returned {
        Ok(number) => number == call.result,
        // The systems have several errors for it.
        Err("EPIPE") => call.result == -1,
        Err(name) => {
            // EAGAIN and EWOULDBLOCK are one number.
            let errno = call.errno.replace("EWOULDBLOCK", "EAGAIN");
            call.result == -1 && (errno.is_empty() || errno == name)
        }
    };
    match fits {
        true => Ok(()),
        false => {
            let Call {
                name,
                result,
                errno,
                ..
            } = call;
            Err(Fault::Wrong(format!(
                "{name} returned {returned:?}, {result} {errno} was to be"
            )))
        }
    }
}

/// The stream, order and payload protocol identifier of a message that is read.
fn check_info(info: &Item, note: &Note) -> Result<(), Fault> {
    let stream = info.number("sinfo_stream")?;
    let ppid = info.number("sinfo_ppid")?;
    let is_unordered = match info.field("sinfo_flags") {
        Value::Word(flags) => Some(flags.contains("SCTP_UNORDERED")),
        Value::Number(_) => Some(false),
        _ => None,
    };
    let fits = stream.is_none_or(|stream| stream == i64::from(note.stream))
        && ppid.is_none_or(|ppid| ppid as u64 == note.tag.unwrap_or(0))
        && is_unordered.is_none_or(|unordered| unordered == note.unordered);
    match fits {
        true => Ok(()),
        false => Err(Fault::Wrong(format!(
            "a message with {note:?}, {info:?} was to be"
        ))),
    }
}

/// The note and length of a message that a call sends.
fn message(call: &Call) -> Result<(Note, i64), Fault> {
    let number = |at: usize| match call.arguments.get(at) {
        Some(Value::Number(number)) => *number,
        _ => 0,
    };
    let mut note = Note::default();
    match call.name.as_str() {
        "sctp_sendmsg" => {
            note.tag = Some(number(5) as u64);
            note.unordered = matches!(call.arguments.get(6), Some(Value::Word(flags)) if flags.contains("UNORDERED"));
            note.stream = number(7) as u16;
            if number(8) > 0 {
                note.reliability = Reliability::Lifetime(Duration::from_millis(number(8) as u64));
            }
            Ok((note, number(2)))
        }
        "sctp_sendv" => sendv(call, note),
        _ => Ok((note, number(2))),
    }
}

/// `sctp_sendv(fd, [{..., LEN}], 1, ..., 1, {sendv_sndinfo={...}, sendv_prinfo={...}}, ...)`.
fn sendv(call: &Call, mut note: Note) -> Result<(Note, i64), Fault> {
    let unknown = || Fault::Unknown("sctp_sendv in another form".into());
    let Some(Value::List(vectors)) = call.arguments.get(1) else {
        return Err(unknown());
    };
    let [Value::Item(vector)] = &vectors[..] else {
        return Err(unknown());
    };
    let Some((_, Value::Number(len))) = vector.fields.get(1) else {
        return Err(unknown());
    };
    let Some(Value::Item(info)) = call.arguments.get(5) else {
        return Err(unknown());
    };
    if let Value::Item(send) = info.field("sendv_sndinfo") {
        note.stream = send.number("snd_sid")?.unwrap_or(0) as u16;
        note.tag = send.number("snd_ppid")?.map(|ppid| ppid as u64);
        note.unordered =
            matches!(send.field("snd_flags"), Value::Word(flags) if flags.contains("UNORDERED"));
    }
    if let Value::Item(partial) = info.field("sendv_prinfo") {
        let value = partial.number("pr_value")?.unwrap_or(0);
        note.reliability = match partial.field("pr_policy") {
            Value::Word(policy) if policy == "SCTP_PR_SCTP_RTX" => {
                Reliability::Retransmissions(value as u32)
            }
            Value::Word(policy) if policy == "SCTP_PR_SCTP_TTL" => {
                Reliability::Lifetime(Duration::from_millis(value as u64))
            }
            _ => return Err(unknown()),
        };
    }
    Ok((note, *len))
}
