/*
 * Zip archives, read: the central directory as a table, records stored or deflated, with the zip64 extension.
 *
 * Nothing in an archive is trusted. Offsets and sizes are checked against the file; a deflated record may claim no more than
 * deflate can make of its bytes. Memory is that of the directory (at most 64 MiB) and its table. Encrypted records, archives in
 * several parts and other methods are refused with COMET_ERROR_CORRUPT and a sentence that names the record.
 */
#ifndef COMET_TRAIN_FILES_ZIP_ARCHIVE_H
#define COMET_TRAIN_FILES_ZIP_ARCHIVE_H

#include <stdbool.h>

#include "comet/base.h"

typedef struct zip_record {
    const char *name;
    uint64_t bytes, packed_bytes; /* of the data, and as it lies in the file */
    uint64_t header;              /* where its local header lies */
    uint32_t crc;
    bool deflated;
} zip_record;

typedef struct zip_archive {
    int fd;
    const char *path;
    uint64_t file_bytes;
    char *directory;     /* names lie there */
    zip_record *records; /* by name, no name twice */
    size_t n_records;
} zip_archive;

/* Reads the directory of an open file; `path` must outlive the archive. On failure nothing is to be freed. */
comet_status zip_archive_open(zip_archive *zip, int fd, const char *path, uint64_t file_bytes);
void zip_archive_close(zip_archive *zip); /* not the file */

/* NULL where there is none of this name. */
const zip_record *zip_archive_find(const zip_archive *zip, const char *name);

/* Bytes first to first + bytes of a record's data, which must lie in it. A deflated one is inflated from its beginning. */
comet_status zip_archive_read(const zip_archive *zip, const zip_record *record, uint64_t first, void *to, size_t bytes);

/* Reads all of a record and compares size and CRC-32. A record whose CRC is recorded as 0 was written without one. */
comet_status zip_archive_verify(const zip_archive *zip, const zip_record *record);

#endif
