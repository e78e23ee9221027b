# The simulation: the core with a fake broker, fake workers, fake clocks and a disk of memory, played from a seed.
SIM := $(patsubst tests/sim/%.c,$(B)/sim/%.o,$(wildcard tests/sim/*.c))

.PHONY: simulate check-sim
tests: $(B)/sim/simulate
$(B)/sim/%.o: tests/sim/%.c
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(OURS) -Itests/unit $(HARD) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<
$(SIM): $(B)/.flags
$(B)/sim/simulate: $(SIM) $(CORE)
	$(call say,LD)
	$(Q)$(CC) $(LINK) $(LDFLAGS) -o $@ $^ $(LIBS)

# make simulate N=1000000 SEED=1 JOBS=2
simulate: $(B)/sim/simulate
	$(B)/sim/simulate --stats --jobs $(or $(JOBS),$(shell nproc)) --count $(or $(N),10000) --first $(or $(SEED),1)
# What scripts/check runs.
check-sim: $(B)/sim/simulate
	$(B)/sim/simulate --self-test --jobs $(or $(JOBS),$(shell nproc)) --count $(or $(N),10000)
