/* Channels: messages between processes of one host through memory that both map.
 *
 * A channel has a sender and a receiver, made over a connected Unix socket by the two processes. The sender writes
 * a message where it will be read; the receiver reads it there. An arena is memory that up to 32 processes share: a
 * message is written into one of its slots once, and forwarded to one member or to many without a copy.
 * Link with -ltowpath.
 *
 * Each call that gets a socket takes it over, also when it fails: the program uses and closes it no more. An end
 * of a channel is used by one thread at a time; an arena, its ends and its slots belong to the thread that made the
 * arena or joined it. A process that forks uses them in one of the two processes.
 *
 * Calls that fail return -1 or NULL and set errno; towpath_channel_error() has a sentence with the remedy.
 *   ETIMEDOUT  nothing came, or nothing became free, in time
 *   EPIPE      the other end is gone
 *   EMSGSIZE   the message is longer than the ring, the slot, or what was lent
 *   EINVAL     a slot length or number that no ring has, nothing lent or received, an unknown signal
 *   EPROTO     the other end says what no correct peer says, or its memory is not sealed
 *   EPERM      the other end is of another user
 *   ENOSPC     an arena has 32 members, or no free slot is left in time
 *   EXDEV      the other end, or the slot, is of another arena
 *   EBUSY      the message is held by others, who read it, or by this receiver already
 * A time-out is in milliseconds; a negative one has no end.
 */
#ifndef TOWPATH_CHANNEL_H
#define TOWPATH_CHANNEL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How an end waits. */
#define TOWPATH_CHANNEL_FUTEX 0 /* it sleeps, and its peer wakes it */
#define TOWPATH_CHANNEL_SPIN 1  /* it looks until something changes, and needs a processor */

/* Why the last call of this thread failed, with the remedy; "" before the first failure. */
const char *towpath_channel_error(void);

/* The end that writes. */
typedef struct towpath_sender towpath_sender;

/* Makes a channel of `slots` slots, a power of two, of `slot_len` octets, a power of two from 64 to 2^20; all slots
 * have 256 MiB at most. The other process calls towpath_channel_accept. */
towpath_sender *towpath_channel_open(int socket, uint32_t slot_len, uint32_t slots, int signal);

/* Lends free slots for a message of `len` octets; waits until there are as many. What was lent before is given
 * back unsent. */
int towpath_channel_lend(towpath_sender *sender, size_t len, int timeout_ms);

/* Writes octets at `offset` of the lent message. */
int towpath_channel_write(towpath_sender *sender, size_t offset, const void *octets, size_t len);

/* Sends the first `len` octets of what was lent. */
int towpath_channel_commit(towpath_sender *sender, size_t len);

/* Lends, writes and commits a message. */
int towpath_channel_send(towpath_sender *sender, const void *octets, size_t len, int timeout_ms);

/* Closes the channel after what was committed. */
void towpath_channel_close(towpath_sender *sender);

/* The end that reads. */
typedef struct towpath_receiver towpath_receiver;

/* Takes the channel that the other process makes. */
towpath_receiver *towpath_channel_accept(int socket, int signal);

/* Waits for the next message, and releases the one before: 1 and its length, or 0 when the sender has closed the
 * channel and all was received. */
int towpath_channel_receive(towpath_receiver *receiver, size_t *len, int timeout_ms);

/* Copies octets of the received message from `offset` on, as many as both have: how many. */
ssize_t towpath_channel_read(towpath_receiver *receiver, size_t offset, void *octets, size_t size);

/* Gives the slots of the received message back to the sender. */
int towpath_channel_release(towpath_receiver *receiver);

/* Ends the receiver; its sender notices. */
void towpath_channel_end(towpath_receiver *receiver);

/* A member of an arena, the ends of channels between two members, and a slot that a member holds. */
typedef struct towpath_arena towpath_arena;
typedef struct towpath_arena_sender towpath_arena_sender;
typedef struct towpath_arena_receiver towpath_arena_receiver;
typedef struct towpath_slot towpath_slot;

/* Makes an arena of `slots` slots of `slot_len` octets, as of towpath_channel_open, and its owner. */
towpath_arena *towpath_arena_create(uint32_t slot_len, uint32_t slots);

/* The owner lets the process at the other end in, which calls towpath_arena_join. */
int towpath_arena_admit(towpath_arena *owner, int socket);
towpath_arena *towpath_arena_join(int socket);

/* The owner takes back the slots of members that are gone: how many. */
int towpath_arena_sweep(towpath_arena *owner);

/* Ends the handle; what this member holds otherwise stays. */
void towpath_arena_close(towpath_arena *arena);

/* A channel between two members: one opens, the other accepts. */
towpath_arena_sender *towpath_arena_open(towpath_arena *arena, int socket, int signal);
towpath_arena_receiver *towpath_arena_accept(towpath_arena *arena, int socket, int signal);
void towpath_arena_sender_close(towpath_arena_sender *sender);
void towpath_arena_receiver_close(towpath_arena_receiver *receiver);

/* A free slot; waits while members hold all. ENOSPC when none became free in time. */
towpath_slot *towpath_arena_take(towpath_arena *arena, int timeout_ms);

/* Writes octets at `offset`; the message becomes as long as what was written needs. */
int towpath_slot_write(towpath_slot *slot, size_t offset, const void *octets, size_t len);

/* Copies octets of the message from `offset` on, as many as both have: how many. */
ssize_t towpath_slot_read(const towpath_slot *slot, size_t offset, void *octets, size_t size);
size_t towpath_slot_len(const towpath_slot *slot);

/* Forwards a message to the member at the other end, without a copy. The caller still holds it, may forward it to
 * others, and lets it go by towpath_slot_free; the last member that does so frees the slot. */
int towpath_slot_forward(towpath_slot *slot, towpath_arena_sender *to);
void towpath_slot_free(towpath_slot *slot);

/* Waits for the next message: 1 and the slot, which the caller then holds, or 0 at the end. */
int towpath_arena_receive(towpath_arena_receiver *receiver, towpath_slot **slot, int timeout_ms);

#ifdef __cplusplus
}
#endif

#endif
