# hcpd: GNU make, no configure step. `make help` lists the targets.
# SAN=address,undefined builds everything under those sanitizers, in a tree of its own.

PREFIX     ?= /usr/local
SYSCONFDIR ?= /etc
UNITDIR    ?= $(PREFIX)/lib/systemd/system
DESTDIR    ?=
CC         ?= cc
CFLAGS     ?= -O2

comma   := ,
B       := build$(if $(SAN),/san)
PKGS    := librabbitmq jansson sqlite3 uuid libssl libcrypto libsystemd libzstd
VERSION := $(shell cat VERSION)

# Ours apart from the user's: CFLAGS and LDFLAGS stay free for packagers.
OURS := -std=gnu11 -Isrc -Iinclude -D_GNU_SOURCE -DHCPD_VERSION='"$(VERSION)"' -g \
	-Wall -Wextra -Wshadow -Wconversion -Wformat=2 -Wstrict-prototypes -Wmissing-prototypes \
	-Wpointer-arith -Wcast-qual -Wwrite-strings -Wundef -Wvla -Werror
OURS += $(shell pkg-config --cflags $(PKGS))
OURS += $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer)
HARD := -fstack-protector-strong $(if $(SAN),,-D_FORTIFY_SOURCE=2) -fPIE
LINK := $(if $(SAN),-fsanitize=$(SAN)) -pie -Wl,-z,relro,-z,now -Wl,--as-needed
LIBS := $(shell pkg-config --libs $(PKGS)) -lev -lpthread -lm

