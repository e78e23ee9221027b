/* schema.h: the tables, as steps from one version of them to the next. */
#ifndef HCPD_SCHEMA_H
#define HCPD_SCHEMA_H

/* schema_steps[n] brings version n to n + 1; it runs in a transaction of its own. */
extern const char *const schema_steps[];
extern const int schema_version;        /* what this program knows */

#endif
