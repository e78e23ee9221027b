# SPDX-License-Identifier: MIT
# The tests of libhcp, and the examples that show it.
LIBHCP_TESTS := $(patsubst tests/libhcp/%.c,$(LIBHCP)/%,$(wildcard tests/libhcp/test_*.c))
LIBHCP_KIT   := $(call objects,$(filter-out tests/libhcp/test_%.c,$(wildcard tests/libhcp/*.c)))
LIBHCP_EXAMPLES := $(patsubst examples/callers/%.c,$(LIBHCP)/example_%,$(wildcard examples/callers/*.c))

.PHONY: check-libhcp
# Examples see what an application sees: the public header, and the shared library.
$(LIBHCP)/example_%: examples/callers/%.c $(B)/libhcp.so include/hcp/hcp.h $(B)/.flags
	@mkdir -p $(@D)
	$(call say,LD)
	$(Q)mkdir -p $(LIBHCP)/include && ln -sfn $(CURDIR)/include/hcp $(LIBHCP)/include/hcp
	$(Q)$(CC) -std=c11 -Wall -Wextra -Wshadow -Wconversion -Werror -I$(LIBHCP)/include $(if $(SAN),-fsanitize=$(SAN)) \
		$(CPPFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $< -L$(B) -lhcp -Wl,-rpath,$(abspath $(B)) -lsqlite3 -lev

$(LIBHCP_TESTS): $(LIBHCP)/%: $(B)/obj/tests/libhcp/%.o $(LIBHCP_KIT) $(SUPPORT) $(B)/libhcp.a
	$(call say,LD)
	$(Q)$(link) $(CHECK_LIBS) $(LIBHCP_LIBS) $(LIBS)
# These look inside: the library's own reader beside jansson, and its groups without a broker.
$(LIBHCP)/test_message: $(LIBHCP)/obj/src/libhcp/message.o $(ALL)
$(LIBHCP)/test_group: $(LIBHCP)/obj/src/libhcp/group.o

check-programs: libhcp $(LIBHCP_EXAMPLES) $(LIBHCP_TESTS)
check-libhcp: programs libhcp $(LIBHCP_EXAMPLES) $(LIBHCP_TESTS)
	scripts/run-tests $(LIBHCP_TESTS)

$(B)/bench/consume: $(B)/libhcp.a
