/* SPDX-License-Identifier: MIT */
/* crashpoint.c: dies at a named point, and counts who comes by.
 * Owns the table of points, which the linker collects. Empty in an ordinary build; see crashpoint.h. */
#include "base/crashpoint.h"

#ifdef HCP_CRASH_POINTS

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sysexits.h>
#include <unistd.h>

/* The linker's names for the bounds of a section. */
extern struct crash_point *__start_crash_points[] __attribute__((visibility("hidden"), weak));
extern struct crash_point *__stop_crash_points[] __attribute__((visibility("hidden"), weak));

static const struct crash_point *armed;
static uint64_t armed_at;

void crash_pass(const struct crash_point *p)
{
	uint64_t n = ++p->record->passed;

	if (p != armed || n != armed_at)
		return;
	p->record->died = n; /* the file is a mapping: it outlives the process */
	kill(getpid(), SIGKILL);
	for (;;)
		pause();
}

static void __attribute__((noreturn)) refuse(const char *what, const char *value)
{
	fprintf(stderr, "crash points: %s: %s\n", what, value);
	_exit(EX_USAGE);
}

static struct crash_record *make_records(size_t count, const char *path)
{
	size_t size = (count ? count : 1) * sizeof(struct crash_record);
	struct crash_record *records;
	int fd;

	if (path == NULL)
		return calloc(1, size);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
		refuse("cannot keep counts in this file", path);
	records = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return records != MAP_FAILED ? records : NULL;
}

static const struct crash_point *find_point(const char *name, size_t size)
{
	for (struct crash_point **p = __start_crash_points; p < __stop_crash_points; p++)
		if (strlen((*p)->name) == size && memcmp((*p)->name, name, size) == 0)
			return *p;
	return NULL;
}

static void list_points(void)
{
	for (struct crash_point **p = __start_crash_points; p < __stop_crash_points; p++)
		puts((*p)->name);
	fflush(stdout);
	_exit(EX_OK);
}

static void arm(const char *text)
{
	const char *colon = strchr(text, ':');
	char *end;

	if (colon == NULL)
		refuse("HCP_CRASH is not NAME:N", text);
	armed = find_point(text, (size_t)(colon - text));
	if (armed == NULL)
		refuse("there is no such point", text);
	armed_at = strtoull(colon + 1, &end, 10);
	if (armed_at == 0 || *end != '\0')
		refuse("HCP_CRASH is not NAME:N", text);
}

/* Before main, so that no point can be passed earlier. */
static void __attribute__((constructor)) crash_init(void)
{
	size_t count = (size_t)(__stop_crash_points - __start_crash_points);
	const char *text = getenv("HCP_CRASH");
	struct crash_record *r = make_records(count, getenv("HCP_CRASH_COUNTS"));

	if (r == NULL)
		refuse("out of memory", "counts");
	for (struct crash_point **p = __start_crash_points; p < __stop_crash_points; p++, r++) {
		if (strlen((*p)->name) >= sizeof r->name)
			refuse("too long a name", (*p)->name);
		if (find_point((*p)->name, strlen((*p)->name)) != *p)
			refuse("two points of one name", (*p)->name);
		memcpy(r->name, (*p)->name, strlen((*p)->name));
		(*p)->record = r;
	}
	if (text != NULL && strcmp(text, "list") == 0)
		list_points();
	if (text != NULL)
		arm(text);
}

#endif
