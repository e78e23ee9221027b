# Real faults and the soak. Both run what lies in $(B), through scripts that keep the files of a failure.
TORT     := $(B)/torture
TORT_OBJ := $(patsubst tests/torture/%.c,$(TORT)/%.o,$(filter-out %/agent.c %/app.c %/policy.c %/clockskew.c,$(wildcard tests/torture/*.c)))
TORT_LIB := $(filter-out $(TORT)/torture.o $(TORT)/soak.o $(TORT)/test_%,$(TORT_OBJ)) $(B)/sweep/chain.o

.PHONY: torture soak torture-programs check-torture

$(TORT)/%.o: tests/torture/%.c
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(OURS) -Itests/integration -Itests/torture $(HARD) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<
$(TORT_OBJ): $(B)/.flags
$(TORT)/soak $(TORT)/torture $(TORT)/test_judge: $(TORT)/%: $(TORT)/%.o $(TORT_LIB) $(IHARN) $(CORE)
	$(call say,LD)
	$(Q)$(CC) $(LINK) $(LDFLAGS) -o $@ $^ $(shell pkg-config --libs check) $(LIBS)
# A worker is somebody else's program, and the clock is preloaded into a daemon: no sanitizer in either.
PLAIN := $(filter-out -fsanitize% -fno-sanitize%,$(OURS)) -O2
$(TORT)/agent $(TORT)/policy: $(TORT)/%: tests/torture/%.c $(B)/.flags
	@mkdir -p $(@D)
	$(call say,LD)
	$(Q)$(CC) $(PLAIN) -o $@ $< -ljansson
# Sees of libhcp what an application sees.
$(TORT)/app: tests/torture/app.c $(B)/libhcp.a include/hcp/hcp.h $(B)/.flags
	@mkdir -p $(@D)
	$(call say,LD)
	$(Q)$(CC) $(OURS) $(LINK) $(LDFLAGS) -o $@ $< $(B)/libhcp.a $(LIBHCP_LIBS)
$(TORT)/clockskew.so: tests/torture/clockskew.c $(B)/.flags
	@mkdir -p $(@D)
	$(call say,LD)
	$(Q)$(CC) $(PLAIN) -fPIC -shared -o $@ $<

torture-programs: programs $(TORT)/torture $(TORT)/test_judge $(TORT)/soak $(TORT)/agent $(TORT)/policy $(TORT)/app $(TORT)/clockskew.so

# make torture SEED=7 MINUTES=1; SEEDS=20: that many from SEED on; SECS instead of MINUTES for short ones.
torture: torture-programs
	B=$(B) scripts/torture -s $(or $(SECS),$(shell echo $$(($(or $(MINUTES),1) * 60)))) $(or $(SEED),1) $(or $(SEEDS),1)
# make soak MINUTES=60: mixed load, memory and descriptors sampled.
soak: torture-programs
	B=$(B) scripts/soak $(or $(MINUTES),60)
# The short form: the judge can convict, and two seeds of 20 s.
check-torture: torture-programs
	$(Q)$(TORT)/test_judge >$(TORT)/test_judge.log || { cat $(TORT)/test_judge.log; exit 1; }
	B=$(B) scripts/torture -s 20 1 2
