//! Address validation: which openings are remembered before their source is known not to be forged,
//! and how an opening is answered without remembering it (0007, Address validation; 0021).

use crate::context::Context;
use crate::context_table::Slot;
use crate::endpoint::Xtp;
use crate::endpoint_state::{EndpointState, plain_header};
use crate::numbers::{Key, SEQ_MAX, SyncNumber};
use crate::opening::LimitsReport;
use crate::pdu::{
    Body, CommonControl, Format, HEADER_LEN, Header, Options, Packet, RTN, Reject, Service,
    TrafficSpec,
};
use crate::procedure::association_accept::{self, Opening};
use crate::procedure::association_setup;
use engine::{Address, AssociationId, CloseReason, Instant};

/// What becomes of an opening.
pub(crate) enum Admission {
    /// There is room for a context.
    Remembered,
    /// It was answered with a cookie.
    Answered,
}

/// Finds room for an opening from `from`, or answers it with a cookie.
pub(crate) fn admit(
    xtp: &mut Xtp,
    now: Instant,
    from: Address,
    header: &Header,
    len: usize,
) -> Result<Admission, Reject> {
    let config = &xtp.state.config;
    let has_room = xtp.unvalidated.len() < config.unvalidated_max;
    let has_cookies = xtp.state.codec.has_long_keys();
    if header.options.has(Options::END) {
        // It is over as soon as it was processed, and takes no room.
        return match config.early_accept && config.unvalidated_max > 0 {
            true => Ok(Admission::Remembered),
            false => Err(Reject::NoRoom),
        };
    }
    if has_room && (config.early_accept || !has_cookies) {
        return Ok(Admission::Remembered);
    }
    if !has_cookies {
        give_way(xtp, now, from).ok_or(Reject::NoRoom)?;
        return Ok(Admission::Remembered);
    }
    // The answer is a TCNTL, which may not be longer than the FIRST; initiators see to that.
    if header.seq != 0 || len < xtp.state.key_packet_len() {
        return Err(Reject::NoRoom);
    }
    answer_with_cookie(&mut xtp.state, now, from, header);
    Ok(Admission::Answered)
}

/// Answers FIRST with a TCNTL whose key is a cookie. The unspecified service asks the initiator for
/// its traffic specifier, in a TCNTL that states its key as well; what FIRST carried is acknowledged
/// by the context that this makes, so here nothing is.
fn answer_with_cookie(ep: &mut EndpointState, now: Instant, from: Address, header: &Header) {
    let key = Key::in_field(header.key);
    let packet = Packet {
        header: Header {
            options: Options::SREQ,
            sync: ep.cookies.sync(from, key),
            ..plain_header(key.returned(), Format::Tcntl)
        },
        body: Body::Tcntl {
            common: CommonControl {
                rseq: 0,
                alloc: association_accept::stateless_alloc(ep),
                echo: header.sync,
            },
            reserved: 0,
            xkey: ep.cookies.make(now, from, key).field(),
            traffic: TrafficSpec::Plain(Service::Unspecified, [0; 4]),
        },
    };
    ep.queue_reply(from, &packet, &ep.reply_context());
    ep.count_packet_built(0);
}

/// Closes the unvalidated association that gives way to an opening from `from`.
fn give_way(xtp: &mut Xtp, now: Instant, from: Address) -> Option<()> {
    let room = xtp.state.config.unvalidated_max;
    let table = &xtp.table;
    let is_live = |slot: usize, id: AssociationId| table.is_unvalidated(slot, id);
    let slot = xtp.unvalidated.pop_for(from, room, is_live)?;
    let ctx = xtp.table.context(slot)?;
    ctx.terminate(&mut xtp.state, CloseReason::TimedOut, false);
    xtp.retire_slot_if_closed(now, slot);
    Some(())
}