# Everything but the two main()s is one library; programs and tests link what they use of it. A test that
# defines all of a header's functions itself has replaced that module: clock, id, bus, worker.
SRC   := $(filter-out src/libhcp/%,$(shell find src -name '*.c' | sort))
OBJ   := $(patsubst src/%.c,$(B)/obj/%.o,$(filter-out src/hcpd/main.c src/hcpctl/main.c,$(SRC)))
CORE  := $(B)/libcore.a
# `make V=1` shows the commands.
Q     := $(if $(V),,@)
say    = $(if $(V),,@echo '  $(1)	$(patsubst $(B)/%,%,$@)')
UNIT  := $(patsubst tests/unit/%.c,$(B)/tests/%,$(wildcard tests/unit/test_*.c))
# Integration tests share a harness (tests/integration/harness*.c) and run against build's programs.
ITESTS := $(patsubst tests/integration/%.c,$(B)/itests/%,$(wildcard tests/integration/test_*.c))
IHARN := $(patsubst tests/integration/%.c,$(B)/itests/%.o,$(filter-out tests/integration/test_%.c,$(wildcard tests/integration/*.c)))
BENCH := $(patsubst tests/bench/%.c,$(B)/bench/%,$(wildcard tests/bench/*.c))

.PHONY: all check check-unit check-integration check-scripts bench cover format install uninstall clean help \
	tests programs FORCE
.DELETE_ON_ERROR:
.SECONDARY:

all: programs
programs: $(B)/hcpd $(B)/hcpctl
tests: $(UNIT) $(ITESTS)

$(B)/hcpd: $(B)/obj/hcpd/main.o $(CORE)
	$(call say,LD)
	$(Q)$(CC) $(LINK) $(LDFLAGS) -o $@ $^ $(LIBS)
$(B)/hcpctl: $(B)/obj/hcpctl/main.o $(CORE)
	$(call say,LD)
	$(Q)$(CC) $(LINK) $(LDFLAGS) -o $@ $^ $(LIBS)

$(CORE): $(OBJ)
	$(call say,AR)
	$(Q)rm -f $@ && ar qcsT $@ $(OBJ)

$(B)/obj/%.o: src/%.c
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(OURS) $(HARD) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<
$(B)/tests/%.o: tests/unit/%.c
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(OURS) $(HARD) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<
$(B)/itests/%.o: tests/integration/%.c
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(OURS) -Itests/integration $(HARD) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<
$(B)/bench/%.o: tests/bench/%.c
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(OURS) $(HARD) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<
$(UNIT): $(B)/tests/%: $(B)/tests/%.o $(CORE)
	$(call say,LD)
	$(Q)$(CC) $(LINK) $(LDFLAGS) -o $@ $^ $(shell pkg-config --libs check) $(LIBS)
$(ITESTS): $(B)/itests/%: $(B)/itests/%.o $(IHARN) $(CORE)
	$(call say,LD)
	$(Q)$(CC) $(LINK) $(LDFLAGS) -o $@ $^ $(shell pkg-config --libs check) $(LIBS)
$(BENCH): $(B)/bench/%: $(B)/bench/%.o $(CORE)
	$(call say,LD)
	$(Q)$(CC) $(LINK) $(LDFLAGS) -o $@ $^ $(LIBS)


# Another compiler or other flags make everything anew: no object is shared between kinds of build.
FLAGS := $(CC) $(OURS) $(HARD) $(CPPFLAGS) $(CFLAGS) $(LINK) $(LDFLAGS)
$(B)/.flags: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' '$(subst ','\'',$(FLAGS))' | cmp -s - $@ || printf '%s\n' '$(subst ','\'',$(FLAGS))' >$@
$(OBJ) $(B)/obj/hcpd/main.o $(B)/obj/hcpctl/main.o $(UNIT:=.o) $(ITESTS:=.o) $(IHARN) $(BENCH:=.o): $(B)/.flags

# Tests. The runner starts private brokers where the programs ask for one, and leaves nothing behind. Unit tests run
# alone, as some walk /proc; integration tests mostly wait, each with a daemon of its own, so three go at once,
# the longest first.
check: programs tests
	$(MAKE) check-unit
	$(MAKE) check-integration
	$(MAKE) check-scripts
check-unit: $(UNIT)
	scripts/run-tests -j 3 $(UNIT)
check-integration: programs $(ITESTS)
	scripts/run-tests -j 3 $(filter %/test_volume,$(ITESTS)) $(filter-out %/test_volume,$(ITESTS))
check-scripts: programs
	tests/scripts/run $(B)

# Speed and size, as ratios to limits measured in the same run.
bench: programs $(BENCH)
	B=$(B) scripts/bench

# Line coverage of src/ by all tests; build/cover is a tree of its own.
cover:
	$(MAKE) B=build/cover CFLAGS='-Og --coverage -fprofile-update=atomic' LDFLAGS=--coverage check-unit check-integration
	gcov -n -o build/cover $(SRC) 2>/dev/null | awk -F"[:' %]+" '/^File .src/ { f = $$2 } \
		/^Lines/ && f { printf "%6.2f%% of %5d  %s\n", $$3, $$5, f; f = "" }' | sort -n

format:
	clang-format -i $(shell git ls-files "*.[ch]")

# Files that name /usr/local or /etc/hcpd get the paths of this installation.
SUBST := sed -e 's,/usr/local,$(PREFIX),g' -e 's,/etc/hcpd,$(SYSCONFDIR)/hcpd,g'
MAN   := $(wildcard docs/*.[13578])
AGENTS := $(wildcard scripts/agents/*)
POLICIES := $(wildcard scripts/policies/*)
ETC   := $(wildcard etc/hcpd.ini etc/capabilities.d/*)
SYSUSERSDIR ?= $(PREFIX)/lib/sysusers.d
# File of completions/ and where its shell looks for it.
COMPLETIONS := hcpctl.bash:bash-completion/completions/hcpctl _hcpctl:zsh/site-functions/_hcpctl \
	hcpctl.fish:fish/vendor_completions.d/hcpctl.fish

install: programs libhcp
	install -d $(DESTDIR)$(PREFIX)/sbin $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/hcpd/agents $(DESTDIR)$(PREFIX)/lib/hcpd/policies
	install -m 755 $(B)/hcpd $(DESTDIR)$(PREFIX)/sbin/hcpd
	install -m 755 $(B)/hcpctl $(DESTDIR)$(PREFIX)/bin/hcpctl
	install -m 755 $(AGENTS) $(DESTDIR)$(PREFIX)/lib/hcpd/agents
	install -m 755 $(POLICIES) $(DESTDIR)$(PREFIX)/lib/hcpd/policies
	install -d $(DESTDIR)$(UNITDIR) $(DESTDIR)$(SYSUSERSDIR) $(DESTDIR)$(PREFIX)/share/doc/hcpd
	$(SUBST) systemd/hcpd.service | install -m 644 /dev/stdin $(DESTDIR)$(UNITDIR)/hcpd.service
	install -m 644 systemd/hcpd.sysusers $(DESTDIR)$(SYSUSERSDIR)/hcpd.conf
	install -m 644 systemd/hcpd-strict.conf $(DESTDIR)$(PREFIX)/share/doc/hcpd/hcpd-strict.conf
	install -d $(DESTDIR)$(PREFIX)/include/hcp $(DESTDIR)$(PREFIX)/lib/pkgconfig $(DESTDIR)$(PREFIX)/share/doc/hcpd/examples
	install -m 644 include/hcp/hcp.h $(DESTDIR)$(PREFIX)/include/hcp/hcp.h
	install -m 644 $(B)/libhcp.a $(DESTDIR)$(PREFIX)/lib/libhcp.a
	install -m 755 $(B)/libhcp.so.$(LIBHCP_ABI) $(DESTDIR)$(PREFIX)/lib/libhcp.so.$(LIBHCP_ABI)
	ln -sf libhcp.so.$(LIBHCP_ABI) $(DESTDIR)$(PREFIX)/lib/libhcp.so
	$(SUBST) $(B)/hcp.pc | install -m 644 /dev/stdin $(DESTDIR)$(PREFIX)/lib/pkgconfig/hcp.pc
	install -m 644 docs/examples/*.c $(DESTDIR)$(PREFIX)/share/doc/hcpd/examples
	for f in $(COMPLETIONS); do \
		to=$(DESTDIR)$(PREFIX)/share/$${f#*:}; \
		install -d $${to%/*} && install -m 644 completions/$${f%%:*} $$to || exit 1; \
	done
	@# An administrator's files are never overwritten.
	install -d $(DESTDIR)$(SYSCONFDIR)/hcpd/capabilities.d
	for f in $(ETC:etc/%=%); do \
		to=$(DESTDIR)$(SYSCONFDIR)/hcpd/$$f; \
		if [ -e $$to ]; then echo "kept: $$to"; else $(SUBST) etc/$$f | install -m 644 /dev/stdin $$to || exit 1; fi; \
	done
	for f in $(MAN); do \
		dir=$(DESTDIR)$(PREFIX)/share/man/man$${f##*.}; \
		install -d $$dir && $(SUBST) $$f | install -m 644 /dev/stdin $$dir/$${f##*/} || exit 1; \
	done

# Leaves $(SYSCONFDIR)/hcpd and the state directory: they are the administrator's.
uninstall:
	rm -f $(DESTDIR)$(PREFIX)/sbin/hcpd $(DESTDIR)$(PREFIX)/bin/hcpctl $(DESTDIR)$(PREFIX)/lib/pkgconfig/hcp.pc
	rm -f $(DESTDIR)$(PREFIX)/lib/libhcp.a $(DESTDIR)$(PREFIX)/lib/libhcp.so $(DESTDIR)$(PREFIX)/lib/libhcp.so.$(LIBHCP_ABI)
	rm -rf $(DESTDIR)$(PREFIX)/include/hcp
	rm -f $(DESTDIR)$(UNITDIR)/hcpd.service $(DESTDIR)$(SYSUSERSDIR)/hcpd.conf
	rm -rf $(DESTDIR)$(PREFIX)/lib/hcpd $(DESTDIR)$(PREFIX)/share/doc/hcpd
	rm -f $(foreach f,$(COMPLETIONS),$(DESTDIR)$(PREFIX)/share/$(lastword $(subst :, ,$(f))))
	rm -f $(foreach f,$(MAN),$(DESTDIR)$(PREFIX)/share/man/man$(subst .,,$(suffix $(f)))/$(notdir $(f)))

clean:
	rm -rf build

help:
	@echo 'all                build/hcpd, build/hcpctl and build/libhcp.{a,so} (SAN=address,undefined: in build/san; CC=clang: any time)'
	@echo 'check              all tests: check-unit, check-integration (a private RabbitMQ), check-scripts'
	@echo 'sweep disk         crashes at every named point, faults at every system call and every I/O (docs/reliability.md)'
	@echo 'simulate           N=10000 SEED=1: the core with a fake world, from seeds'
	@echo 'torture soak       SEED=1 SEEDS=1 MINUTES=1: a real world with real faults; long load'
	@echo 'fuzz               FUZZ_SECONDS=60 for each target'
	@echo 'bench              speed and size, as ratios to limits measured beside them'
	@echo 'cover              line coverage of the tests'
	@echo 'format             clang-format (a package of its own) over the tree'
	@echo 'install uninstall  PREFIX=$(PREFIX) SYSCONFDIR=$(SYSCONFDIR) DESTDIR=$(DESTDIR)'
	@echo 'clean              removes build/'

# Kinds of tests that need more than that bring their own rules.
include $(wildcard tests/*/rules.mk)

-include $(shell find $(B) -name "*.d" 2>/dev/null)
