# SPDX-License-Identifier: MIT
# JSON Schema 2020-12: the official test suite, as Debian's libtest-json-schema-acceptance-perl brings it (the package
# json-schema-test-suite of Debian 12 ends with draft 7). Nothing of it is copied, and nothing is fetched.
SCHEMA_SUITE ?= $(shell dpkg -L libtest-json-schema-acceptance-perl 2>/dev/null | sed -n 's,/tests/draft2020-12$$,,p')

.PHONY: check-schema
tests: $(B)/schema/suite
$(B)/schema/suite: $(call objects,tests/conformance/schema/suite.c) $(ALL)
	@mkdir -p $(@D)
	$(call say,LD)
	$(Q)$(link) $(LIBS)

check-schema: $(B)/schema/suite
	@test -n "$(SCHEMA_SUITE)" || { echo 'check-schema: the test suite is not installed: scripts/deps'; exit 1; }
	$(Q)$(B)/schema/suite $(SCHEMA_SUITE)
