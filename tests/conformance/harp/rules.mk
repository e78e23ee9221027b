# SPDX-License-Identifier: MIT
# HARP beside other implementations: a filter over ours, which tests/scripts/test_harp_vectors.sh holds against
# Python and openssl.
$(B)/harp/vector: $(call objects,tests/conformance/harp/vector.c) $(ALL)
	@mkdir -p $(@D)
	$(call say,LD)
	$(Q)$(link) $(LIBS)
check-scripts check-programs: $(B)/harp/vector
