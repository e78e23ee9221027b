/* SPDX-License-Identifier: MIT */
/* fake_workers.c: what fake_workers.h declares. */
#include "support/fakes/fake_workers.h"

/* ---- the test's side ---- */

void fake_workers_init(struct workers *ws, const struct worker_ops *ops)
{
	memset(ws, 0, sizeof *ws);
	ws->ops = ops;
}

void fake_worker_put(struct worker *w, enum fake_word_kind kind, const char *text, size_t size, int status)
{
	struct fake_word *f = xcalloc(1, sizeof *f + size + 1);

	f->kind = kind;
	f->status = status;
	f->size = size;
	memcpy(f->text, text, size);
	*w->said_end = f;
	w->said_end = &f->next;
}

void fake_worker_say(struct worker *w, const char *line)
{
	fake_worker_put(w, FAKE_OUT, line, strlen(line), 0);
}

static void fake_worker_end_pipes(struct worker *w)
{
	if (!w->closed_out)
		fake_worker_put(w, FAKE_OUT_EOF, "", 0, 0);
	fake_worker_put(w, FAKE_ERR_EOF, "", 0, 0);
}

void fake_worker_close_out(struct worker *w)
{
	if (w->closed_out || w->is_dying)
		return;
	w->closed_out = true;
	fake_worker_put(w, FAKE_OUT_EOF, "", 0, 0);
}

void fake_worker_exit(struct worker *w, int status)
{
	if (w->is_dying)
		return;
	w->is_dying = true;
	fake_worker_put(w, FAKE_EXIT, "", 0, status);
	if (w->children == 0)
		fake_worker_end_pipes(w);
}

bool fake_worker_has_line(struct worker *w, const char *needle)
{
	return strstr(buf_text(&w->in), needle) != NULL;
}

void fake_worker_die(struct worker *w, int signal_number)
{
	bool orphaned = w->is_dying && w->children > 0;

	w->children = 0;
	if (orphaned)
		fake_worker_end_pipes(w); /* whoever held the pipes is gone now */
	else
		fake_worker_exit(w, signal_number);
}

static void fake_worker_climb(struct worker *w)
{
	if (w->kill_at_us <= fake_boot_us) { /* again and again, as the real ones */
		w->was_killed = w->was_termed = true;
		if (!w->is_immortal)
			fake_worker_die(w, SIGKILL);
	} else if (!w->was_termed && w->term_at_us <= fake_boot_us) {
		w->was_termed = true;
		if (!w->ignores_term && !w->is_immortal)
			fake_worker_die(w, SIGTERM);
	}
}

static void fake_worker_hand_over(struct worker *w, const struct fake_word *f)
{
	const struct worker_ops *ops = w->ops;

	switch (f->kind) {
	case FAKE_OUT: ops->on_line(w, WORKER_STDOUT, f->text, f->size, LINE_WHOLE); break;
	case FAKE_ERR: ops->on_line(w, WORKER_STDERR, f->text, f->size, LINE_WHOLE); break;
	case FAKE_TOO_LONG: ops->on_line(w, WORKER_STDOUT, f->text, f->size, LINE_TOO_LONG); break;
	case FAKE_UNENDED: ops->on_line(w, WORKER_STDOUT, f->text, f->size, LINE_UNENDED); break;
	case FAKE_OUT_EOF:
		w->out_eof = true;
		ops->on_eof(w, WORKER_STDOUT);
		break;
	case FAKE_ERR_EOF:
		w->err_eof = true;
		ops->on_eof(w, WORKER_STDERR);
		break;
	case FAKE_EXIT:
		w->has_exited = true;
		ops->on_exit(w, f->status);
		break;
	}
}

/* The next word that the loop would see, NULL: none. A worker's pipes may be left unread, but its exit is
 * seen, and once no process of it is left so is what the pipes hold. */
static struct fake_word **fake_worker_next(struct worker *w)
{
	struct fake_word **at = &w->said;

