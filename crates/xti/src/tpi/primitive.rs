//! The primitives of TPI as octets of a control part: native order, the type first, then fixed
//! fields; addresses and options lie behind them, found by offset and length.

use super::information::{Information, information_words, parse_information};

/// Numbers of the primitives (PRIM_type).
pub mod number {
    #![allow(missing_docs)]
    pub const CONN_REQ: u32 = 0;
    pub const CONN_RES: u32 = 1;
    pub const DISCON_REQ: u32 = 2;
    pub const DATA_REQ: u32 = 3;
    pub const EXDATA_REQ: u32 = 4;
    pub const INFO_REQ: u32 = 5;
    pub const BIND_REQ: u32 = 6;
    pub const UNBIND_REQ: u32 = 7;
    pub const UNITDATA_REQ: u32 = 8;
    pub const OPTMGMT_REQ: u32 = 9;
    pub const ORDREL_REQ: u32 = 10;
    pub const CONN_IND: u32 = 11;
    pub const CONN_CON: u32 = 12;
    pub const DISCON_IND: u32 = 13;
    pub const DATA_IND: u32 = 14;
    pub const EXDATA_IND: u32 = 15;
    pub const INFO_ACK: u32 = 16;
    pub const BIND_ACK: u32 = 17;
    pub const ERROR_ACK: u32 = 18;
    pub const OK_ACK: u32 = 19;
    pub const UNITDATA_IND: u32 = 20;
    pub const UDERROR_IND: u32 = 21;
    pub const OPTMGMT_ACK: u32 = 22;
    pub const ORDREL_IND: u32 = 23;
    pub const OPTDATA_REQ: u32 = 24;
    pub const ADDR_REQ: u32 = 25;
    pub const OPTDATA_IND: u32 = 26;
    pub const ADDR_ACK: u32 = 27;
}

/// A primitive. Addresses are octets of the provider's own format.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Primitive {
    InfoRequest,
    InfoAck(Information),
    /// Bind to an address (empty: any), and how many indications may wait.
    BindRequest {
        address: Vec<u8>,
        indications: u32,
    },
    BindAck {
        address: Vec<u8>,
        indications: u32,
    },
    UnbindRequest,
    /// Connect, with options of this connection.
    ConnectRequest {
        destination: Vec<u8>,
        options: Vec<u8>,
    },
    /// The peer answered; the options as they are.
    ConnectConfirm {
        responding: Vec<u8>,
        options: Vec<u8>,
    },
    ConnectIndication {
        source: Vec<u8>,
        sequence: u32,
    },
    /// Accept an indication on the stream with this token, with options of this connection.
    ConnectResponse {
        acceptor: u32,
        options: Vec<u8>,
        sequence: u32,
    },
    /// End a connection, or refuse an indication.
    DisconnectRequest {
        sequence: u32,
    },
    DisconnectIndication {
        reason: u32,
        sequence: u32,
    },
    DataRequest {
        more: bool,
    },
    DataIndication {
        more: bool,
    },
    /// Data that may pass others (T_EXDATA_REQ).
    ExpeditedRequest {
        more: bool,
    },
    ExpeditedIndication {
        more: bool,
    },
    /// Data with options of their message (T_OPTDATA_REQ), which may be expedited.
    OptionsDataRequest {
        more: bool,
        expedited: bool,
        options: Vec<u8>,
    },
    /// Data that came with options (T_OPTDATA_IND).
    OptionsDataIndication {
        more: bool,
        expedited: bool,
        options: Vec<u8>,
    },
    ReleaseRequest,
    ReleaseIndication,
    /// A datagram for an address, with options of its own (T_UNITDATA_REQ).
    DatagramRequest {
        destination: Vec<u8>,
        options: Vec<u8>,
    },
    /// A datagram came (T_UNITDATA_IND).
    DatagramIndication {
        source: Vec<u8>,
        options: Vec<u8>,
    },
    /// A datagram did not leave (T_UDERROR_IND).
    DatagramError {
        destination: Vec<u8>,
        options: Vec<u8>,
        errno: u32,
    },
    /// Options, and what is asked of them (T_OPTMGMT_REQ).
    OptionsRequest {
        options: Vec<u8>,
        flags: u32,
    },
    /// Options as they are, and how that went at worst (T_OPTMGMT_ACK).
    OptionsAck {
        options: Vec<u8>,
        flags: u32,
    },
    AddressRequest,
    AddressAck {
        local: Vec<u8>,
        remote: Vec<u8>,
    },
    OkAck {
        of: u32,
    },
    ErrorAck {
        of: u32,
        tli: u32,
        errno: u32,
    },
}

