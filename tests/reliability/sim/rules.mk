# SPDX-License-Identifier: MIT
# The simulation: the core with a fake broker, fake workers, fake clocks and a disk of memory, played from a seed.
SIM := $(call objects,$(wildcard tests/reliability/sim/*.c))

.PHONY: simulate check-sim
tests: $(B)/sim/simulate
$(B)/sim/simulate: $(SIM) $(FAKES) $(SUPPORT) $(ALL)
	@mkdir -p $(@D)
	$(call say,LD)
	$(Q)$(link) $(LIBS)

# make simulate N=1000000 SEED=1 JOBS=2
simulate: $(B)/sim/simulate
	$(B)/sim/simulate --stats --jobs $(or $(JOBS),$(shell nproc)) --count $(or $(N),10000) --first $(or $(SEED),1)
# What scripts/check runs.
check-sim: $(B)/sim/simulate
	$(B)/sim/simulate --self-test --jobs $(or $(JOBS),$(shell nproc)) --count $(or $(N),10000)
