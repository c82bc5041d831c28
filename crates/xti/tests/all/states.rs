//! The table of states against its printed form: for each event, the states in which it is allowed
//! and what follows. Whatever is not printed is not allowed.

use xti::tpi::{Event, State};

/// Event, and pairs of a state and the next one, by their numbers.
#[rustfmt::skip]
const PRINTED: [(Event, &[(u32, u32)]); 30] = [
    (Event::BindRequest, &[(0, 1)]),
    (Event::BindAck, &[(1, 3)]),
    (Event::UnbindRequest, &[(3, 2)]),
    (Event::OptionsRequest, &[(3, 4)]),
    (Event::OptionsAck, &[(4, 3)]),
    (Event::ConnectRequest, &[(3, 5)]),
    (Event::ConnectConfirm, &[(6, 9)]),
    (Event::ConnectIndication, &[(3, 7), (7, 7)]),
    (Event::ConnectResponse, &[(7, 8)]),
    (Event::DisconnectRequest, &[(6, 12), (7, 13), (9, 14), (10, 15), (11, 16)]),
    (Event::DisconnectIndication, &[(6, 3), (9, 3), (10, 3), (11, 3)]),
    (Event::DisconnectLastIndication, &[(7, 3)]),
    (Event::DisconnectOneIndication, &[(7, 7)]),
    (Event::DataRequest, &[(9, 9), (11, 11)]),
    (Event::DataIndication, &[(9, 9), (10, 10)]),
    (Event::ExpeditedRequest, &[(9, 9), (11, 11)]),
    (Event::ExpeditedIndication, &[(9, 9), (10, 10)]),
    (Event::OptionDataRequest, &[(9, 9), (11, 11)]),
    (Event::OptionDataIndication, &[(9, 9), (10, 10)]),
    (Event::ReleaseRequest, &[(9, 10), (11, 3)]),
    (Event::ReleaseIndication, &[(9, 11), (10, 3)]),
    (Event::UnitdataRequest, &[(3, 3)]),
    (Event::UnitdataIndication, &[(3, 3)]),
    (Event::UnitdataError, &[(3, 3)]),
    (Event::OkAck, &[(2, 0), (5, 6), (12, 3), (14, 3), (15, 3), (16, 3)]),
    (Event::OkAckAcceptedHere, &[(8, 9)]),
    (Event::OkAckLast, &[(8, 3), (13, 3)]),
    (Event::OkAckOne, &[(8, 7), (13, 7)]),
    (Event::ErrorAck, &[(1, 0), (2, 3), (4, 3), (5, 3), (8, 7), (12, 6), (13, 7), (14, 9), (15, 10), (16, 11)]),
    (Event::PassConnection, &[(0, 9), (3, 9)]),
];

#[test]
fn each_state_and_event_lead_where_the_printed_table_says() {
    for (event, pairs) in PRINTED {
        for state in State::ALL {
            let next = pairs.iter().find(|(from, _)| *from == state as u32);
            let found = state.after(event).map(|state| state as u32);
            assert_eq!(found, next.map(|(_, to)| *to), "{event:?} in {state:?}");
        }
    }
}
