/* SPDX-License-Identifier: MIT */
/* live.c: counts of a session's processes: how many, their memory, their time.
 * Owns nothing: the control thread looks at /proc, and nothing depends on the result. Never signals a
 * process. Counts the descendants of the main process, and orphans with its tag. */
#include "control/control_private.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct figures {
	unsigned processes;
	long long rss_bytes;
	double cpu_s;
};

static void add_process(int pid, struct figures *f)
{
	unsigned long user = 0, system = 0;
	long long rss = 0;
	char path[64], text[1024], *at;
	FILE *file;
	size_t size;

	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	if ((file = fopen(path, "re")) == NULL)
		return;
	size = fread(text, 1, sizeof text - 1, file);
	fclose(file);
	text[size] = '\0';
	/* The process name may hold any character, so parse after the last parenthesis. */
	if ((at = strrchr(text, ')')) == NULL ||
		sscanf(at + 1,
			" %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %*d %*d %*d %*d %*d %*d %*u "
			"%*u %lld",
			&user, &system, &rss) != 3)
		return;
	f->processes++;
	f->rss_bytes += rss * sysconf(_SC_PAGESIZE);
	f->cpu_s += (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static bool belongs(struct proctree *t, struct proc *p, int main_pid, uint64_t tag)
{
	for (int depth = 0; p != NULL && depth < 64; depth++) {
		if (p->pid == main_pid)
			return true;
		if (p->ppid == t->self) /* a child of the daemon: adopted, or of another session */
			return tag != 0 && proctree_tag(t, p->pid) == tag;
		p = proctree_find(t, p->ppid);
	}
	return false;
}

static void look(int pid, struct figures *f)
{
	struct proctree t;
	uint64_t tag;

	if (proctree_init(&t) < 0)
		return;
	tag = proctree_tag(&t, pid);
	if (proctree_walk(&t) == 0)
		for (size_t i = 0; i < t.count; i++)
			if (!t.procs[i].dead && belongs(&t, &t.procs[i], pid, tag))
				add_process(t.procs[i].pid, f);
	proctree_fini(&t);
}

void control_add_live(const struct op_live *l, struct buf *out)
{
	struct figures f = {0};

	if (l->pid > 0) {
		look(l->pid, &f);
		buf_addf(out, "{\"live\":{\"pid\":%d", l->pid);
	} else {
		buf_add_text(out, "{\"live\":{\"pid\":null");
	}
	buf_addf(out,
		",\"processes\":%u,\"rss_bytes\":%lld,\"cpu_seconds\":%.2f,\"idle_seconds\":%.3f,\"outbox_"
		"bytes\":%lld,"
		"\"reads\":%s,\"waits_for_slot\":%s,\"migrating\":%s",
		f.processes, f.rss_bytes, f.cpu_s, (double)l->idle_us / 1e6, (long long)l->outbox_bytes,
		l->reads ? "true" : "false", l->waits ? "true" : "false", l->migrates ? "true" : "false");
	if (l->waits_why != NULL)
		buf_addf(out, ",\"waits_why\":\"%s\",\"caller_running\":%u,\"caller_waiting\":%u",
			l->waits_why, l->caller_running, l->caller_waiting);
	buf_addf(out, ",\"checkpoints_unanswered\":%u", l->unanswered);
	if (l->asked != NULL)
		buf_addf(out, ",\"asked\":\"%s\",\"asked_seconds\":%.3f}}", l->asked,
			(double)l->asked_us / 1e6);
	else
		buf_add_text(out, ",\"asked\":null,\"asked_seconds\":null}}");
}
