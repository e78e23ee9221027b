# SPDX-License-Identifier: MIT
# libhcp: the library, static and shared. The rooms that it may use are compiled once more, position-independent and
# hidden; only hcp_* is to be seen from outside, of the static one too.
LIBHCP       := $(B)/libhcp
LIBHCP_ABI   := 0
LIBHCP_PKGS  := librabbitmq jansson sqlite3 uuid libcrypto
LIBHCP_OWN   := $(patsubst %.c,$(LIBHCP)/obj/%.o,$(filter src/libhcp/%,$(SRC)))
LIBHCP_USES  := $(foreach r,$(call above,$(call allowed,libhcp)),$(LIBHCP)/lib/$(r).a)
LIBHCP_LIBS  := $(shell pkg-config --libs $(LIBHCP_PKGS)) -lpthread
LIBHCP_FLAGS  = $(OURS) $(filter-out -fPIE,$(HARD)) -fPIC -fvisibility=hidden -ffunction-sections -fdata-sections \
	$(CPPFLAGS) $(CFLAGS)

.PHONY: libhcp
libhcp: $(B)/libhcp.a $(B)/libhcp.so $(B)/hcp.pc
all: libhcp

$(LIBHCP)/obj/%.o: %.c $(B)/.flags
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(LIBHCP_FLAGS) -MMD -MP -c -o $@ $<
$(foreach r,$(call allowed,libhcp),$(eval $(LIBHCP)/lib/$(r).a: $(patsubst %.c,$(LIBHCP)/obj/%.o,$(filter src/$(r)/%,$(SRC)))))
$(LIBHCP)/lib/%.a:
	@mkdir -p $(@D)
	$(call say,AR)
	$(Q)rm -f $@ && ar rcsT $@ $^

$(B)/libhcp.so.$(LIBHCP_ABI): $(LIBHCP_OWN) $(LIBHCP_USES)
	$(call say,LD)
	$(Q)$(CC) $(filter-out -pie,$(LINK)) $(LDFLAGS) -shared -Wl,-soname,libhcp.so.$(LIBHCP_ABI) -Wl,--gc-sections \
		$(if $(SAN),,-Wl,-z,defs) -o $@ $^ $(LIBHCP_LIBS)
$(B)/libhcp.so: $(B)/libhcp.so.$(LIBHCP_ABI)
	$(Q)ln -sf $(<F) $@
# One object, in which what is hidden has become local: an application may have a clock_format of its own.
$(B)/libhcp.a: $(LIBHCP_OWN) $(LIBHCP_USES)
	$(call say,AR)
	$(Q)ld -r --gc-sections --gc-keep-exported -e hcp_open -o $(LIBHCP)/libhcp.o $^ && objcopy --localize-hidden $(LIBHCP)/libhcp.o
	$(Q)rm -f $@ && ar rcs $@ $(LIBHCP)/libhcp.o
# `make install` puts the paths in: /usr/local stands for PREFIX here as everywhere.
$(B)/hcp.pc: src/libhcp/rules.mk VERSION
	@mkdir -p $(@D)
	$(Q)printf '%s\n' 'prefix=/usr/local' 'includedir=$${prefix}/include' 'libdir=$${prefix}/lib' '' 'Name: hcp' \
		"Description: the caller's half of the Harness Communication Protocol" 'Version: $(VERSION)' \
		'Requires.private: $(LIBHCP_PKGS)' 'Cflags: -I$${includedir}' 'Libs: -L$${libdir} -lhcp' \
		'Libs.private: -lpthread' >$@

-include $(shell find $(LIBHCP)/obj -name '*.d' 2>/dev/null)
