//! MGMT of XTP 3.x: questions of allowed hosts about contexts, routes and counters (0008, MGMT).
//!
//! An answer is as long as its question: a forged source gets no more octets than were sent. So a question brings the room for
//! its answer, and asks on where the last answer ended.

use crate::pdu::v3::{
    BodyV3, HeaderV3, InformationSegment, OP_REQUEST, OP_RESPONSE, PacketKind, RTN_V3,
};
use crate::route_values::returned_field;
use core::fmt::Write;
use core::net::{IpAddr, Ipv4Addr};
use engine::{Address, Counters};

/// What a question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Associations.
    Contexts,
    /// Routes to neighbours.
    Routes,
    /// Counters of packets and bytes.
    Counters,
}

impl Subject {
    /// All subjects by name.
    pub const ALL: [(&'static str, Subject); 3] = [
        ("contexts", Subject::Contexts),
        ("routes", Subject::Routes),
        ("counters", Subject::Counters),
    ];

    fn number(self) -> u32 {
        match self {
            Subject::Contexts => 1,
            Subject::Routes => 2,
            Subject::Counters => 3,
        }
    }
}

/// Octets by which the asking host knows its question.
pub const NAME_LEN: usize = 12;

/// Octets before the records of an answer: the name, the subject, and the number of the next record.
pub const HEAD_LEN: usize = NAME_LEN + 8;

/// Octets of a question at least: an answer has room for one record.
pub const QUESTION_LEN_MIN: usize = HEAD_LEN + RECORD_LEN_MAX;

/// Octets of a record at most, its line feed included; longer ones are cut.
pub const RECORD_LEN_MAX: usize = 400;

/// The number of the next record in an answer behind which there is none.
const NO_MORE: u32 = u32::MAX;

/// A question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// By which its answer is known.
    pub name: [u8; NAME_LEN],
    /// What it is about.
    pub subject: Subject,
    /// The first record that is wanted.
    pub from: u32,
}

impl Question {
    /// Its octets, with room for an answer of `len` octets in all.
    pub fn encode(&self, len: usize) -> Vec<u8> {
        let mut octets = head(&self.name, self.subject, self.from);
        octets.resize(len.max(QUESTION_LEN_MIN), 0);
        octets
    }

    /// The question in a request, and the octets that its answer may take; None for others.
    fn decode(octets: &[u8]) -> Option<(Question, usize)> {
        if octets.len() < QUESTION_LEN_MIN {
            return None;
        }
        let word = |at: usize| Some(u32::from_be_bytes(*octets.get(at..)?.first_chunk()?));
        let number = word(NAME_LEN)?;
        let mut all = Subject::ALL.iter();
        let (_, subject) = all.find(|(_, subject)| subject.number() == number)?;
        let question = Question {
            name: *octets.first_chunk()?,
            subject: *subject,
            from: word(NAME_LEN + 4)?,
        };
        Some((question, octets.len()))
    }
}

fn head(name: &[u8; NAME_LEN], subject: Subject, number: u32) -> Vec<u8> {
    [
        &name[..],
        &subject.number().to_be_bytes(),
        &number.to_be_bytes(),
    ]
    .concat()
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagementAnswer {
    /// Its records, a line of `KEY=VALUE` each.
    pub records: Vec<String>,
    /// The first record that is not in it; None when there is none.
    pub next: Option<u32>,
}

impl ManagementAnswer {
    /// The answer to `question` in a response; None for others.
    pub fn decode(octets: &[u8], question: &Question) -> Option<ManagementAnswer> {
        let expected = head(&question.name, question.subject, 0);
        let (own, rest) = octets.split_at_checked(NAME_LEN + 4)?;
        if own != &expected[..NAME_LEN + 4] {
            return None;
        }
        let (next, text) = rest.split_first_chunk()?;
        let next = Some(u32::from_be_bytes(*next)).filter(|&next| next != NO_MORE);
        let text = text.split(|&octet| octet == 0).next()?;
        let text = str::from_utf8(text).ok()?;
        let records: Vec<String> = text.lines().map(str::to_owned).collect();
        // Each answer leads on by what it holds, or the asking host would never end.
        let leads_on = |&next: &u32| {
            !records.is_empty()
                && next.checked_sub(question.from) == u32::try_from(records.len()).ok()
        };
        next.as_ref().is_none_or(leads_on).then_some(())?;
        Some(ManagementAnswer { records, next })
    }
}

/// Whether `from` may ask.
pub(crate) fn is_manager(managers: &[IpAddr], from: Address) -> bool {
    let host = match from {
        Address::Socket(socket) => socket.ip(),
        Address::Station(station) => Ipv4Addr::from(station).into(),
        Address::Ether(_) => return false,
    };
    managers.contains(&host)
}

/// The header and body of the response to a request of an allowed host; None when it is no question.
pub(crate) fn respond<I: Iterator<Item = String>>(
    header: &HeaderV3,
    info: &InformationSegment<'_>,
    hop_limit: u8,
    records: impl FnOnce(Subject) -> I,
) -> Option<(HeaderV3, Vec<u8>)> {
    if info.op != OP_REQUEST {
        return None;
    }
    let (question, room) = Question::decode(info.octets)?;
    let octets = answer(&question, room, records(question.subject));
    let route = returned_field(header.route);
    let back = HeaderV3 {
        key: header.key ^ RTN_V3,
        ..HeaderV3::plain(PacketKind::Mgmt, route, hop_limit)
    };
    Some((back, octets))
}

/// The body of a response.
pub(crate) fn response_body(octets: &[u8]) -> BodyV3<'_> {
    BodyV3::Mgmt(InformationSegment {
        op: OP_RESPONSE,
        octets,
    })
}

