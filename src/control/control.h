/* control.h: the daemon's Unix socket for operators: who may speak, JSON lines in and out (hcp-control(7)).
 *
 * One thread of its own, with a read-only connection to the store, answers what the store knows (query.h).
 * What only the core knows or may do goes there as an ask (operate.h), and comes back answered. Nothing here
 * waits for the core, and the core never waits for anything here. */
#ifndef HCPD_CONTROL_H
#define HCPD_CONTROL_H

#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"
#include "core/operator/operator.h"

struct control;

/* Where the socket of this configuration is: [control] socket, else RUNTIME_DIRECTORY/control.sock, else
 * STATE_DIR/control.sock. False where it is switched off, or the default is too long for a socket. */
bool control_path(const struct config *config, char *path, size_t size);

/* Makes the socket, replacing what an earlier life left, and starts the thread. wake() is called from it,
 * whenever control_take has something new. The store must be there. *out is NULL where it is switched off. 0,
 * or a sysexits code with what is wrong logged. */
int control_start(const struct config *config, void (*wake)(void *ctx), void *ctx, struct control **out)
	__attribute__((warn_unused_result));
/* Tells whoever still waits for an answer, removes the socket, ends the thread: within about a second. */
void control_stop(struct control *ctl);

/* ---- for the core's thread ---- */

/* Everything that was asked, oldest first; the caller owns the list. */
struct ask *control_take(struct control *ctl);
/* Gives an answered one back. */
void control_answer(struct control *ctl, struct ask *a);
/* Who was turned away from the socket since the last call, and how often; at most CONTROL_STRANGERS users are
 * told apart, the rest is counted with the last. How many there are in out. */
enum { CONTROL_STRANGERS = 8 };
struct control_stranger {
	int64_t uid;
	char user[33];
	int pid; /* of the first */
	uint64_t count;
};
int control_take_strangers(struct control *ctl, struct control_stranger out[CONTROL_STRANGERS]);
/* Something was committed: whoever follows is told. Costs next to nothing where nobody does. */
void control_on_commit(struct control *ctl);

#endif
