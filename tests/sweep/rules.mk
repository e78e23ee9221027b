# The sweeps: crash points here; other kinds add tests/sweep/KIND.c, and what only they need as tests/sweep/KIND_*.c. A
# program of a kind is built of those, of what all share, and of the integration tests' harness, in a tree of its
# own whose crash points are alive: make sweep, scripts/sweep.
SWEEP_KINDS := $(filter points calls disk,$(patsubst tests/sweep/%.c,%,$(wildcard tests/sweep/*.c)))
SWEEP_OBJ   := $(patsubst tests/sweep/%.c,$(B)/sweep/%.o,$(wildcard tests/sweep/*.c))
SWEEP_OWN   := $(B)/sweep/agent.o $(foreach k,points calls disk,$(B)/sweep/$(k).o $(B)/sweep/$(k)_%.o)
SWEEPS      := $(SWEEP_KINDS:%=$(B)/sweep/%)

.PHONY: sweep sweep-programs
sweep:
	B=$(B) scripts/sweep
sweep-programs: programs $(SWEEPS) $(B)/sweep/agent

$(B)/sweep/%.o: tests/sweep/%.c
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(OURS) -Itests/integration $(HARD) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<
$(SWEEP_OBJ): $(B)/.flags
$(foreach k,$(SWEEP_KINDS),$(eval $(B)/sweep/$k: $(filter $(B)/sweep/$k.o $(B)/sweep/$k_%.o,$(SWEEP_OBJ))))
$(SWEEPS): $(filter-out $(SWEEP_OWN),$(SWEEP_OBJ)) $(IHARN)
	$(call say,LD)
	$(Q)$(CC) $(LINK) $(LDFLAGS) -o $@ $^ $(shell pkg-config --libs check) $(LIBS)
$(B)/sweep/agent: $(B)/sweep/agent.o
	$(call say,LD)
	$(Q)$(CC) $(LINK) $(LDFLAGS) -o $@ $^ $(LIBS)
