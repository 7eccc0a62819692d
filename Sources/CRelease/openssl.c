/*
 * Sets up the copy of OpenSSL that the release library carries, as it is loaded.
 *
 * That copy must neither read the host's openssl.cnf, which is written for another version and may
 * name engines that are not there, nor clean up at exit, when transfers of the I/O thread may still
 * be under way. Both are decided by the first call into OpenSSL, whichever room it comes from, hence
 * here. A build that links the host's OpenSSL leaves these decisions to the host.
 */
#ifdef FM_RELEASE

#include <openssl/crypto.h>

__attribute__((constructor)) static void setup(void) {
  OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, NULL);
}

#endif
