/* ctl_doctor_daemon.c: what a running daemon says of itself, by its control socket.
 * Owns what of its figures is a finding.
 * Never waits by itself: the caller bounds the time. */
#include "ctl_doctor.h"

#include <fcntl.h>
#include <unistd.h>

#include "ctl_client.h"

#define OLD_S 300                       /* a message that waits so long for its confirm */

static bool is_true(const json_t *o, const char *key)
{
	return json_is_true(json_object_get(o, key));
}

static bool on_stats(void *ctx, const char *text, size_t size)
{
	struct doctor *d = ctx;
	json_t *stats = json_loadb(text, size, 0, NULL), *outbox = json_object_get(stats, "outbox");
	long long oldest_s = json_integer_value(json_object_get(outbox, "oldest_s"));

	if (is_true(stats, "held"))
		doctor_say(d, DOCTOR_FAIL, "daemon", "see its log: the disk is full or broken, or somebody else writes to the store",
			"hcpd stands still, because the store takes nothing");
	if (is_true(stats, "draining"))
		doctor_say(d, DOCTOR_WARN, "daemon", "hcpctl undrain", "hcpd is draining: new tasks wait");
	if (json_object_get(stats, "consuming") && !is_true(stats, "consuming"))
		doctor_say(d, DOCTOR_FAIL, "daemon", "see its log for why", "hcpd does not consume commands now");
	if (json_object_get(stats, "publishing") && !is_true(stats, "publishing"))
		doctor_say(d, DOCTOR_FAIL, "daemon", "see its log for why; nothing is lost meanwhile", "hcpd cannot publish now");
	if (is_true(stats, "blocked"))
		doctor_say(d, DOCTOR_WARN, "daemon", "rabbitmq-diagnostics alarms, at the broker: memory or disk",
			"the broker has an alarm, and takes no messages");
	if (oldest_s > OLD_S)
		doctor_say(d, DOCTOR_WARN, "daemon", "see its log: a caller's queue may be full, or a permission be missing",
			"the oldest unconfirmed message has waited for %lld s", oldest_s);
	doctor_say(d, DOCTOR_OK, "daemon", NULL, "it answers: %lld sessions run, %lld wait",
		(long long)json_integer_value(json_object_get(stats, "running")),
		(long long)json_integer_value(json_object_get(stats, "waiting")));
	json_decref(stats);
	return true;
}

void doctor_check_answers(struct doctor *d, const void *settings)
{
	int status, silence = open("/dev/null", O_WRONLY | O_CLOEXEC);
	struct ctl_client *c;

	/* We are in a child: what the client says of its troubles becomes a finding instead. */
	if (silence >= 0)
		dup2(silence, STDERR_FILENO);
	c = ctl_client_open(settings, CTL_DAEMON_QUIETLY, &status);
	if (!c || ctl_client_ask(c, json_pack("{s:s}", "do", "stats"), on_stats, d, NULL) != 0)
		doctor_say(d, geteuid() == 0 || geteuid() == d->uid ? DOCTOR_WARN : DOCTOR_SKIP, "daemon",
			"see [control] in hcpd.ini: where is the socket, and who may use it? An hcpd of before has none: restart it",
			"hcpd runs, and does not answer on its control socket");
	ctl_client_close(c);
}