/// Why octets are no primitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Shorter than its type, or of no known type: the stream fails with EPROTO.
    Fatal,
    /// An address outside of the octets, in a request that is answered: TBADADDR for this type.
    Address(u32),
    /// Options outside of the octets, in a request that is answered: TBADOPT for this type.
    Options(u32),
}

/// A primitive, or why there is none.
pub type Parsed = Result<Primitive, Malformed>;

const BAD_SEQUENCE: u32 = u32::MAX;

/// Flags of data with options (T_ODF_MORE, T_ODF_EX).
const DATA_MORE: u32 = 1;
const DATA_EXPEDITED: u32 = 2;

/// A number in the octets.
pub(super) fn word(octets: &[u8], index: usize) -> Result<u32, Malformed> {
    let field = octets
        .get(index * 4..index * 4 + 4)
        .ok_or(Malformed::Fatal)?;
    Ok(u32::from_ne_bytes(
        field.try_into().map_err(|_| Malformed::Fatal)?,
    ))
}

/// The octets that the length and offset at two fields name.
fn range(octets: &[u8], index: usize) -> Result<Vec<u8>, Malformed> {
    let (len, at) = (
        word(octets, index)? as usize,
        word(octets, index + 1)? as usize,
    );
    if len == 0 {
        return Ok(Vec::new());
    }
    let end = at.checked_add(len);
    let found = end.and_then(|end| octets.get(at..end));
    Ok(found.ok_or(Malformed::Address(word(octets, 0)?))?.to_vec())
}

/// The same of options, whose error is another one.
fn options_in(octets: &[u8], index: usize) -> Result<Vec<u8>, Malformed> {
    range(octets, index).map_err(|error| match error {
        Malformed::Address(of) => Malformed::Options(of),
        other => other,
    })
}

/// Reads a control part.
///
/// # Errors
///
/// [`Malformed`] says what the provider does.
pub fn parse(octets: &[u8]) -> Parsed {
    use number::*;
    let word = |index| word(octets, index);
    Ok(match word(0)? {
        CONN_REQ => Primitive::ConnectRequest {
            options: options_in(octets, 3)?,
            destination: range(octets, 1)?,
        },
        CONN_RES => Primitive::ConnectResponse {
            acceptor: word(1)?,
            sequence: word(4)?,
            options: options_in(octets, 2)?,
        },
        DISCON_REQ => Primitive::DisconnectRequest { sequence: word(1)? },
        DATA_REQ => Primitive::DataRequest {
            more: word(1)? & 1 != 0,
        },
        EXDATA_REQ => Primitive::ExpeditedRequest {
            more: word(1)? & 1 != 0,
        },
        INFO_REQ => Primitive::InfoRequest,
        BIND_REQ => Primitive::BindRequest {
            indications: word(3)?,
            address: range(octets, 1)?,
        },
        UNBIND_REQ => Primitive::UnbindRequest,
        OPTDATA_REQ => Primitive::OptionsDataRequest {
            more: word(1)? & DATA_MORE != 0,
            expedited: word(1)? & DATA_EXPEDITED != 0,
            // It has no answer that could name the options.
            options: range(octets, 2).map_err(|_| Malformed::Fatal)?,
        },
        UNITDATA_REQ => {
            // It has no answer that could name the address, or the options.
            let part = |index| range(octets, index).map_err(|_| Malformed::Fatal);
            Primitive::DatagramRequest {
                options: part(3)?,
                destination: part(1)?,
            }
        }
        OPTMGMT_REQ => Primitive::OptionsRequest {
            flags: word(3)?,
            options: options_in(octets, 1)?,
        },
        ORDREL_REQ => Primitive::ReleaseRequest,
        ADDR_REQ => Primitive::AddressRequest,
        _ => return parse_of_provider(octets),
    })
}

