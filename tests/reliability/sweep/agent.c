/* SPDX-License-Identifier: MIT */
/* agent.c: the worker of the sweeps: a small program that starts in a millisecond and does what its
 * inputs say.
 *	count, every     counts up, from its checkpoint on; a checkpoint at every `every`-th number
 *	hold             then says "holding" and waits until this file is there
 *	big              one event of so many bytes
 *	keep             an artifact of so many MiB, and one that is none
 *	begun            goes on only when the daemon is at the copy
 *	acts             announces to heat to each of these, and waits for the verdict
 *	litter           files left in its directory, in a directory of their own
 *	child            a deaf grandchild in a session of its own, its pid in this file
 *	deaf             ignores SIGTERM, aborts and the end of its stdin
 *	snapshots        so many HARP-SESSION snapshots, the same in every attempt, and one that is none
 *	fill             its checkpoints' states have so many bytes more
 *	version          its checkpoints' states are of this version
 *	record           leaves this to whoever continues its session
 *	rest             pauses by itself, for ever
 *	die              dies by SIGKILL, once: where this file is not there yet
 *	vanish           unlinks this, its own program, before it dies with `exit`
 *	linger           completes, says so, and does not go
 *	fail, exit       says that it failed; ends with this status without a word
 *	notes            every line that it hears goes to this file
 * Serves one start line after another until its stdin ends, so it also fits `reuse`.
 * As `agent migrate` it is the program that migrates states: of 1.x at once, of 2.x when the mark `go` is
 * there, of others not at all. */
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOOK_MS 5
#define CHILD_S 90

static char heard[1 << 20]; /* not yet taken apart */
static size_t heard_size;
static bool deaf, at_end;
static long long at; /* how far it has counted */
static const char *notes, *version;
static int fill;
static unsigned verdicts; /* that it heard */

static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* One write a line, with ' for ": half a line is the daemon's affair only if we are killed in the middle. */
static void say(const char *fmt, ...)
{
	char *text;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0)
		abort();
	for (char *c = text; *c; c++)
		*c = *c == '\'' ? '"' : *c;
	for (int done = 0, got; done < n; done += got)
		if ((got = (int)write(1, text + done, (size_t)(n - done))) <= 0)
			_exit(1); /* nobody reads us any more */
	free(text);
}

static void say_checkpoint(void)
{
	if (fill)
		say("{'type':'checkpoint','description':'at "
		    "%lld','state':{'fill':'%0*d','n':%lld},'step':'s'}\n",
			at, fill, 0, at);
	else if (version)
		say("{'type':'checkpoint','description':'at "
		    "%lld','state':{'n':%lld},'step':'s','state_version':'%s'}\n",
			at, at, version);
	else
		say("{'type':'checkpoint','description':'at "
		    "%lld','state':{'n':%lld},'step':'s','resumable':true}\n",
			at, at);
}

