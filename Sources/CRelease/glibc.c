/*
 * Holds the release library to the glibc that the wheel's tag promises.
 *
 * Swift's runtime calls hypotf, of which glibc 2.35 has a new version (it no longer sets errno). It is
 * the only symbol beyond 2.34, and RHEL 9 has 2.34: the linker sends the calls here (--wrap), and here
 * the old version is named.
 */
#ifdef FM_RELEASE

#ifdef __x86_64__
#define OLDEST "GLIBC_2.2.5"
#else
#define OLDEST "GLIBC_2.17"
#endif

float old_hypotf(float x, float y);
__asm__(".symver old_hypotf, hypotf@" OLDEST);

float __wrap_hypotf(float x, float y);
float __wrap_hypotf(float x, float y) { return old_hypotf(x, y); }

#endif
