/* SPDX-License-Identifier: MIT */
/* fake_id.c: what fake_id.h declares. */
#include "support/fakes/fake_id.h"

uint64_t fake_seed = 1;

uint64_t fake_random(void) /* splitmix64 */
{
	uint64_t z = (fake_seed += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

void id_random(void *out, size_t size)
{
	unsigned char *to = out;

	while (size-- > 0)
		*to++ = (unsigned char)fake_random();
}

void id_make(char out[ID_SIZE])
{
	uint64_t a = fake_random(), b = fake_random();

	snprintf(out, ID_SIZE, "%08x-%04x-4%03x-a%03x-%012llx", (unsigned)(a >> 32),
		(unsigned)(a >> 16) & 0xffff, (unsigned)a & 0xfff, (unsigned)(b >> 52),
		(unsigned long long)(b & UINT64_C(0xffffffffffff)));
}
