//! The primitives of TPI as octets of a control part: native order, the type first, then fixed
//! fields; addresses and options lie behind them, found by offset and length.

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
    pub const ADDR_REQ: u32 = 25;
    pub const ADDR_ACK: u32 = 27;
}

/// MessageKind of service (SERV_type).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ServiceType {
    /// Connections (T_COTS).
    Connections = 1,
    /// Connections with orderly release (T_COTS_ORD).
    ConnectionsWithRelease = 2,
    /// Datagrams (T_CLTS).
    Datagrams = 3,
}

/// What a provider can (T_INFO_ACK). Sizes: 0 for a stream without boundaries, -1 for no limit, -2
/// for what is not supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Information {
    /// Octets of a message (TSDU).
    pub tsdu: i32,
    /// Octets of an expedited message (ETSDU).
    pub etsdu: i32,
    /// Octets of data with a connect.
    pub connect: i32,
    /// Octets of data with a disconnect.
    pub disconnect: i32,
    /// Octets of an address.
    pub address: i32,
    /// Octets of options.
    pub options: i32,
    /// Octets of one primitive's data (TIDU).
    pub tidu: i32,
    /// MessageKind of service.
    pub service: ServiceType,
    /// State of the provider.
    pub state: u32,
    /// What else it can (PROVIDER_flag): [`SEND_ZERO`], [`RELEASE_DATA`].
    pub flags: u32,
}

/// Flag of a provider that carries messages without octets (SENDZERO).
pub const SEND_ZERO: u32 = 1;
/// Flag of a provider that carries data with an orderly release (ORDRELDATA).
pub const RELEASE_DATA: u32 = 2;

impl Information {
    /// Before the provider has said.
    pub(crate) const UNKNOWN: Information = Information {
        tsdu: -2,
        etsdu: -2,
        connect: -2,
        disconnect: -2,
        address: 0,
        options: -3,
        tidu: 0,
        service: ServiceType::Connections,
        state: 0,
        flags: 0,
    };
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
    ConnectRequest {
        destination: Vec<u8>,
    },
    ConnectConfirm {
        responding: Vec<u8>,
    },
    ConnectIndication {
        source: Vec<u8>,
        sequence: u32,
    },
    /// Accept an indication on the stream with this token.
    ConnectResponse {
        acceptor: u32,
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
    ReleaseRequest,
    ReleaseIndication,
    /// A datagram for an address (T_UNITDATA_REQ).
    DatagramRequest {
        destination: Vec<u8>,
    },
    /// A datagram came (T_UNITDATA_IND).
    DatagramIndication {
        source: Vec<u8>,
    },
    /// A datagram did not leave (T_UDERROR_IND).
    DatagramError {
        destination: Vec<u8>,
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

/// Reads a control part.
///
/// # Errors
///
/// [`Malformed`] says what the provider does.
pub fn parse(octets: &[u8]) -> Parsed {
    use number::*;
    let word = |index| word(octets, index);
    Ok(match word(0)? {
        CONN_REQ => {
            word(4)?;
            Primitive::ConnectRequest {
                destination: range(octets, 1)?,
            }
        }
        CONN_RES => Primitive::ConnectResponse {
            acceptor: word(1)?,
            sequence: word(4)?,
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
        UNITDATA_REQ => {
            word(4)?;
            // It has no answer that could name the address.
            let destination = range(octets, 1).map_err(|_| Malformed::Fatal)?;
            Primitive::DatagramRequest { destination }
        }
        OPTMGMT_REQ => Primitive::OptionsRequest {
            flags: word(3)?,
            options: range(octets, 1).map_err(|_| Malformed::Options(OPTMGMT_REQ))?,
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
        CONN_CON => {
            word(4)?;
            Primitive::ConnectConfirm {
                responding: range(octets, 1)?,
            }
        }
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
        UNITDATA_IND => {
            word(4)?;
            Primitive::DatagramIndication {
                source: range(octets, 1)?,
            }
        }
        UDERROR_IND => Primitive::DatagramError {
            errno: word(5)?,
            destination: range(octets, 1)?,
        },
        ADDR_ACK => Primitive::AddressAck {
            local: range(octets, 1)?,
            remote: range(octets, 3)?,
        },
        _ => return Err(Malformed::Fatal),
    })
}

fn parse_information(octets: &[u8]) -> Result<Information, Malformed> {
    let size = |index| word(octets, index).map(|value| value as i32);
    Ok(Information {
        tsdu: size(1)?,
        etsdu: size(2)?,
        connect: size(3)?,
        disconnect: size(4)?,
        address: size(5)?,
        options: size(6)?,
        tidu: size(7)?,
        service: match word(octets, 8)? {
            1 => ServiceType::Connections,
            2 => ServiceType::ConnectionsWithRelease,
            3 => ServiceType::Datagrams,
            _ => return Err(Malformed::Fatal),
        },
        state: word(octets, 9)?,
        flags: word(octets, 10)?,
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
            }
            | Primitive::ConnectConfirm {
                responding: address,
            }
            | Primitive::DatagramRequest {
                destination: address,
            }
            | Primitive::DatagramIndication { source: address } => {
                with_words(&[number, address.len() as u32, 20, 0, 0], address)
            }
            Primitive::DatagramError { destination, errno } => {
                let words = [number, destination.len() as u32, 24, 0, 0, *errno];
                with_words(&words, destination)
            }
            Primitive::ConnectIndication { source, sequence } => {
                with_words(&[number, source.len() as u32, 24, 0, 0, *sequence], source)
            }
            Primitive::ConnectResponse { acceptor, sequence } => {
                with_words(&[number, *acceptor, 0, 0, *sequence], &[])
            }
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
            Primitive::AddressAck { local, remote } => {
                let (at, len) = (20, local.len() as u32);
                let words = [number, len, at, remote.len() as u32, at + len];
                with_words(&words, &[local.as_slice(), remote.as_slice()].concat())
            }
            Primitive::OkAck { of } => with_words(&[number, *of], &[]),
            Primitive::ErrorAck { of, tli, errno } => with_words(&[number, *of, *tli, *errno], &[]),
        }
    }

    /// A disconnect of the connection itself, not of an indication.
    pub fn disconnect_request() -> Primitive {
        Primitive::DisconnectRequest {
            sequence: BAD_SEQUENCE,
        }
    }
}

fn information_words(number: u32, info: &Information) -> [u32; 11] {
    let sizes = [
        info.tsdu,
        info.etsdu,
        info.connect,
        info.disconnect,
        info.address,
        info.options,
        info.tidu,
    ];
    let mut words = [0; 11];
    words[0] = number;
    for (word, size) in words[1..8].iter_mut().zip(sizes) {
        *word = size as u32;
    }
    words[8] = info.service as u32;
    words[9] = info.state;
    words[10] = info.flags;
    words
}

fn with_words(words: &[u32], behind: &[u8]) -> Vec<u8> {
    let mut octets: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    octets.extend_from_slice(behind);
    octets
}
