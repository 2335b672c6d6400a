/* Version of the Comet libraries, as compiled and as linked. */
#ifndef COMET_VERSION_H
#define COMET_VERSION_H

#define COMET_VERSION_MAJOR 0
#define COMET_VERSION_MINOR 1
#define COMET_VERSION_PATCH 0
#define COMET_VERSION_STRING "0.1.0"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32) || !defined(__GNUC__)
#define COMET_API
#else
#define COMET_API __attribute__((visibility("default")))
#endif

/* The version of the library that is linked, as "major.minor.patch". Any thread. */
COMET_API const char *comet_version(void);

#ifdef __cplusplus
}
#endif

#endif