	if (w->is_keeping || (w->is_paused && (!w->has_exited || w->children > 0)))
		while (*at != NULL && (*at)->kind != FAKE_EXIT)
			at = &(*at)->next;
	return *at != NULL ? at : NULL;
}

bool fake_workers_run(struct workers *ws)
{
	bool did = false;

	for (size_t i = 0; i < ws->count && !ws->is_held; i++) {
		struct worker *w = ws->list[i];
		struct fake_word **at;

		if (w->is_gone)
			continue;
		fake_worker_climb(w);
		if ((at = fake_worker_next(w)) != NULL) {
			struct fake_word *f = *at;

			if ((*at = f->next) == NULL)
				w->said_end = at;
			fake_worker_hand_over(w, f);
			if (w->is_keeping && w->kept == NULL)
				w->kept = f;
			else
				free(f);
			did = true;
		}
		if (w->has_exited && w->out_eof && w->err_eof && w->children == 0 && !w->is_gone) {
			w->is_gone = true;
			w->ops->on_gone(w);
			did = true;
		}
	}
	return did;
}

int64_t fake_workers_next_us(const struct workers *ws)
{
	int64_t next = FAKE_NEVER;

	for (size_t i = 0; i < ws->count; i++) {
		const struct worker *w = ws->list[i];

		if (w->is_gone)
			continue;
		if (!w->was_termed && w->term_at_us < next)
			next = w->term_at_us;
		if (!w->was_killed && w->kill_at_us < next)
			next = w->kill_at_us;
	}
	return next;
}

size_t fake_workers_alive(const struct workers *ws)
{
	size_t alive = 0;

	for (size_t i = 0; i < ws->count; i++)
		alive += !ws->list[i]->is_gone;
	return alive;
}

void fake_workers_fini(struct workers *ws)
{
	for (size_t i = 0; i < ws->count; i++) {
		struct worker *w = ws->list[i];

		for (struct fake_word *f = w->said, *next; f != NULL; f = next) {
			next = f->next;
			free(f);
		}
		for (char **v = w->argv; *v != NULL; v++)
			free(*v);
		for (char **v = w->env; *v != NULL; v++)
			free(*v);
		free(w->kept);
		free(w->argv);
		free(w->env);
		free(w->workdir);
		buf_fini(&w->in);
		free(w);
	}
	free(ws->list);
}

const char *fake_worker_env(const struct worker *w, const char *name)
{
	for (char **v = w->env; *v != NULL; v++)
		if (strncmp(*v, name, strlen(name)) == 0 && (*v)[strlen(name)] == '=')
			return *v + strlen(name) + 1;
	return NULL;
}

static char **fake_copy_words(char *const *words)
{
	size_t n = 0;
	char **copy;

	while (words[n] != NULL)
		n++;
	copy = xcalloc(n + 1, sizeof *copy);
	for (size_t i = 0; i < n; i++)
		copy[i] = xstrdup(words[i]);
	return copy;
}

/* ---- worker.h ---- */

struct workers *workers_new(struct ev_loop *loop, struct timers *timers, const struct config *config,
	const char *instance, const struct worker_ops *ops)
{
	struct workers *ws = xcalloc(1, sizeof *ws);

	(void)loop, (void)timers, (void)config, (void)instance;
	fake_workers_init(ws, ops);
	return ws;
}

void workers_free(struct workers *ws)
{
	fake_workers_fini(ws);
	free(ws);
}

int workers_kill_stale(struct workers *ws)
{
	int n = ws->leftovers;

	ws->leftovers = 0;
	return n;
}

void workers_hold(struct workers *ws, bool hold)
{
	ws->is_held = hold;
	ws->holds += hold;
	if (ws->on_hold != NULL)
		ws->on_hold(ws->ctx, hold);
}

void workers_new_turn(struct workers *ws)
{
	ws->new_turns++;
}

void workers_reap(struct workers *ws)
{
	(void)ws;
}

int worker_start(
	struct workers *ws, const struct worker_spec *spec, struct worker **out, char *why, size_t why_size)
{
	struct worker *w;
	const char *id;