/// Reads what only providers send.
fn parse_of_provider(octets: &[u8]) -> Parsed {
    use number::*;
    let word = |index| word(octets, index);
    Ok(match word(0)? {
        CONN_IND => Primitive::ConnectIndication {
            sequence: word(5)?,
            source: range(octets, 1)?,
        },
        CONN_CON => Primitive::ConnectConfirm {
            options: options_in(octets, 3)?,
            responding: range(octets, 1)?,
        },
        DISCON_IND => Primitive::DisconnectIndication {
            reason: word(1)?,
            sequence: word(2)?,
        },
        DATA_IND => Primitive::DataIndication {
            more: word(1)? & 1 != 0,
        },
        EXDATA_IND => Primitive::ExpeditedIndication {
            more: word(1)? & 1 != 0,
        },
        OPTDATA_IND => Primitive::OptionsDataIndication {
            more: word(1)? & DATA_MORE != 0,
            expedited: word(1)? & DATA_EXPEDITED != 0,
            options: range(octets, 2)?,
        },
        INFO_ACK => Primitive::InfoAck(parse_information(octets)?),
        BIND_ACK => Primitive::BindAck {
            indications: word(3)?,
            address: range(octets, 1)?,
        },
        ERROR_ACK => Primitive::ErrorAck {
            of: word(1)?,
            tli: word(2)?,
            errno: word(3)?,
        },
        OK_ACK => Primitive::OkAck { of: word(1)? },
        OPTMGMT_ACK => Primitive::OptionsAck {
            flags: word(3)?,
            options: range(octets, 1)?,
        },
        ORDREL_IND => Primitive::ReleaseIndication,
        UNITDATA_IND => Primitive::DatagramIndication {
            options: range(octets, 3)?,
            source: range(octets, 1)?,
        },
        UDERROR_IND => Primitive::DatagramError {
            errno: word(5)?,
            options: range(octets, 3)?,
            destination: range(octets, 1)?,
        },
        ADDR_ACK => Primitive::AddressAck {
            local: range(octets, 1)?,
            remote: range(octets, 3)?,
        },
        _ => return Err(Malformed::Fatal),
    })
}

impl Primitive {
    /// Its number.
    #[rustfmt::skip]
    pub fn number(&self) -> u32 {
        use number::*;
        match self {
            Primitive::InfoRequest => INFO_REQ,
            Primitive::InfoAck(_) => INFO_ACK,
            Primitive::BindRequest { .. } => BIND_REQ,
            Primitive::BindAck { .. } => BIND_ACK,
            Primitive::UnbindRequest => UNBIND_REQ,
            Primitive::ConnectRequest { .. } => CONN_REQ,
            Primitive::ConnectConfirm { .. } => CONN_CON,
            Primitive::ConnectIndication { .. } => CONN_IND,
            Primitive::ConnectResponse { .. } => CONN_RES,
            Primitive::DisconnectRequest { .. } => DISCON_REQ,
            Primitive::DisconnectIndication { .. } => DISCON_IND,
            Primitive::DataRequest { .. } => DATA_REQ,
            Primitive::DataIndication { .. } => DATA_IND,
            Primitive::ExpeditedRequest { .. } => EXDATA_REQ,
            Primitive::ExpeditedIndication { .. } => EXDATA_IND,
            Primitive::OptionsDataRequest { .. } => OPTDATA_REQ,
            Primitive::OptionsDataIndication { .. } => OPTDATA_IND,
            Primitive::ReleaseRequest => ORDREL_REQ,
            Primitive::ReleaseIndication => ORDREL_IND,
            Primitive::DatagramRequest { .. } => UNITDATA_REQ,
            Primitive::DatagramIndication { .. } => UNITDATA_IND,
            Primitive::DatagramError { .. } => UDERROR_IND,
            Primitive::OptionsRequest { .. } => OPTMGMT_REQ,
            Primitive::OptionsAck { .. } => OPTMGMT_ACK,
            Primitive::AddressRequest => ADDR_REQ,
            Primitive::AddressAck { .. } => ADDR_ACK,
            Primitive::OkAck { .. } => OK_ACK,
            Primitive::ErrorAck { .. } => ERROR_ACK,
        }
    }

    /// Whether it goes as M_PCPROTO: acknowledgements, and requests for information.
    pub fn is_high_priority(&self) -> bool {
        matches!(
            self,
            Primitive::InfoRequest
                | Primitive::InfoAck(_)
                | Primitive::BindAck { .. }
                | Primitive::OkAck { .. }
                | Primitive::ErrorAck { .. }
                | Primitive::AddressAck { .. }
                | Primitive::OptionsAck { .. }
        )
    }

