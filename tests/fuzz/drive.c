/* SPDX-License-Identifier: MIT */
/* drive.c: a main() without a fuzzer: runs files through a target, each as it is and cut off after every
 * byte.
 *
 *   NAME FILE-OR-DIRECTORY...
 *
 * What once broke a target stays mended in every kind of build this way. Ends with the first that breaks, its
 * name said. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"

#define FILE_MAX (1 << 20)
#define CUTS_MAX 512 /* of a longer one so many beginnings, evenly spread */

static char current[4096];
static size_t current_size;
static unsigned files, runs;

static void on_abort(int sig)
{
	char text[4200];
	int size =
		snprintf(text, sizeof text, "the input was %s, its first %zu bytes\n", current, current_size);

	if (size > 0 && write(STDERR_FILENO, text, (size_t)size) < 0)
		_exit(2);
	signal(sig, SIG_DFL);
	raise(sig);
}

static void run_one(const char *data, size_t size)
{
	char *copy = fuzz_copy(data, size); /* of its own size: reading beyond it is noticed */

	current_size = size;
	LLVMFuzzerTestOneInput((const uint8_t *)copy, size);
	free(copy);
	runs++;
}

static void run_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	char *data = xmalloc(FILE_MAX);
	size_t size, step;

	if (f == NULL) {
		perror(path);
		exit(2);
	}
	size = fread(data, 1, FILE_MAX, f);
	fclose(f);
	snprintf(current, sizeof current, "%s", path);
	step = size / CUTS_MAX + 1;
	for (size_t cut = 0; cut < size; cut += step)
		run_one(data, cut);
	run_one(data, size);
	free(data);
	files++;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static void run_path(const char *path)
{
	struct dirent **names;
	struct stat st;
	char child[4096];
	int count;

	if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode)) {
		run_file(path);
		return;
	}
	if ((count = scandir(path, &names, NULL, by_name)) < 0)
		return; /* a target without findings has no such directory */
	for (int i = 0; i < count; i++) {
		if (names[i]->d_name[0] != '.' &&
			snprintf(child, sizeof child, "%s/%s", path, names[i]->d_name) < (int)sizeof child)
			run_path(child);
		free(names[i]);
	}
	free(names);
}

int main(int argc, char **argv)
{
	signal(SIGABRT, on_abort);
	signal(SIGSEGV, on_abort);
	for (int i = 1; i < argc; i++)
		run_path(argv[i]);
	printf("%u inputs, %u runs\n", files, runs);
	return files > 0 ? 0 : 2;
}
