# A counting agent through hundreds of kills: make check-kills; KILLS_SEED=n and KILLS=n choose another run.
KILLS_DIR := $(B)/kills

.PHONY: check-kills
$(KILLS_DIR)/test_kills.o: tests/kills/test_kills.c $(B)/.flags
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(OURS) -Itests/integration $(HARD) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<
$(KILLS_DIR)/test_kills: $(KILLS_DIR)/test_kills.o $(IHARN)
	$(call say,LD)
	$(Q)$(CC) $(LINK) $(LDFLAGS) -o $@ $^ $(shell pkg-config --libs check) $(LIBS)
# A worker is somebody else's program: no sanitizer in it.
$(KILLS_DIR)/counter: tests/kills/counter.c $(B)/.flags
	@mkdir -p $(@D)
	$(call say,LD)
	$(Q)$(CC) $(filter-out -fsanitize% -fno-sanitize%,$(OURS)) -O2 -o $@ $< -ljansson

check-kills: programs $(KILLS_DIR)/test_kills $(KILLS_DIR)/counter
	$(Q)rm -f $(KILLS_DIR)/figures
	$(Q)KILLS_FIGURES=$(abspath $(KILLS_DIR))/figures scripts/run-tests -t 900 $(KILLS_DIR)/test_kills >$(KILLS_DIR)/log; \
	rc=$$?; cat $(KILLS_DIR)/figures $(KILLS_DIR)/log; exit $$rc
-include $(KILLS_DIR)/test_kills.d
