//! The states of a provider and the events that change them: one table for all.

/// State of a provider (TS_*), with the numbers of TPI.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum State {
    /// No address yet.
    #[default]
    Unbound = 0,
    /// A bind waits for its answer.
    WaitBind = 1,
    /// An unbind waits for its answer.
    WaitUnbind = 2,
    /// Bound, without a connection.
    Idle = 3,
    /// Options wait for their answer.
    WaitOptions = 4,
    /// A request to connect waits to be acknowledged.
    WaitConnectAck = 5,
    /// A request to connect waits for the peer.
    WaitConnect = 6,
    /// Indications of connections wait for the user.
    WaitResponse = 7,
    /// An accepted connection waits for its answer.
    WaitAccept = 8,
    /// Data flow both ways.
    DataTransfer = 9,
    /// This end released; the peer's release is waited for.
    WaitRelease = 10,
    /// The peer released; this end may still send.
    WaitReleaseRequest = 11,
    /// A disconnect while connecting waits for its answer.
    WaitDisconnectConnecting = 12,
    /// A disconnect of an indication waits for its answer.
    WaitDisconnectIndication = 13,
    /// A disconnect of a connection waits for its answer.
    WaitDisconnectData = 14,
    /// A disconnect after this end's release waits for its answer.
    WaitDisconnectReleased = 15,
    /// A disconnect after the peer's release waits for its answer.
    WaitDisconnectReleasing = 16,
}

/// What happens at the interface. Where it matters, with the number of indications that wait for
/// the user, the one at hand included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// T_BIND_REQ.
    BindRequest,
    /// T_BIND_ACK.
    BindAck,
    /// T_UNBIND_REQ.
    UnbindRequest,
    /// T_OPTMGMT_REQ.
    OptionsRequest,
    /// T_OPTMGMT_ACK.
    OptionsAck,
    /// T_CONN_REQ.
    ConnectRequest,
    /// T_CONN_CON.
    ConnectConfirm,
    /// T_CONN_IND.
    ConnectIndication,
    /// T_CONN_RES.
    ConnectResponse,
    /// T_DISCON_REQ.
    DisconnectRequest,
    /// T_DISCON_IND with no indication waiting.
    DisconnectIndication,
    /// T_DISCON_IND that withdraws the only indication.
    DisconnectLastIndication,
    /// T_DISCON_IND that withdraws one of several indications.
    DisconnectOneIndication,
    /// T_DATA_REQ.
    DataRequest,
    /// T_DATA_IND.
    DataIndication,
    /// T_EXDATA_REQ.
    ExpeditedRequest,
    /// T_EXDATA_IND.
    ExpeditedIndication,
    /// T_OPTDATA_REQ.
    OptionDataRequest,
    /// T_OPTDATA_IND.
    OptionDataIndication,
    /// T_ORDREL_REQ.
    ReleaseRequest,
    /// T_ORDREL_IND.
    ReleaseIndication,
    /// T_UNITDATA_REQ.
    UnitdataRequest,
    /// T_UNITDATA_IND.
    UnitdataIndication,
    /// T_UDERROR_IND.
    UnitdataError,
    /// T_OK_ACK, of what was asked for, when no indication waits.
    OkAck,
    /// T_OK_ACK of an accept on the listening stream itself, of the only indication.
    OkAckAcceptedHere,
    /// T_OK_ACK of an accept on another stream, or of a refusal, of the only indication.
    OkAckLast,
    /// T_OK_ACK of an accept or a refusal when further indications wait.
    OkAckOne,
    /// T_ERROR_ACK.
    ErrorAck,
    /// A connection is passed here from the stream that listened.
    PassConnection,
}

impl State {
    /// All states.
    pub const ALL: [State; 17] = [
        State::Unbound,
        State::WaitBind,
        State::WaitUnbind,
        State::Idle,
        State::WaitOptions,
        State::WaitConnectAck,
        State::WaitConnect,
        State::WaitResponse,
        State::WaitAccept,
        State::DataTransfer,
        State::WaitRelease,
        State::WaitReleaseRequest,
        State::WaitDisconnectConnecting,
        State::WaitDisconnectIndication,
        State::WaitDisconnectData,
        State::WaitDisconnectReleased,
        State::WaitDisconnectReleasing,
    ];

