# HARP beside other implementations: a filter over ours, which tests/scripts/test_harp_vectors.sh holds against
# Python and openssl.
$(B)/harp/%.o: tests/harp/%.c $(B)/.flags
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(OURS) -Isrc $(HARD) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<
$(B)/harp/vector: $(B)/harp/vector.o $(CORE)
	$(call say,LD)
	$(Q)$(CC) $(LINK) $(LDFLAGS) -o $@ $^ $(LIBS)
check-scripts: $(B)/harp/vector
