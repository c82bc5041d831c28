//! The transports, one file each.

pub mod bare;
pub mod mptcp;
pub mod null;
pub mod over_cells;
pub mod pipe;
pub mod quic;
pub mod raw_ether;
pub mod sctp;
pub mod shm;
pub mod shm_remote;
pub mod tcp;
pub mod tcp_batched;
pub mod udp;
pub mod udp_batched;
pub mod udp_connected;
pub mod udp_lite;
pub mod udp_nochecksum;
pub mod udp_segmented;
pub mod unix_dgram;
pub mod unix_seqpacket;
pub mod unix_stream;
pub mod vmtp;
pub mod xti_tcp;
pub mod xtp;
pub mod xtp_multicast;
mod xtp_multicast_receiver;
pub mod xtp_raw;
