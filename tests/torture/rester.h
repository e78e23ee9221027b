/* rester.h: an operator who lets sessions rest and go on again. */
#ifndef RESTER_H
#define RESTER_H

#include "rig.h"

void rester_begin(struct rig *r, unsigned seed);
void rester_be_kind(void); /* from now on everything goes on */
void rester_end(void);     /* charges where nothing rested and went on */

#endif
