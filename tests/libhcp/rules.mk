# libhcp: the library, static and shared, its examples and its tests. Modules of the daemon that it uses are compiled
# once more, position-independent and hidden; only hcp_* is to be seen from outside, of the static one too.
LIBHCP       := $(B)/libhcp
LIBHCP_ABI   := 0
LIBHCP_PKGS  := librabbitmq jansson sqlite3 uuid libcrypto
LIBHCP_USES  := amqp/connection amqp/frames base/buf base/clock base/id base/duration base/semver base/shellwords base/ini \
	base/rate json/text json/scan protocol/message $(patsubst src/%.c,%,$(wildcard src/config/*.c))
LIBHCP_SRC   := $(wildcard src/libhcp/*.c)
LIBHCP_OWN   := $(patsubst src/libhcp/%.c,$(LIBHCP)/%.o,$(LIBHCP_SRC))
LIBHCP_CORE  := $(patsubst %,$(LIBHCP)/in_%.o,$(LIBHCP_USES))
LIBHCP_LIBS  := $(shell pkg-config --libs $(LIBHCP_PKGS)) -lpthread
LIBHCP_FLAGS  = $(OURS) $(filter-out -fPIE,$(HARD)) -fPIC -fvisibility=hidden -ffunction-sections -fdata-sections \
	$(CPPFLAGS) $(CFLAGS)
LIBHCP_TESTS := $(patsubst tests/libhcp/%.c,$(LIBHCP)/%,$(wildcard tests/libhcp/test_*.c))
LIBHCP_KIT   := $(patsubst tests/libhcp/%.c,$(LIBHCP)/%.o,$(filter-out tests/libhcp/test_%.c,$(wildcard tests/libhcp/*.c)))
LIBHCP_EXAMPLES := $(patsubst docs/examples/%.c,$(LIBHCP)/example_%,$(wildcard docs/examples/*.c))

.PHONY: libhcp check-libhcp
libhcp: $(B)/libhcp.a $(B)/libhcp.so $(B)/hcp.pc
all: libhcp

$(LIBHCP)/%.o: src/libhcp/%.c
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(LIBHCP_FLAGS) -MMD -MP -c -o $@ $<
$(LIBHCP)/in_%.o: src/%.c
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(LIBHCP_FLAGS) -MMD -MP -c -o $@ $<
$(LIBHCP_OWN) $(LIBHCP_CORE): $(B)/.flags

$(B)/libhcp.so.$(LIBHCP_ABI): $(LIBHCP_OWN) $(LIBHCP_CORE)
	$(call say,LD)
	$(Q)$(CC) $(filter-out -pie,$(LINK)) $(LDFLAGS) -shared -Wl,-soname,libhcp.so.$(LIBHCP_ABI) -Wl,--gc-sections \
		$(if $(SAN),,-Wl,-z,defs) -o $@ $^ $(LIBHCP_LIBS)
$(B)/libhcp.so: $(B)/libhcp.so.$(LIBHCP_ABI)
	$(Q)ln -sf $(<F) $@
# One object, in which what is hidden has become local: an application may have a clock_format of its own.
$(B)/libhcp.a: $(LIBHCP_OWN) $(LIBHCP_CORE)
	$(call say,AR)
	$(Q)ld -r --gc-sections --gc-keep-exported -e hcp_open -o $(LIBHCP)/libhcp.o $^ && objcopy --localize-hidden $(LIBHCP)/libhcp.o
	$(Q)rm -f $@ && ar rcs $@ $(LIBHCP)/libhcp.o
# `make install` puts the paths in: /usr/local stands for PREFIX here as everywhere.
$(B)/hcp.pc: tests/libhcp/rules.mk VERSION
	@mkdir -p $(@D)
	$(Q)printf '%s\n' 'prefix=/usr/local' 'includedir=$${prefix}/include' 'libdir=$${prefix}/lib' '' 'Name: hcp' \
		"Description: the caller's half of the Harness Communication Protocol" 'Version: $(VERSION)' \
		'Requires.private: $(LIBHCP_PKGS)' 'Cflags: -I$${includedir}' 'Libs: -L$${libdir} -lhcp' \
		'Libs.private: -lpthread' >$@

# Examples see what an application sees: the public header, and the shared library.
$(LIBHCP)/example_%: docs/examples/%.c $(B)/libhcp.so include/hcp/hcp.h $(B)/.flags
	@mkdir -p $(@D)
	$(call say,LD)
	$(Q)mkdir -p $(LIBHCP)/include && ln -sfn $(CURDIR)/include/hcp $(LIBHCP)/include/hcp
	$(Q)$(CC) -std=c11 -Wall -Wextra -Wshadow -Wconversion -Werror -I$(LIBHCP)/include $(if $(SAN),-fsanitize=$(SAN)) \
		$(CPPFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $< -L$(B) -lhcp -Wl,-rpath,$(abspath $(B)) -lsqlite3 -lev

$(LIBHCP_TESTS:=.o) $(LIBHCP_KIT): $(LIBHCP)/%.o: tests/libhcp/%.c $(B)/.flags
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(OURS) -Itests/integration -Itests/libhcp -Isrc/libhcp $(HARD) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<
$(LIBHCP_TESTS): $(LIBHCP)/%: $(LIBHCP)/%.o $(LIBHCP_KIT) $(IHARN) $(B)/libhcp.a
	$(call say,LD)
	$(Q)$(CC) $(LINK) $(LDFLAGS) -o $@ $^ $(shell pkg-config --libs check) $(LIBHCP_LIBS) $(LIBS)
# Looks inside: the library's own reader beside jansson.
$(LIBHCP)/test_note: $(LIBHCP)/note.o $(CORE)

check-libhcp: programs libhcp $(LIBHCP_EXAMPLES) $(LIBHCP_TESTS)
	scripts/run-tests $(LIBHCP_TESTS)

$(B)/bench/consume: $(B)/libhcp.a
