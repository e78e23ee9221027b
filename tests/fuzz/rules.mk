# rules.mk: fuzzing. A target is tests/fuzz/fuzz_NAME.c and nothing else has to know it.
#
#   make fuzz          libFuzzer under AddressSanitizer and UBSan, FUZZ_SECONDS for each of FUZZ_TARGETS
#   make check-fuzz    corpora and findings through the same targets, with this build's compiler and flags
#
# What the fuzzer learns is kept in $(B)/libfuzzer/corpus; only small, hand-picked inputs belong in the tree.

FUZZ_ALL     := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_TARGETS ?= $(FUZZ_ALL)
FUZZ_SECONDS ?= 60
FUZZ_JOBS    ?= 2
FUZZ_CC      ?= clang
FUZZ_SAN     := -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
FUZZ_KIT     := kit quiet_log files
FUZZ_REPLAY  := $(FUZZ_ALL:%=$(B)/fuzz/%)
FUZZ_LIVE    := $(FUZZ_ALL:%=$(B)/libfuzzer/%)
FUZZ_OBJ     := $(patsubst src/%.c,$(B)/libfuzzer/src/%.o,$(filter-out src/hcpd/main.c src/hcpctl/main.c,$(SRC)))
FUZZ_CFLAGS  := $(OURS) -Itests/fuzz -fPIE

.PHONY: fuzz check-fuzz
fuzz: $(FUZZ_TARGETS:%=$(B)/libfuzzer/%)
	FUZZ_SECONDS=$(FUZZ_SECONDS) FUZZ_JOBS=$(FUZZ_JOBS) scripts/fuzz run $^
check-fuzz: $(FUZZ_TARGETS:%=$(B)/fuzz/%)
	scripts/fuzz replay $^

# --- with this build's compiler: replays files ---
$(B)/fuzz/%.o: tests/fuzz/%.c
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(FUZZ_CFLAGS) $(HARD) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<
$(B)/fuzz/libkit.a: $(FUZZ_KIT:%=$(B)/fuzz/%.o)
	$(call say,AR)
	$(Q)rm -f $@ && ar qcsT $@ $^
$(FUZZ_REPLAY): $(B)/fuzz/%: $(B)/fuzz/fuzz_%.o $(B)/fuzz/drive.o $(B)/fuzz/libkit.a $(CORE)
	$(call say,LD)
	$(Q)$(CC) $(LINK) $(LDFLAGS) -o $@ $^ $(LIBS)
$(FUZZ_ALL:%=$(B)/fuzz/fuzz_%.o) $(FUZZ_KIT:%=$(B)/fuzz/%.o) $(B)/fuzz/drive.o: $(B)/.flags

# --- with clang and libFuzzer ---
$(B)/libfuzzer/src/%.o: src/%.c
	@mkdir -p $(@D)
	$(call say,FUZZ)
	$(Q)$(FUZZ_CC) $(FUZZ_CFLAGS) $(FUZZ_SAN) -O1 -MMD -MP -c -o $@ $<
$(B)/libfuzzer/tests/%.o: tests/fuzz/%.c
	@mkdir -p $(@D)
	$(call say,FUZZ)
	$(Q)$(FUZZ_CC) $(FUZZ_CFLAGS) $(FUZZ_SAN) -O1 -MMD -MP -c -o $@ $<
$(B)/libfuzzer/libkit.a: $(FUZZ_KIT:%=$(B)/libfuzzer/tests/%.o)
	$(call say,AR)
	$(Q)rm -f $@ && ar qcsT $@ $^
$(B)/libfuzzer/libcore.a: $(FUZZ_OBJ)
	$(call say,AR)
	$(Q)rm -f $@ && ar qcsT $@ $^
$(FUZZ_LIVE): $(B)/libfuzzer/%: $(B)/libfuzzer/tests/fuzz_%.o $(B)/libfuzzer/libkit.a $(B)/libfuzzer/libcore.a
	$(call say,LD)
	$(Q)$(FUZZ_CC) -fsanitize=fuzzer,address,undefined -pie -o $@ $^ $(LIBS)
$(FUZZ_OBJ) $(FUZZ_ALL:%=$(B)/libfuzzer/tests/fuzz_%.o) $(FUZZ_KIT:%=$(B)/libfuzzer/tests/%.o): $(B)/.flags

-include $(shell find $(B)/libfuzzer -name "*.d" 2>/dev/null)
