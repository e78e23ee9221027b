# SPDX-License-Identifier: MIT
# A counting agent through hundreds of kills: make check-kills; KILLS_SEED=n and KILLS=n choose another run.
KILLS_DIR := $(B)/kills

.PHONY: check-kills
$(KILLS_DIR)/test_kills: $(call objects,tests/reliability/kills/test_kills.c) $(SUPPORT)
	@mkdir -p $(@D)
	$(call say,LD)
	$(Q)$(link) $(CHECK_LIBS) $(LIBS)
# A worker is somebody else's program: no sanitizer in it.
$(KILLS_DIR)/counter: tests/reliability/kills/counter.c $(B)/.flags
	@mkdir -p $(@D)
	$(call say,LD)
	$(Q)$(CC) $(filter-out -fsanitize% -fno-sanitize%,$(OURS)) -O2 -o $@ $< -ljansson

check-programs: $(KILLS_DIR)/test_kills $(KILLS_DIR)/counter
check-kills: programs $(KILLS_DIR)/test_kills $(KILLS_DIR)/counter
	$(Q)rm -f $(KILLS_DIR)/figures
	$(Q)KILLS_FIGURES=$(abspath $(KILLS_DIR))/figures scripts/run-tests -t 900 $(KILLS_DIR)/test_kills >$(KILLS_DIR)/log; \
	rc=$$?; cat $(KILLS_DIR)/figures $(KILLS_DIR)/log; exit $$rc
