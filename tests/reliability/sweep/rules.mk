# SPDX-License-Identifier: MIT
# The sweeps: crash points here; other kinds add tests/reliability/sweep/KIND.c, and what only they need as KIND_*.c there. A
# program of a kind is built of those, of what all share, and of the integration tests' harness, in a tree of its
# own whose crash points are alive: make sweep, scripts/sweep.
SWEEP_KINDS := points calls
SWEEP_SRC   := $(wildcard tests/reliability/sweep/*.c)
SWEEP_DIR   := tests/reliability/sweep
# What all kinds share; KIND.c and KIND_*.c belong to that kind alone.
SWEEP_SHARED := $(filter-out $(SWEEP_DIR)/agent.c $(foreach k,$(SWEEP_KINDS),$(SWEEP_DIR)/$(k).c $(SWEEP_DIR)/$(k)_%.c),$(SWEEP_SRC))
SWEEPS      := $(SWEEP_KINDS:%=$(B)/sweep/%)

.PHONY: sweep sweep-programs
sweep:
	B=$(B) scripts/sweep
sweep-programs: programs $(SWEEPS) $(B)/sweep/agent

$(foreach k,$(SWEEP_KINDS),$(eval $(B)/sweep/$(k): $(call objects,$(filter $(SWEEP_DIR)/$(k).c $(SWEEP_DIR)/$(k)_%.c,$(SWEEP_SRC)))))
$(SWEEPS): $(call objects,$(SWEEP_SHARED)) $(SUPPORT)
	@mkdir -p $(@D)
	$(call say,LD)
	$(Q)$(link) $(CHECK_LIBS) $(LIBS)
$(B)/sweep/agent: $(call objects,$(SWEEP_DIR)/agent.c)
	@mkdir -p $(@D)
	$(call say,LD)
	$(Q)$(link) $(LIBS)