    /// Changes the state; false, and nothing changes, when the event is not allowed.
    pub(crate) fn advance(&mut self, event: Event) -> bool {
        let next = self.after(event);
        *self = next.unwrap_or(*self);
        next.is_some()
    }

    /// The next state; None where the event is not allowed (TOUTSTATE, or EPROTO where the
    /// primitive has no answer).
    #[rustfmt::skip]
    pub fn after(self, event: Event) -> Option<State> {
        use Event::*;
        use State::*;
        Some(match (self, event) {
            (Unbound, BindRequest) => WaitBind,
            (WaitBind, BindAck) => Idle,
            (WaitBind, ErrorAck) => Unbound,
            (Idle, UnbindRequest) => WaitUnbind,
            (WaitUnbind, OkAck) => Unbound,
            (WaitUnbind, ErrorAck) => Idle,
            (Idle, OptionsRequest) => WaitOptions,
            (WaitOptions, OptionsAck | ErrorAck) => Idle,
            (Idle, ConnectRequest) => WaitConnectAck,
            (WaitConnectAck, OkAck) => WaitConnect,
            (WaitConnectAck, ErrorAck) => Idle,
            (WaitConnect, ConnectConfirm) => DataTransfer,
            (Idle | WaitResponse, ConnectIndication) => WaitResponse,
            (WaitResponse, ConnectResponse) => WaitAccept,
            (WaitAccept, ErrorAck) => WaitResponse,
            (WaitAccept, OkAckAcceptedHere) => DataTransfer,
            (WaitAccept, OkAckLast) => Idle,
            (WaitAccept, OkAckOne) => WaitResponse,
            (Unbound | Idle, PassConnection) => DataTransfer,
            (DataTransfer | WaitReleaseRequest, DataRequest | ExpeditedRequest | OptionDataRequest) => self,
            (DataTransfer | WaitRelease, DataIndication | ExpeditedIndication | OptionDataIndication) => self,
            (DataTransfer, ReleaseRequest) => WaitRelease,
            (WaitReleaseRequest, ReleaseRequest) => Idle,
            (DataTransfer, ReleaseIndication) => WaitReleaseRequest,
            (WaitRelease, ReleaseIndication) => Idle,
            (WaitConnect, DisconnectRequest) => WaitDisconnectConnecting,
            (WaitResponse, DisconnectRequest) => WaitDisconnectIndication,
            (DataTransfer, DisconnectRequest) => WaitDisconnectData,
            (WaitRelease, DisconnectRequest) => WaitDisconnectReleased,
            (WaitReleaseRequest, DisconnectRequest) => WaitDisconnectReleasing,
            (WaitDisconnectConnecting | WaitDisconnectData | WaitDisconnectReleased | WaitDisconnectReleasing, OkAck) => Idle,
            (WaitDisconnectIndication, OkAckLast) => Idle,
            (WaitDisconnectIndication, OkAckOne) => WaitResponse,
            (WaitDisconnectConnecting, ErrorAck) => WaitConnect,
            (WaitDisconnectIndication, ErrorAck) => WaitResponse,
            (WaitDisconnectData, ErrorAck) => DataTransfer,
            (WaitDisconnectReleased, ErrorAck) => WaitRelease,
            (WaitDisconnectReleasing, ErrorAck) => WaitReleaseRequest,
            (WaitConnect | DataTransfer | WaitRelease | WaitReleaseRequest, DisconnectIndication) => Idle,
            (WaitResponse, DisconnectLastIndication) => Idle,
            (WaitResponse, DisconnectOneIndication) => WaitResponse,
            (Idle, UnitdataRequest | UnitdataIndication | UnitdataError) => Idle,
            _ => return None,
        })
    }
}