    /// Its octets.
    pub fn octets(&self) -> Vec<u8> {
        let number = self.number();
        match self {
            Primitive::InfoRequest
            | Primitive::UnbindRequest
            | Primitive::ReleaseRequest
            | Primitive::ReleaseIndication
            | Primitive::AddressRequest => with_words(&[number], &[]),
            Primitive::InfoAck(info) => with_words(&information_words(number, info), &[]),
            Primitive::BindRequest {
                address,
                indications,
            }
            | Primitive::BindAck {
                address,
                indications,
            } => with_words(&[number, address.len() as u32, 16, *indications], address),
            Primitive::OptionsRequest { options, flags }
            | Primitive::OptionsAck { options, flags } => {
                with_words(&[number, options.len() as u32, 16, *flags], options)
            }
            Primitive::ConnectRequest {
                destination: address,
                options,
            }
            | Primitive::ConnectConfirm {
                responding: address,
                options,
            }
            | Primitive::DatagramRequest {
                destination: address,
                options,
            }
            | Primitive::DatagramIndication {
                source: address,
                options,
            } => address_and_options(number, address, options),
            Primitive::DatagramError {
                destination,
                options,
                errno,
            } => datagram_error(destination, options, *errno),
            Primitive::ConnectIndication { source, sequence } => {
                with_words(&[number, source.len() as u32, 24, 0, 0, *sequence], source)
            }
            Primitive::ConnectResponse {
                acceptor,
                options,
                sequence,
            } => connect_response(*acceptor, options, *sequence),
            Primitive::DisconnectRequest { sequence } => with_words(&[number, *sequence], &[]),
            Primitive::DisconnectIndication { reason, sequence } => {
                with_words(&[number, *reason, *sequence], &[])
            }
            Primitive::DataRequest { more }
            | Primitive::DataIndication { more }
            | Primitive::ExpeditedRequest { more }
            | Primitive::ExpeditedIndication { more } => {
                with_words(&[number, u32::from(*more)], &[])
            }
            Primitive::OptionsDataRequest { .. } | Primitive::OptionsDataIndication { .. } => {
                self.options_data()
            }
            Primitive::AddressAck { local, remote } => address_and_options(number, local, remote),
            Primitive::OkAck { of } => with_words(&[number, *of], &[]),
            Primitive::ErrorAck { of, tli, errno } => with_words(&[number, *of, *tli, *errno], &[]),
        }
    }

    /// The octets of data with options; none of others.
    fn options_data(&self) -> Vec<u8> {
        match self {
            Primitive::OptionsDataRequest {
                more,
                expedited,
                options,
            }
            | Primitive::OptionsDataIndication {
                more,
                expedited,
                options,
            } => {
                let flags =
                    (u32::from(*more) * DATA_MORE) | (u32::from(*expedited) * DATA_EXPEDITED);
                let words = [self.number(), flags, options.len() as u32, 16];
                with_words(&words, options)
            }
            _ => Vec::new(),
        }
    }

    /// A disconnect of the connection itself, not of an indication.
    pub fn disconnect_request() -> Primitive {
        Primitive::DisconnectRequest {
            sequence: BAD_SEQUENCE,
        }
    }
}

/// Two addresses, or an address and options, each with its length and offset.
fn address_and_options(number: u32, address: &[u8], options: &[u8]) -> Vec<u8> {
    let (len, at) = (address.len() as u32, 20);
    let words = [number, len, at, options.len() as u32, at + len];
    with_words(&words, &[address, options].concat())
}

fn connect_response(acceptor: u32, options: &[u8], sequence: u32) -> Vec<u8> {
    let len = options.len() as u32;
    with_words(&[number::CONN_RES, acceptor, len, 20, sequence], options)
}

fn datagram_error(destination: &[u8], options: &[u8], errno: u32) -> Vec<u8> {
    let (len, at) = (destination.len() as u32, 24);
    let words = [
        number::UDERROR_IND,
        len,
        at,
        options.len() as u32,
        at + len,
        errno,
    ];
    with_words(&words, &[destination, options].concat())
}

fn with_words(words: &[u32], behind: &[u8]) -> Vec<u8> {
    let mut octets: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    octets.extend_from_slice(behind);
    octets
}
