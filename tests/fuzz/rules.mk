# SPDX-License-Identifier: MIT
# rules.mk: fuzzing. A target is tests/fuzz/fuzz_NAME.c and nothing else has to know it.
#
#   make fuzz          libFuzzer under AddressSanitizer and UBSan, FUZZ_SECONDS for each of FUZZ_TARGETS
#   make fuzz-fixed    the same from one seed with a fixed count, for scripts/check; make fuzz-programs only builds
#   make check-fuzz    corpora and findings through the same targets, with this build's compiler and flags
#
# What the fuzzer learns is kept in $(B)/libfuzzer/corpus; only small, hand-picked inputs belong in the tree.

FUZZ_ALL     := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_TARGETS ?= $(FUZZ_ALL)
FUZZ_SECONDS ?= 60
FUZZ_JOBS    ?= 2
FUZZ_CC      ?= clang
FUZZ_SAN     := -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
FUZZ_KIT     := tests/fuzz/kit.c tests/fuzz/quiet_log.c tests/fuzz/files.c tests/fuzz/second_reader.c tests/support/strict_json.c
# What these accept, a second reader must accept: second_reader.c.
FUZZ_WRAP    := -Wl,--wrap=jtext_load,--wrap=jtext_parse,--wrap=jtext_parse_numbers,--wrap=jscan_object,--wrap=jload_tree,--wrap=jload_flat
# These put one_session.c in the place of the store and the processes.
ONE_SESSION  := $(patsubst tests/fuzz/fuzz_%.c,%,$(shell grep -l '"one_session.h"' tests/fuzz/fuzz_*.c))
FUZZ_REPLAY  := $(FUZZ_ALL:%=$(B)/fuzz/%)
FUZZ_LIVE    := $(FUZZ_ALL:%=$(B)/libfuzzer/%)
FUZZ_ROOMS   := $(ALL:$(B)/lib/%=$(B)/libfuzzer/lib/%)
FUZZ_CFLAGS  := $(OURS) -fPIE

.PHONY: fuzz fuzz-fixed fuzz-programs check-fuzz
fuzz: $(FUZZ_TARGETS:%=$(B)/libfuzzer/%)
	FUZZ_SECONDS=$(FUZZ_SECONDS) FUZZ_JOBS=$(FUZZ_JOBS) scripts/fuzz run $^
fuzz-fixed: $(FUZZ_TARGETS:%=$(B)/libfuzzer/%)
	FUZZ_JOBS=$(FUZZ_JOBS) scripts/fuzz fixed $^
fuzz-programs: $(FUZZ_LIVE)
check-programs: $(FUZZ_REPLAY)
check-fuzz: $(FUZZ_TARGETS:%=$(B)/fuzz/%)
	scripts/fuzz replay $^

# --- with this build's compiler: replays files ---
$(B)/fuzz/libkit.a: $(call objects,$(FUZZ_KIT))
	@mkdir -p $(@D)
	$(call say,AR)
	$(Q)rm -f $@ && ar rcsT $@ $^
$(ONE_SESSION:%=$(B)/fuzz/%): $(B)/obj/tests/fuzz/one_session.o
$(FUZZ_REPLAY): $(B)/fuzz/%: $(B)/obj/tests/fuzz/fuzz_%.o $(B)/obj/tests/fuzz/drive.o $(B)/fuzz/libkit.a $(ALL)
	@mkdir -p $(@D)
	$(call say,LD)
	$(Q)$(link) $(FUZZ_WRAP) $(LIBS)

# --- with clang and libFuzzer ---
$(B)/libfuzzer/obj/%.o: %.c $(B)/.flags
	@mkdir -p $(@D)
	$(call say,FUZZ)
	$(Q)$(FUZZ_CC) $(FUZZ_CFLAGS) $(FUZZ_SAN) -O1 -MMD -MP -c -o $@ $<
$(B)/libfuzzer/lib/kit.a: $(FUZZ_KIT:%.c=$(B)/libfuzzer/obj/%.o)
$(foreach r,$(ROOMS),$(eval $(B)/libfuzzer/lib/$(r).a: $(patsubst %.c,$(B)/libfuzzer/obj/%.o,$(filter-out $(MAINS),$(filter src/$(r)/%,$(SRC))))))
$(B)/libfuzzer/lib/%.a:
	@mkdir -p $(@D)
	$(call say,AR)
	$(Q)rm -f $@ && ar rcsT $@ $^
$(ONE_SESSION:%=$(B)/libfuzzer/%): $(B)/libfuzzer/obj/tests/fuzz/one_session.o
$(FUZZ_LIVE): $(B)/libfuzzer/%: $(B)/libfuzzer/obj/tests/fuzz/fuzz_%.o $(B)/libfuzzer/lib/kit.a $(FUZZ_ROOMS)
	$(call say,LD)
	$(Q)$(FUZZ_CC) -fsanitize=fuzzer,address,undefined -pie $(FUZZ_WRAP) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LIBS)

-include $(shell find $(B)/libfuzzer/obj -name '*.d' 2>/dev/null)
