/* Files for the tests of data sets: a folder of one's own for each test, and what is put in it. Failures fail the test. */
#ifndef COMET_TESTS_DATA_FILES_H
#define COMET_TESTS_DATA_FILES_H

#include "testing.h"

#include "comet/data.h"

/* cmocka's setup and teardown: *state is the path of an empty folder, removed with all that is in it. */
int temp_folder_make(void **state);
int temp_folder_remove(void **state);
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, temp_folder_make, temp_folder_remove)

/* "FOLDER/NAME" and the like, printed into one of a few buffers that are used in turn. */
const char *text_of(const char *format, ...) __attribute__((format(printf, 1, 2)));

void make_folder(const char *path);

/* A pipe in the place of a file. Who opens it and waits is ended by SIGALRM after a while, until stop_waiting is called. */
void make_pipe(const char *folder, const char *name);
void stop_waiting(void);

/* Writes a file packed by gzip. */
void write_gz(const char *folder, const char *name, const void *data, size_t bytes);

/* Big-endian header (the magic, then n_dims numbers) and data of an IDX file, into a buffer that is to be freed. */
blob idx_bytes(uint32_t magic, uint32_t n_dims, const uint32_t *dims, const void *data, size_t bytes);

void write_npy(const char *folder, const char *name, const char *descr, uint32_t n_dims, const uint64_t *dims, const void *data,
               size_t bytes);

/* A picture whose pixels come from a function. */
typedef struct drawing {
    uint32_t width, height;
    void (*pixel)(uint32_t x, uint32_t y, uint8_t rgb[3]);
} drawing;

typedef enum jpeg_kind { JPEG_COLOUR, JPEG_GREY, JPEG_CMYK, JPEG_PROGRESSIVE } jpeg_kind;
blob jpeg_bytes(const drawing *d, jpeg_kind kind, int quality);

/* Grey, of so many scans, 2 at least; those from the third on repeat the second. */
blob jpeg_bytes_of_scans(const drawing *d, int n_scans);

typedef enum png_kind {
    PNG_RGB,
    PNG_RGB16,
    PNG_RGBA,
    PNG_GREY,
    PNG_GREY_1BIT,
    PNG_GREY_ALPHA16,
    PNG_PALETTE,
    PNG_INTERLACED,
    PNG_TEXTS /* RGB, with 16 packed texts of 7 MB each */
} png_kind;
blob png_bytes(const drawing *d, png_kind kind);

void write_blob(const char *folder, const char *name, blob b); /* and frees it */

/* Opens or fails the test. */
comet_dataset *open_data(const char *spec, comet_split split);

/* One image as the loader would read it, to be freed; label may be NULL. Fails the test where the image is broken. */
float *read_image(const comet_dataset *d, uint64_t index, uint32_t *label);

/* Opening fails with this status, and the sentence has all of the words. */
void assert_refused(const char *spec, comet_split split, comet_status expected, const char *const words[]);
#define REFUSED(spec, split, status, ...) assert_refused((spec), (split), (status), (const char *const[]){__VA_ARGS__, NULL})

#endif