/// As many whole records as there is room for, padded to the length of the question.
fn answer(question: &Question, room: usize, records: impl Iterator<Item = String>) -> Vec<u8> {
    let mut octets = head(&question.name, question.subject, NO_MORE);
    for (mut record, number) in records.skip(question.from as usize).zip(question.from..) {
        record.truncate(record.floor_char_boundary(RECORD_LEN_MAX - 1));
        if octets.len() + record.len() + 1 > room {
            octets[HEAD_LEN - 4..HEAD_LEN].copy_from_slice(&number.to_be_bytes());
            break;
        }
        octets.extend(record.as_bytes());
        octets.push(b'\n');
    }
    octets.resize(room, 0);
    octets
}

/// The counters as records.
pub(crate) fn counter_records(counters: &Counters) -> impl Iterator<Item = String> + use<> {
    [
        ("packets_built", counters.packets_built),
        ("packets_parsed", counters.packets_parsed),
        ("packets_discarded", counters.packets_discarded),
        ("bytes_sent", counters.bytes_sent),
        ("bytes_delivered", counters.bytes_delivered),
        ("bytes_lost", counters.bytes_lost),
        ("retransmissions", counters.retransmissions),
        ("timers_set", counters.timers_set),
    ]
    .into_iter()
    .map(|(name, count)| format!("{name}={count}"))
}

/// A record of names and values; those without a value are left out.
pub(crate) fn record(fields: &[(&str, Option<String>)]) -> String {
    let mut text = String::new();
    for (name, value) in fields {
        let Some(value) = value else { continue };
        let gap = if text.is_empty() { "" } else { " " };
        // Writing to a String cannot fail.
        let _ = write!(text, "{gap}{name}={value}");
    }
    text
}

/// An address in a record.
pub(crate) fn address_text(address: Address) -> String {
    match address {
        Address::Socket(socket) => socket.to_string(),
        Address::Station(station) => Ipv4Addr::from(station).to_string(),
        Address::Ether(hardware) => hardware.map(|octet| format!("{octet:02x}")).join(":"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUESTION: Question = Question {
        name: *b"twelve octet",
        subject: Subject::Counters,
        from: 0,
    };

    fn ask_all(records: usize, len: usize) -> Vec<String> {
        let all =
            |_: usize| (0..records).map(|number| format!("number={number} {}", "x".repeat(90)));
        let (mut question, mut got) = (QUESTION, Vec::new());
        loop {
            let octets = question.encode(len);
            let (heard, room) = Question::decode(&octets).expect("a question");
            assert_eq!((heard, room), (question, octets.len()));
            let given = answer(&heard, room, all(0));
            assert_eq!(given.len(), octets.len(), "as long as what was asked");
            let given = ManagementAnswer::decode(&given, &question).expect("its answer");
            got.extend(given.records);
            match given.next {
                Some(next) => question.from = next,
                None => return got,
            }
        }
    }

    #[test]
    fn answers_lead_on_until_all_records_came_once() {
        for (records, len) in [(0, 500), (1, 500), (40, 500), (40, 1384)] {
            let got = ask_all(records, len);
            assert_eq!(got.len(), records);
            let starts =
                |(number, line): (usize, &String)| line.starts_with(&format!("number={number} "));
            assert!(got.iter().enumerate().all(starts));
        }
    }

    #[test]
    fn what_is_no_question_or_no_answer_is_neither() {
        let octets = QUESTION.encode(0);
        assert!(Question::decode(&octets[..QUESTION_LEN_MIN - 1]).is_none());
        let mut other = octets.clone();
        other[NAME_LEN + 3] = 9;
        assert!(Question::decode(&other).is_none());
        // Answers that lead nowhere, or past what they hold, and one to another question.
        assert_eq!(ManagementAnswer::decode(&octets, &QUESTION), None);
        let mut far = octets.clone();
        far[HEAD_LEN - 1] = 1;
        assert_eq!(ManagementAnswer::decode(&far, &QUESTION), None);
        let given = answer(&QUESTION, 600, std::iter::once("a=1".to_owned()));
        let named = Question {
            name: *b"another name",
            ..QUESTION
        };
        assert_eq!(ManagementAnswer::decode(&given, &named), None);
        for len in 0..given.len() {
            // Whatever is cut is read or refused.
            let _ = ManagementAnswer::decode(&given[..len], &QUESTION);
        }
    }

    #[test]
    fn long_record_is_cut_and_comes() {
        let long = "\u{fc}".repeat(RECORD_LEN_MAX);
        let given = answer(&QUESTION, QUESTION_LEN_MIN, std::iter::once(long));
        let given = ManagementAnswer::decode(&given, &QUESTION).expect("its answer");
        assert_eq!(given.next, None);
        assert!((RECORD_LEN_MAX - 3..RECORD_LEN_MAX).contains(&given.records[0].len()));
    }

    #[test]
    fn only_listed_hosts_may_ask() {
        let managers: Vec<IpAddr> = vec!["10.0.0.5".parse().expect("an address")];
        let from = |text: &str| Address::Socket(text.parse().expect("an address"));
        assert!(is_manager(&managers, from("10.0.0.5:1234")));
        assert!(is_manager(&managers, Address::Station(0x0a00_0005)));
        assert!(!is_manager(&managers, from("10.0.0.6:1234")));
        assert!(!is_manager(&managers, Address::Ether([0; 6])));
        assert!(!is_manager(&[], from("10.0.0.5:1234")));
    }
}
