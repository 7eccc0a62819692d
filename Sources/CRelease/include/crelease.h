/* What only the release library has; nothing to call. See openssl.c and glibc.c. */