/// A TCNTL with an unknown key: if that is a cookie, its sender opened an association that this side
/// does not remember and hears what is sent to it. Returns the slot of its context.
pub(crate) fn handle_returned_cookie(
    xtp: &mut Xtp,
    now: Instant,
    from: Address,
    header: &Header,
    packet: &[u8],
) -> Result<usize, Reject> {
    let Some(Body::Tcntl { xkey, traffic, .. }) = Body::parse(header, &packet[HEADER_LEN..]) else {
        return Err(Reject::UnknownKey);
    };
    let cookie = Key::in_field(header.key);
    let is_valid = |key: &Key| xtp.state.cookies.is_valid(now, from, *key, cookie);
    let key = Key::stated(xkey).filter(|_| header.seq <= SEQ_MAX);
    let key = key.filter(is_valid).ok_or(Reject::UnknownKey)?;
    if let Some(slot) = xtp.table.find_key(from, xkey, None) {
        return adopt_cookie(xtp, slot, from, key, cookie);
    }
    association_accept::check_admission(
        xtp,
        now,
        from,
        key,
        None,
        traffic.service(),
        packet.len(),
    )?;
    let added = xtp.table.add(from, now, &mut xtp.state);
    let slot = added.ok_or(Reject::NoRoom)?;
    xtp.table.set_cookie(slot, cookie);
    xtp.table.index_peer(from, key, slot);
    let ctx = xtp.table.context(slot).ok_or(Reject::NoRoom)?;
    let opening = Opening {
        // Cookies answer only those that begin at 0.
        header: &Header {
            key: xkey,
            seq: 0,
            ..*header
        },
        traffic: &traffic,
        route: None,
        is_validated: true,
    };
    association_accept::accept(ctx, &mut xtp.state, now, &opening);
    ctx.tx.sync = xtp.state.cookies.sync(from, key);
    (ctx.tx.first_sync, ctx.tx.saved_sync) = (ctx.tx.sync, Some(ctx.tx.sync));
    Ok(slot)
}

/// One copy of FIRST was answered with a cookie, another one made a context: it takes the cookie as
/// its key.
fn adopt_cookie(
    xtp: &mut Xtp,
    slot: usize,
    from: Address,
    key: Key,
    cookie: Key,
) -> Result<usize, Reject> {
    let sync = xtp.state.cookies.sync(from, key);
    match xtp.table.slot(slot) {
        Some(Slot::Active(ctx)) if !ctx.is_validated() => {
            if ctx.tx.sync.is_before(sync) {
                ctx.tx.sync = sync;
            }
            xtp.table.set_cookie(slot, cookie);
            Ok(slot)
        }
        Some(Slot::Inactive(_)) => Ok(slot),
        _ => Err(Reject::State),
    }
}

/// The initiator's part: the answer to FIRST asks for the traffic specifier again, so its sender
/// does not remember the opening. The TCNTL that answers it goes before all data.
pub(crate) fn return_cookie(ctx: &mut Context, ep: &mut EndpointState, traffic: &TrafficSpec) {
    let asks = ctx.initiator && traffic.service() == Service::Unspecified;
    let unknown = ctx.is_opening() || ctx.returns_cookie;
    ctx.returns_cookie = asks && unknown;
    if ctx.returns_cookie {
        // FIRST may have stated them, which the responder does not remember.
        association_setup::schedule_limits(ctx, ep);
        ctx.pending.status_request = true;
        ctx.pending.deferred = true;
        ctx.mark_ready(ep);
    }
}

/// Counts octets of an unvalidated address, and validates it when it returns this side's key
/// (0007, Keys; Address validation). Keys of 3.x are too short for that, see
/// [`validate_by_echo`].
pub(crate) fn on_packet_received(
    ctx: &mut Context,
    ep: &mut EndpointState,
    header: &Header,
    len: usize,
) {
    let Some(limit) = &mut ctx.amplification_limit else {
        return;
    };
    limit.received_octets += len as u64;
    let is_returned = header.key & RTN != 0;
    if is_returned && ep.codec.has_long_keys() {
        validate(ctx, ep);
    } else {
        limit.awaits_echo |= is_returned;
    }
}

/// 3.x: a control packet with this side's key echoes a sync of this side (0021). Ten bits of the key
/// are random, and all of the first sync.
pub(crate) fn validate_by_echo(
    ctx: &mut Context,
    ep: &mut EndpointState,
    header: &Header,
    echo: SyncNumber,
) {
    let sent = !echo.is_before(ctx.tx.first_sync) && !ctx.tx.sync.is_before(echo);
    if header.key & RTN != 0 && sent {
        validate(ctx, ep);
    }
}

fn validate(ctx: &mut Context, ep: &mut EndpointState) {
    if ctx.amplification_limit.take().is_none() {
        return;
    }
    // The limits did not fit into the amplification limit until now.
    ctx.pending.control |= ctx.limits_report == LimitsReport::Pending;
    if ctx.waits_for_validation() {
        association_accept::report_accepted(ctx, ep);
    }
}
