# Faults of the disk: a scripted life on a SQLite VFS that fails, tears, fills up and loses power at every I/O.

DISK := $(patsubst tests/disk/%.c,$(B)/disk/%.o,$(wildcard tests/disk/*.c))

.PHONY: disk
tests: $(B)/disk/disk_sweep
$(B)/disk/%.o: tests/disk/%.c $(B)/.flags
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(OURS) -Itests/unit $(HARD) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<
$(B)/disk/disk_sweep: $(DISK) $(B)/sweep/chain.o $(CORE)
	$(call say,LD)
	$(Q)$(CC) $(LINK) $(LDFLAGS) -o $@ $^ $(shell pkg-config --libs check) $(LIBS)

# Every I/O; `$(B)/disk/disk_sweep --every 5` is the quick form, `--case KIND:N` one case again.
disk: $(B)/disk/disk_sweep
	$(B)/disk/disk_sweep
