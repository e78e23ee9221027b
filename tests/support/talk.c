/* SPDX-License-Identifier: MIT */
/* talk.c: see talk.h. Waits with everything else served, as all tests do. */
#include "talk.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

const char *talk_path(struct rig *r)
{
	static char path[320];

	snprintf(path, sizeof path, "%s/ctl", r->dir);
	rig_set(r, "control", "socket", "%s", path);
	return path;
}

int talk_dial(const char *path)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), error;

	snprintf(to.sun_path, sizeof to.sun_path, "%s", path);
	if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
		return fd;
	error = errno;
	close(fd);
	errno = error;
	return -1;
}

void talk_open(struct talk *t, const char *path)
{
	memset(t, 0, sizeof *t);
	t->fd = talk_dial(path);
	must(t->fd >= 0, "%s: %s", path, strerror(errno));
}

void talk_close(struct talk *t)
{
	close(t->fd);
	free(t->in);
	json_decref(t->items);
}

void talk_send(struct talk *t, const void *data, size_t size)
{
	const char *at = data;

	while (size > 0) {
		ssize_t n = send(t->fd, at, size, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EAGAIN) {
			harness_tick();
			continue;
		}
		if (n < 0)
			return; /* closed meanwhile: whoever reads sees it */
		at += n;
		size -= (size_t)n;
	}
}

static char *format(const char *fmt, va_list ap) __attribute__((format(printf, 1, 0)));

static char *format(const char *fmt, va_list ap)
{
	char *text;

	must(vasprintf(&text, fmt, ap) >= 0, "memory");
	for (char *c = text; *c; c++)
		*c = *c == '\'' ? '"' : *c;
	return text;
}

void talk_say(struct talk *t, const char *fmt, ...)
{
	va_list ap;
	char *text;

	va_start(ap, fmt);
	text = format(fmt, ap);
	va_end(ap);
	talk_send(t, text, strlen(text));
	talk_send(t, "\n", 1);
	free(text);
}

static void hear(struct talk *t)
{
	ssize_t n;

	if (t->room - t->size < 65536)
		t->in = realloc(t->in, t->room = t->size * 2 + 131072);
	n = recv(t->fd, t->in + t->size, 65536, MSG_DONTWAIT);
	if (n > 0)
		t->size += (size_t)n;
	else if (n == 0 || errno != EAGAIN)
		t->at_eof = true;
}

bool talk_has_line(struct talk *t)
{
	if (t->size == 0 || !memchr(t->in, '\n', t->size))
		hear(t);
	return t->size > 0 && memchr(t->in, '\n', t->size);
}

json_t *talk_line(struct talk *t)
{
	json_error_t error;
	json_t *line;
	size_t size;

	wait_until(talk_has_line(t) || t->at_eof, WAIT_S, "a line of the control socket");
	if (!talk_has_line(t))
		return NULL;
	size = (size_t)((char *)memchr(t->in, '\n', t->size) - t->in) + 1;
	line = json_loadb(t->in, size, JSON_REJECT_DUPLICATES, &error);
	must(line, "no JSON: %s: %.*s", error.text, (int)(size < 300 ? size : 300), t->in);
	memmove(t->in, t->in + size, t->size -= size);
	return line;
}

static json_t *call(struct talk *t, const char *text)
{
	json_t *line;

	json_decref(t->items);
	t->items = json_array();
	talk_say(t, "{'id':%lld,%s}", ++t->last_id, text);
	for (;;) {
		must((line = talk_line(t)), "closed instead of an answer to %s", text);
		must(json_integer_value(json_object_get(line, "id")) == t->last_id, "another's id: %s",
			json_dumps(line, 0));
		if (!json_object_get(line, "item"))
			break;
		json_array_append(t->items, json_object_get(line, "item"));
		json_decref(line);
	}
	must(json_is_true(json_object_get(line, "done")) != !!json_object_get(line, "error"), "%s",
		json_dumps(line, 0));
	json_object_set(line, "items", t->items);
	json_decref(t->items);
	t->items = line; /* so that it is freed with the next one */
	return line;
}

json_t *talk_call(struct talk *t, const char *fmt, ...)
{
	va_list ap;
	char *text;
	json_t *end;

	va_start(ap, fmt);
	text = format(fmt, ap);
	va_end(ap);
	end = call(t, text);
	free(text);
	return end;
}

json_t *talk_once(const char *path, const char *fmt, ...)
{
	static json_t *last[4];
	static int turn;
	struct talk t;
	va_list ap;
	char *text;
	json_t *end;

	va_start(ap, fmt);
	text = format(fmt, ap);
	va_end(ap);
	talk_open(&t, path);
	end = json_incref(call(&t, text));
	talk_close(&t);
	free(text);
	json_decref(last[turn % 4]);
	last[turn++ % 4] = end;
	return end;
}

const char *talk_code(json_t *end)
{
	const char *code = json_text_at(end, "error.code");

	if (code && *code) {
		must(*json_text_at(end, "error.message") && *json_text_at(end, "error.next"),
			"an error says what to do");
		/* proves HC-03: HARP's error object has it */
		must(strncmp(code, "HARP_", 5) != 0 || json_is_false(json_at(end, "error.retryable")),
			"%s: retryable is missing", code);
		return code;
	}
	return "";
}
