/* apps.h: an application of libhcp beside the other callers: killed, frozen, started again, and judged by its
 * own file and the daemon's store. */
#ifndef APPS_H
#define APPS_H

#include <stdbool.h>

#include "rig.h"

void app_begin(struct rig *r, const char *program, unsigned seed); /* program: path of app */
void app_kill(void);
void app_freeze(bool on);
void app_revive(void);     /* does nothing where it runs */
void app_bind_again(void); /* its binding went with the exchange */
void app_be_quiet(void);   /* submits nothing new, in this life and the next */
bool app_is_over(void);    /* all answered, all closed, and all of it stored */
/* After the daemon's end: ends it, and charges what is not there exactly once and in order. */
void app_judge(void);
/* The same for any two files; how many rows the application stored. */
long app_judge_files(const char *file, const char *store);

#endif