static void note(const char *line)
{
	int fd = notes ? open(notes, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;

	if (fd < 0)
		return;
	dprintf(fd, "%s\n", line);
	close(fd);
}

/* The next line of stdin within ms, NULL where none came. */
static char *hear(int ms)
{
	static char line[sizeof heard];
	struct pollfd p = {.fd = 0, .events = POLLIN};
	char *end;
	ssize_t n;

	for (;;) {
		if ((end = memchr(heard, '\n', heard_size))) {
			size_t size = (size_t)(end - heard) + 1;

			memcpy(line, heard, size - 1);
			line[size - 1] = 0;
			memmove(heard, end + 1, heard_size -= size);
			return line;
		}
		if (at_end) {
			if (ms > 0)
				poll(NULL, 0, ms);
			return NULL;
		}
		if (poll(&p, 1, ms) <= 0)
			return NULL;
		if ((n = read(0, heard + heard_size, sizeof heard - heard_size)) <= 0)
			at_end = true;
		else
			heard_size += (size_t)n;
	}
}

/* Control lines, for ms at most. */
static void attend(int ms)
{
	char *line = hear(ms);

	if (at_end && !line && !deaf)
		exit(0);
	if (!line)
		return;
	note(line);
	if (strstr(line, "\"type\":\"abort\"") && !deaf)
		exit(0);
	if (strstr(line, "\"type\":\"pause\""))
		say("{'type':'paused','reason':'as told'}\n");
	if (strstr(line, "\"type\":\"resume\""))
		say("{'type':'resumed'}\n");
	if (strstr(line, "\"type\":\"checkpoint_request\""))
		say_checkpoint();
	verdicts += strstr(line, "\"type\":\"action_verdict\"") != NULL;
}

static void act(json_t *acts)
{
	for (size_t i = 0; i < json_array_size(acts); i++) {
		unsigned before = verdicts;

		say("{'type':'action','name':'heat','parameters':{'t':%lld},'ref':%zu}\n",
			(long long)json_integer_value(json_array_get(acts, i)), i);
		while (verdicts == before)
			attend(LOOK_MS);
	}
}

static void show(long long count)
{
	for (long long i = 0; i < count; i++)
		say("{'type':'snapshot','snapshotId':'s%lld','snapshotType':'plan','payload':{'n':%lld}}\n",
			i, i);
	if (count > 0)
		say("{'type':'snapshot','snapshotId':'none','snapshotType':'poem','payload':{}}\n");
}

static void make_child(const char *path)
{
	char part[600];

	snprintf(part, sizeof part, "%s.part", path);
	if (fork() == 0) {
		FILE *f = fopen(part, "w");

		setsid();
		for (int sig = 1; sig < 32; sig++)
			signal(sig, SIG_IGN);
		for (int fd = 0; fd < 3; fd++)
			close(fd);
		fprintf(f, "%d\n", getpid());
		fclose(f);
		rename(part, path);
		/* deaf, but not for ever: a sweep may be interrupted */
		for (int i = 0; i < CHILD_S; i++)
			sleep(1);
		_exit(0);
	}
	while (access(path, F_OK) != 0)
		attend(LOOK_MS);
}

static void litter(const char *dir, long long count)
{
	char path[600];

	snprintf(path, sizeof path, "%s/d", dir);
	mkdir(path, 0700);
	for (long long i = 0; i < count; i++) {
		snprintf(path, sizeof path, "%s/d/f%lld", dir, i);
		close(open(path, O_WRONLY | O_CREAT, 0600));
	}
}

/* Written in full at once: what is announced stays as it is. */
static void keep(const char *dir, long long mib)
{
	char path[600];
	int fd;

	snprintf(path, sizeof path, "%s/kept", dir);
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	if (fd < 0 || ftruncate(fd, mib << 20) < 0)
		abort();
	close(fd);
	say("{'type':'artifact','name':'none','path':'../none'}\n");
	say("{'type':'artifact','name':'kept','path':'kept','mime':'application/zero'}\n");
}

/* Or was. */
static void wait_for_copy(void)
{
	const char *id = getenv("HCP_SESSION_ID");
	char half[300], whole[300];

	snprintf(half, sizeof half, "../../artifacts/%s/.new", id ? id : "");
	snprintf(whole, sizeof whole, "../../artifacts/%s/kept", id ? id : "");
	while (access(half, F_OK) != 0 && access(whole, F_OK) != 0)
		attend(LOOK_MS);
}

static void count_up(json_t *start, json_t *in)
{
	json_t *saved = json_object_get(json_object_get(start, "checkpoint"), "state");
	long long goal = json_integer_value(json_object_get(in, "count"));
	long long every = json_integer_value(json_object_get(in, "every"));

	for (at = json_integer_value(json_object_get(saved, "n")); at < goal;) {
		at++;
		say("{'type':'progress','stage':'work','percent':%lld,'message':'n=%lld'}\n", 100 * at / goal,
			at);
		if (every && at % every == 0)
			say_checkpoint();
		attend(0);
	}
}

static void say_big(int size)
{
	char *x = malloc((size_t)size + 1);

	memset(x, 'x', (size_t)size);
	x[size] = 0;
	say("{'type':'log','level':'info','message':'%s'}\n", x);
	free(x);
}

static bool has(json_t *in, const char *name)
{
	return json_is_true(json_object_get(in, name));
}

static void perish(json_t *in)
{
	const char *mark = json_string_value(json_object_get(in, "die")),
		   *own = json_string_value(json_object_get(in, "vanish"));

	if (own)
		unlink(own);
	if (!mark || access(mark, F_OK) == 0)
		return;
	close(open(mark, O_WRONLY | O_CREAT, 0600));
	kill(getpid(), SIGKILL);
}

static void end(json_t *in)
{
	perish(in);
	if (json_object_get(in, "exit"))
		exit((int)json_integer_value(json_object_get(in, "exit")));
	if (has(in, "fail")) {
		say("{'type':'failed','error_code':'execution_error','error_message':'as told'}\n");
		return;
	}
	say("{'type':'completed','outputs':{'n':%lld}}\n", at);
	if (!has(in, "linger"))
		return;
	say("{'type':'progress','stage':'work','message':'lingering'}\n");
	for (;;)
		attend(1000);
}

static void serve(json_t *start)
{
	json_t *in = json_object_get(json_object_get(start, "task"), "inputs"), *path;
	const char *dir = json_string_value(json_object_get(start, "workdir"));

	notes = json_string_value(json_object_get(in, "notes"));
	fill = (int)json_integer_value(json_object_get(in, "fill"));
	version = json_string_value(json_object_get(in, "version"));
	deaf = has(in, "deaf");
	if (deaf)
		signal(SIGTERM, SIG_IGN);
	if ((path = json_object_get(in, "child")))
		make_child(json_string_value(path));
	if (json_object_get(in, "litter"))
		litter(dir ? dir : ".", json_integer_value(json_object_get(in, "litter")));
	if (json_object_get(in, "keep"))
		keep(dir ? dir : ".", json_integer_value(json_object_get(in, "keep")));
	if (has(in, "begun"))
		wait_for_copy();
	act(json_object_get(in, "acts"));
	show(json_integer_value(json_object_get(in, "snapshots")));
	count_up(start, in);
	if (json_object_get(in, "record"))
		say("{'type':'continuity','summary':'%s','next_steps':['go on']}\n",
			json_string_value(json_object_get(in, "record")));
	if (has(in, "rest"))
		say("{'type':'paused','reason':'rest'}\n");
	while (has(in, "rest"))
		attend(LOOK_MS);
	if (json_object_get(in, "big"))
		say_big((int)json_integer_value(json_object_get(in, "big")));
	if ((path = json_object_get(in, "hold"))) {
		say("{'type':'progress','stage':'work','message':'holding'}\n");
		while (access(json_string_value(path), F_OK) != 0)
			attend(LOOK_MS);
	}
	end(in);
	notes = NULL;
}

static int migrate(void)
{
	char *line = hear(-1), *text, go[600];
	json_t *asked = line ? json_loads(line, 0, NULL) : NULL;
	const char *from = json_string_value(json_object_get(asked, "from"));

	snprintf(go, sizeof go, "%s/go", getenv("RIG_MARK") ? getenv("RIG_MARK") : ".");
	while (from && *from == '2' && access(go, F_OK) != 0)
		poll(NULL, 0, LOOK_MS);
	if (!from || (*from != '1' && *from != '2'))
		return 1;
	text = json_dumps(json_object_get(asked, "state"), JSON_COMPACT);
	printf("%s\n", text);
	free(text);
	json_decref(asked);
	return 0;
}

int main(int argc, char **argv)
{
	char *line;

	if (argc > 1 && strcmp(argv[1], "migrate") == 0)
		return migrate();
	while ((line = hear(-1))) {
		json_t *start = json_loads(line, 0, NULL);

		if (start && json_object_get(start, "task"))
			serve(start);
		json_decref(start);
	}
	return 0;
}
