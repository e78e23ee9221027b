# SPDX-License-Identifier: MIT
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
OURS := -std=gnu11 -Isrc -Iinclude -Itests -D_GNU_SOURCE -DHCPD_VERSION='"$(VERSION)"' -g \
	-Wall -Wextra -Wshadow -Wconversion -Wformat=2 -Wstrict-prototypes -Wmissing-prototypes \
	-Wpointer-arith -Wcast-qual -Wwrite-strings -Wundef -Wvla -Werror
OURS += $(shell pkg-config --cflags $(PKGS))
OURS += $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer)
HARD := -fstack-protector-strong $(if $(SAN),,-D_FORTIFY_SOURCE=2) -fPIE
LINK := $(if $(SAN),-fsanitize=$(SAN)) -pie -Wl,-z,relro,-z,now -Wl,--as-needed
LIBS := $(shell pkg-config --libs $(PKGS)) -lev -lpthread -lm

# One archive a room (src/LAYERS). A program is linked with the rooms that it may use, so that the linker proves it.
# Tests link all rooms; a test that defines all of a header's functions itself has replaced that module.
ROOMS   := $(shell sed -n 's/^\([a-z]*\)[: ]*.*/\1/p' src/LAYERS)
above    = $(if $(1),$(call above,$(wordlist 2,$(words $(1)),$(1))) $(firstword $(1)))
SRC     := $(shell find src -name '*.c' | sort)
MAINS   := src/hcpd/main.c src/hcpctl/main.c
# Archives of these rooms, the upper ones first: nothing in a lower room can need an upper one.
archives = $(patsubst %,$(B)/lib/%.a,$(call above,$(filter $(1),$(ROOMS))))
# What src/LAYERS allows a room that names its rooms.
allowed  = $(shell sed -n 's/^$(1): *//p' src/LAYERS)
DAEMON  := $(call archives,$(filter-out libhcp hcpctl,$(ROOMS)))
ALL     := $(call archives,$(filter-out libhcp,$(ROOMS)))
# `make V=1` shows the commands.
Q     := $(if $(V),,@)
say    = $(if $(V),,@echo '  $(1)	$(patsubst $(B)/%,%,$@)')
# Unit tests stand in the room that they are about; their names are unique, so the programs lie side by side.
UNIT_SRC := $(shell find tests/unit -name 'test_*.c' | sort)
UNIT  := $(patsubst %.c,$(B)/unit/%,$(notdir $(UNIT_SRC)))
# Integration tests run against build's programs, with what tests/support has for them.
ITESTS := $(patsubst tests/integration/%.c,$(B)/integration/%,$(wildcard tests/integration/test_*.c))
SUPPORT := $(B)/lib/support.a
# A fake defines the functions of a module, so its archive is linked before all others, and only by programs that include
# one of its headers.
FAKES := $(B)/lib/fakes.a
FAKED := $(patsubst %.c,$(B)/unit/%,$(notdir $(shell grep -l '"support/fakes/' $(UNIT_SRC))))
BENCH := $(patsubst tests/bench/%.c,$(B)/bench/%,$(filter-out %/amqp_side.c,$(wildcard tests/bench/*.c)))
CHECK_LIBS := $(shell pkg-config --libs check)

.PHONY: all check check-unit check-integration check-scripts bench cover format install uninstall clean help \
	tests programs check-programs FORCE
.DELETE_ON_ERROR:
.SECONDARY:

all: programs
programs: $(B)/hcpd $(B)/hcpctl
tests: $(UNIT) $(ITESTS)
# Everything that scripts/check runs in this tree: made in one go, as two that make in one tree would disturb each other.
check-programs: programs tests

# One rule for every object.
$(B)/obj/%.o: %.c $(B)/.flags
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(OURS) $(HARD) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<
objects = $(patsubst %.c,$(B)/obj/%.o,$(1))

define room_rules
$(B)/lib/$(1).a: $(call objects,$(filter-out $(MAINS),$(filter src/$(1)/%,$(SRC))))
endef
$(foreach r,$(ROOMS),$(eval $(call room_rules,$(r))))
$(SUPPORT): $(call objects,$(wildcard tests/support/*.c))
$(FAKES): $(call objects,$(wildcard tests/support/fakes/*.c))
$(B)/lib/%.a:
	@mkdir -p $(@D)
	$(call say,AR)
	$(Q)rm -f $@ && ar rcsT $@ $^

# Objects first: make lists the prerequisites of the rule that has the recipe before the others.
link = $(CC) $(LINK) $(LDFLAGS) -o $@ $(filter %.o,$^) $(filter $(FAKES),$^) $(filter-out $(FAKES),$(filter %.a,$^))
$(B)/hcpd: $(call objects,src/hcpd/main.c) $(DAEMON)
	$(call say,LD)
	$(Q)$(link) $(LIBS)
$(B)/hcpctl: $(call objects,src/hcpctl/main.c) $(call archives,hcpctl $(call allowed,hcpctl))
	$(call say,LD)
	$(Q)$(link) $(LIBS)

$(foreach t,$(UNIT_SRC),$(eval $(B)/unit/$(basename $(notdir $(t))): $(call objects,$(t))))
$(FAKED): $(FAKES)
$(UNIT): $(SUPPORT) $(ALL)
	@mkdir -p $(@D)
	$(call say,LD)
	$(Q)$(link) $(CHECK_LIBS) $(LIBS)
$(ITESTS): $(B)/integration/%: $(B)/obj/tests/integration/%.o $(SUPPORT) $(ALL)
	@mkdir -p $(@D)
	$(call say,LD)
	$(Q)$(link) $(CHECK_LIBS) $(LIBS)
# Preloaded into a daemon: no sanitizer in it.
$(B)/integration/slow_names.so: tests/integration/slow_names.c $(B)/.flags
	@mkdir -p $(@D)
	$(call say,LD)
	$(Q)$(CC) $(PLAIN) -fPIC -shared -o $@ $< -ldl
$(B)/integration/test_start: | $(B)/integration/slow_names.so
$(BENCH): $(B)/bench/%: $(B)/obj/tests/bench/%.o $(B)/obj/tests/bench/amqp_side.o $(ALL)
	@mkdir -p $(@D)
	$(call say,LD)
	$(Q)$(link) $(LIBS)

# Another compiler or other flags make everything anew: no object is shared between kinds of build.
FLAGS := $(CC) $(OURS) $(HARD) $(CPPFLAGS) $(CFLAGS) $(LINK) $(LDFLAGS)
$(B)/.flags: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' '$(subst ','\'',$(FLAGS))' | cmp -s - $@ || printf '%s\n' '$(subst ','\'',$(FLAGS))' >$@

# Tests. The runner starts private brokers where the programs ask for one, and leaves nothing behind. Most tests wait, so
# several go at once, the longest first.
LONGEST := retain_status retain bus_outages client worker_read proctree_end core_recovery retention control hcpctl_watch links \
	broker_death hcpctl_operator stopping approval aborts
longest_first = $(foreach t,$(LONGEST),$(filter %/test_$t,$1)) $(filter-out $(addprefix %/test_,$(LONGEST)),$1)
check: programs tests
	$(MAKE) check-unit
	$(MAKE) check-integration
	$(MAKE) check-scripts
check-unit: $(UNIT)
	scripts/run-tests -j 4 $(call longest_first,$(UNIT))
check-integration: programs $(ITESTS)
	scripts/run-tests -j 4 $(call longest_first,$(ITESTS))
check-scripts: programs
	tests/scripts/run $(B)

# Speed and size, as ratios to limits measured in the same run.
bench: programs $(BENCH)
	B=$(B) scripts/bench

# Line coverage of src/ by all tests; build/cover is a tree of its own.
cover:
	$(MAKE) B=build/cover CFLAGS='-Og --coverage -fprofile-update=atomic' LDFLAGS=--coverage check-unit check-integration
	for f in $(SRC); do gcov -n -o build/cover/obj/$${f%.c}.o $$f; done 2>/dev/null | awk -F"[:' %]+" '/^File .src/ { f = $$2 } \
		/^Lines/ && f { printf "%6.2f%% of %5d  %s\n", $$3, $$5, f; f = "" }' | sort -n

format:
	clang-format -i $(shell git ls-files "*.[ch]")

# Files that name /usr/local or /etc/hcpd get the paths of this installation.
SUBST := sed -e 's,/usr/local,$(PREFIX),g' -e 's,/etc/hcpd,$(SYSCONFDIR)/hcpd,g'
MAN   := $(wildcard docs/*.[13578])
AGENTS := $(wildcard examples/agents/*)
POLICIES := $(wildcard examples/policies/*)
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
	install -m 644 examples/callers/*.c $(DESTDIR)$(PREFIX)/share/doc/hcpd/examples
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
include src/libhcp/rules.mk $(wildcard tests/*/rules.mk tests/*/*/rules.mk)

-include $(shell find $(B)/obj -name '*.d' 2>/dev/null)
