# SPDX-License-Identifier: MIT
# Faults of the disk: a scripted life on a SQLite VFS that fails, tears, fills up and loses power at every I/O.

DISK := $(call objects,$(wildcard tests/reliability/disk/*.c))

.PHONY: disk
tests: $(B)/disk/disk_sweep
$(B)/disk/disk_sweep: $(DISK) $(FAKES) $(SUPPORT) $(ALL)
	@mkdir -p $(@D)
	$(call say,LD)
	$(Q)$(link) $(CHECK_LIBS) $(LIBS)

# Every I/O; `$(B)/disk/disk_sweep --every 5` is the quick form, `--case KIND:N` one case again.
disk: $(B)/disk/disk_sweep
	$(B)/disk/disk_sweep
