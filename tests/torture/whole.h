/* whole.h: a store and its archive as one again, for judges that want to see every session. */
#ifndef WHOLE_H
#define WHOLE_H

/* The daemon has ended. Copies the store to a new file and puts what left it back, from the archive below
 * state: each session must be in one of the two, once and whole, and nothing of those who left may be left
 * behind. How many had left; what is wrong is charged. */
long whole_make(const char *store, const char *state, const char *out);

#endif
