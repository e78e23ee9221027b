/* decider.h: a human with a key beside the nemesis, as a process of its own: decides what waits as its task
 * wishes, sometimes twice, sometimes with a signature that is none; and what became of all that, judged. */
#ifndef DECIDER_H
#define DECIDER_H

#include "rig.h"

/* Its key and its place in the configuration, and the process: before there are threads. */
void decider_begin(struct rig *r, unsigned seed);
/* After the daemon's end: ends it, and charges. */
void decider_judge(void);

/* The same for any two files: what was answered, a line a decision ("REQUEST allow|deny|again|forged
 * ANSWER"), and the daemon's store. How many decisions were obeyed. */
long decider_judge_files(const char *answers, const char *store);

#endif