	if (ws->fail_errno != 0) {
		errno = ws->fail_errno;
		ws->fail_errno = 0;
		snprintf(why, why_size, "%s cannot be started: %s", spec->argv[0], strerror(errno));
		return -1;
	}
	w = xcalloc(1, sizeof *w);
	w->ws = ws;
	w->owner = spec->owner;
	w->ops = spec->ops != NULL ? spec->ops : ws->ops;
	w->number = (int)ws->count;
	w->pid = 100000 + w->number;
	w->argv = fake_copy_words(spec->argv);
	w->env = fake_copy_words(spec->env);
	w->workdir = xstrdup(spec->workdir);
	w->has_stdin = spec->has_stdin;
	w->said_end = &w->said;
	w->term_at_us = w->kill_at_us = FAKE_NEVER;
	if ((id = fake_worker_env(w, "HCP_SESSION_ID")) != NULL)
		snprintf(w->session_id, sizeof w->session_id, "%s", id);
	ws->list = xrealloc(ws->list, (ws->count + 1) * sizeof *ws->list);
	ws->list[ws->count++] = w;
	if (ws->on_start != NULL)
		ws->on_start(ws->ctx, w);
	*out = w;
	return 0;
}

void *worker_owner(const struct worker *w)
{
	return w->owner;
}

void worker_set_owner(struct worker *w, void *owner)
{
	w->owner = owner;
}

int worker_pid(const struct worker *w)
{
	return w->pid;
}

void worker_write(struct worker *w, const void *data, size_t size)
{
	static const char head[] = "\"session_id\":\"";
	const char *id;
	size_t at = w->in.size;

	if (!w->has_stdin || w->stdin_closed)
		return;
	buf_add(&w->in, data, size);
	if (strncmp(buf_text(&w->in) + at, "{\"type\":\"start\"", 15) == 0 &&
		(id = strstr(w->in.data + at, head)) != NULL)
		snprintf(w->session_id, sizeof w->session_id, "%.36s", id + sizeof head - 1);
	if (w->ws->on_write != NULL)
		w->ws->on_write(w->ws->ctx, w, w->in.data + at, size);
}

size_t worker_unwritten(const struct worker *w)
{
	return w->is_deaf ? w->in.size : 0;
}

void worker_close_stdin(struct worker *w)
{
	w->stdin_closed = true;
	if (w->ws->on_end != NULL)
		w->ws->on_end(w->ws->ctx, w);
}

bool worker_has_stdin(const struct worker *w)
{
	return w->has_stdin && !w->stdin_closed;
}

void worker_pause_reading(struct worker *w, bool pause)
{
	w->is_paused = pause;
}

void worker_keep_line(struct worker *w, enum worker_stream s, const char *line)
{
	(void)s, (void)line;
	w->is_keeping = true;
}

void worker_let_line_go(struct worker *w, enum worker_stream s)
{
	(void)s;
	w->is_keeping = false;
	free(w->kept);
	w->kept = NULL;
}

bool worker_is_mid_line(const struct worker *w)
{
	return w->is_mid_line;
}

void worker_end(struct worker *w, int64_t term_at_us, int64_t kill_at_us)
{
	if (term_at_us < w->term_at_us)
		w->term_at_us = term_at_us;
	if (kill_at_us < w->kill_at_us)
		w->kill_at_us = kill_at_us;
	if (w->ws->on_end != NULL)
		w->ws->on_end(w->ws->ctx, w);
}

bool worker_is_ending(const struct worker *w)
{
	return w->term_at_us != FAKE_NEVER;
}

bool worker_has_exited(const struct worker *w)
{
	return w->has_exited;
}

bool worker_lives(const struct worker *w)
{
	return !w->has_exited && !w->is_dying;
}

bool worker_is_alone(struct worker *w)
{
	return !w->has_exited && w->children == 0;
}

void worker_free(struct worker *w)
{
	w->is_freed = true;
}
