//! A wire of a kind that is known only at run time.

use crate::Wire;

impl Wire for Box<dyn Wire + Send> {
    crate::forward! { self => (**self);
        capabilities send send_by_reference receive poll_path_error set_fragmentation
        path_mtu unanswerable receive_drops set_packet_len descriptor has_buffered may_wait join leave
        receiver
    }
}
