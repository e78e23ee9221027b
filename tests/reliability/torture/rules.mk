# SPDX-License-Identifier: MIT
# Real faults and the soak. Both run what lies in $(B), through scripts that keep the files of a failure.
TORT     := $(B)/torture
TORT_SRC := tests/reliability/torture
TORT_LIB := $(call objects,$(filter-out $(patsubst %,$(TORT_SRC)/%.c,agent app policy clockskew torture soak test_oracle),$(wildcard $(TORT_SRC)/*.c)))

.PHONY: torture soak torture-programs check-torture

$(TORT)/soak $(TORT)/torture $(TORT)/test_oracle: $(TORT)/%: $(B)/obj/$(TORT_SRC)/%.o $(TORT_LIB) $(SUPPORT) $(ALL)
	@mkdir -p $(@D)
	$(call say,LD)
	$(Q)$(link) $(CHECK_LIBS) $(LIBS)
# A worker is somebody else's program, and the clock is preloaded into a daemon: no sanitizer in either.
PLAIN := $(filter-out -fsanitize% -fno-sanitize%,$(OURS)) -O2
$(TORT)/agent $(TORT)/policy: $(TORT)/%: $(TORT_SRC)/%.c $(B)/.flags
	@mkdir -p $(@D)
	$(call say,LD)
	$(Q)$(CC) $(PLAIN) -o $@ $< -ljansson
# Sees of libhcp what an application sees.
$(TORT)/app: $(TORT_SRC)/app.c $(B)/libhcp.a include/hcp/hcp.h $(B)/.flags
	@mkdir -p $(@D)
	$(call say,LD)
	$(Q)$(CC) $(OURS) $(LINK) $(LDFLAGS) -o $@ $< $(B)/libhcp.a $(LIBHCP_LIBS)
$(TORT)/clockskew.so: $(TORT_SRC)/clockskew.c $(B)/.flags
	@mkdir -p $(@D)
	$(call say,LD)
	$(Q)$(CC) $(PLAIN) -fPIC -shared -o $@ $<

check-programs: torture-programs
torture-programs: programs $(TORT)/torture $(TORT)/test_oracle $(TORT)/soak $(TORT)/agent $(TORT)/policy $(TORT)/app $(TORT)/clockskew.so

# make torture SEED=7 MINUTES=1; SEEDS=20: that many from SEED on; SECS instead of MINUTES for short ones.
torture: torture-programs
	B=$(B) scripts/torture -s $(or $(SECS),$(shell echo $$(($(or $(MINUTES),1) * 60)))) $(or $(SEED),1) $(or $(SEEDS),1)
# make soak MINUTES=60: mixed load, memory and descriptors sampled.
soak: torture-programs
	B=$(B) scripts/soak $(or $(MINUTES),60)
# The short form: the oracle can convict, and two seeds of 20 s.
check-torture: torture-programs
	$(Q)$(TORT)/test_oracle >$(TORT)/test_oracle.log || { cat $(TORT)/test_oracle.log; exit 1; }
	B=$(B) scripts/torture -s 20 1 2
