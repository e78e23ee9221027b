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
PKGS    := librabbitmq jansson sqlite3 uuid libcrypto libsystemd
VERSION := $(shell cat VERSION)

# Ours apart from the user's: CFLAGS and LDFLAGS stay free for packagers.
OURS := -std=gnu11 -Iinclude -D_GNU_SOURCE -DHCPD_VERSION='"$(VERSION)"' -g \
	-Wall -Wextra -Wshadow -Wconversion -Wformat=2 -Wstrict-prototypes -Wmissing-prototypes \
	-Wpointer-arith -Wcast-qual -Wwrite-strings -Wundef -Wvla -Werror
OURS += $(shell pkg-config --cflags $(PKGS))
OURS += $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer)
HARD := -fstack-protector-strong $(if $(SAN),,-D_FORTIFY_SOURCE=2) -fPIE
LINK := $(if $(SAN),-fsanitize=$(SAN)) -pie -Wl,-z,relro,-z,now -Wl,--as-needed
LIBS := $(shell pkg-config --libs $(PKGS)) -lev -lpthread -lm

# Everything but the two main()s is one pool of objects; programs and tests link what they use of it.
SRC   := $(wildcard src/*.c)
OBJ   := $(patsubst src/%.c,$(B)/%.o,$(filter-out src/main.c src/hcpctl.c,$(SRC)))
UNIT  := $(patsubst tests/unit/%.c,$(B)/tests/%,$(wildcard tests/unit/test_*.c))
# Integration tests share a harness (tests/integration/harness*.c) and run against build's programs.
ITESTS := $(patsubst tests/integration/%.c,$(B)/tests/%,$(wildcard tests/integration/test_*.c))
IHARN := $(patsubst tests/integration/%.c,$(B)/tests/%.o,$(filter-out tests/integration/test_%.c,$(wildcard tests/integration/*.c)))
BENCH := $(patsubst tests/bench/%.c,$(B)/bench/%,$(wildcard tests/bench/*.c))

.PHONY: all check check-unit check-integration bench install clean format help tests programs
.DELETE_ON_ERROR:
.SECONDARY:

all: programs
programs: $(B)/hcpd $(B)/hcpctl
tests: $(UNIT) $(ITESTS)

$(B)/hcpd: $(B)/main.o $(OBJ)
	$(CC) $(LINK) $(LDFLAGS) -o $@ $^ $(LIBS)
$(B)/hcpctl: $(B)/hcpctl.o $(OBJ)
	$(CC) $(LINK) $(LDFLAGS) -o $@ $^ $(LIBS)

$(B)/%.o: src/%.c
	@mkdir -p $(@D)
	$(CC) $(OURS) $(HARD) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<
$(B)/tests/%.o: tests/unit/%.c
	@mkdir -p $(@D)
	$(CC) $(OURS) $(HARD) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<
$(B)/tests/%.o: tests/integration/%.c
	@mkdir -p $(@D)
	$(CC) $(OURS) -Itests/integration $(HARD) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<
$(B)/bench/%.o: tests/bench/%.c
	@mkdir -p $(@D)
	$(CC) $(OURS) $(HARD) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<
$(UNIT): $(B)/tests/%: $(B)/tests/%.o $(OBJ)
	$(CC) $(LINK) $(LDFLAGS) -o $@ $^ $(shell pkg-config --libs check) $(LIBS)
$(ITESTS): $(B)/tests/%: $(B)/tests/%.o $(IHARN) $(OBJ)
	$(CC) $(LINK) $(LDFLAGS) -o $@ $^ $(shell pkg-config --libs check) $(LIBS)
$(BENCH): $(B)/bench/%: $(B)/bench/%.o $(OBJ)
	$(CC) $(LINK) $(LDFLAGS) -o $@ $^ $(LIBS)

-include $(wildcard $(B)/*.d $(B)/tests/*.d $(B)/bench/*.d)
