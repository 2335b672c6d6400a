/* See zip_archive.h. Numbers of the format are little-endian; layouts are those of PKWARE's APPNOTE.TXT, sections 4.3 and 4.5.
 */
#include "train/files/zip_archive.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/bytes.h"
#include "base/status.h"
#include "train/files/file_read.h"

enum {
    END_BYTES = 22,      /* end of central directory, before its comment */
    MAX_COMMENT = 65535, /* of the archive */
    LOCATOR_BYTES = 20,  /* zip64: where its end record lies */
    END64_BYTES = 56,    /* zip64: the end record */
    CENTRAL_BYTES = 46,  /* a record's entry in the directory, before its name */
    LOCAL_BYTES = 30,    /* a record's header before its data, before its name */
    ZIP64_EXTRA = 1,     /* extra field with 64-bit sizes */
    MAX_DIRECTORY = 1 << 26,
    STORED = 0,
    DEFLATED = 8,
    MAX_INFLATION = 1032, /* deflate makes at most this many bytes of one */
    PIECE = 1 << 18,
};

static comet_status damaged(const zip_archive *zip, const char *what)
{
    return comet_fail(COMET_ERROR_CORRUPT, "%s: damaged zip archive: %s", zip->path, what);
}

static comet_status damaged_record(const zip_archive *zip, const char *name, const char *what)
{
    return comet_fail(COMET_ERROR_CORRUPT, "%s: damaged zip archive: record %.120s: %s", zip->path, name, what);
}

/* ---- the end of the archive says where the directory is ---- */

typedef struct directory_place {
    uint64_t offset, bytes, n_records, end; /* end: where the end records begin, which the directory cannot reach */
} directory_place;

/* The 64-bit numbers, where a locator says that there are any. */
static comet_status find_end64(const zip_archive *zip, uint64_t end, directory_place *place)
{
    unsigned char locator[LOCATOR_BYTES], record[END64_BYTES];
    if (end < LOCATOR_BYTES)
        return COMET_OK;
    TRY(file_read_at(zip->fd, zip->path, end - LOCATOR_BYTES, locator, sizeof locator));
    if (memcmp(locator, "PK\x06\x07", 4) != 0)
        return COMET_OK;
    const uint64_t at = load_u64(locator + 8);
    if (at > end - LOCATOR_BYTES || end - LOCATOR_BYTES - at < END64_BYTES)
        return damaged(zip, "its zip64 end record lies outside the file");
    TRY(file_read_at(zip->fd, zip->path, at, record, sizeof record));
    if (memcmp(record, "PK\x06\x06", 4) != 0)
        return damaged(zip, "it has no zip64 end record where its locator says");
    *place = (directory_place){
        .n_records = load_u64(record + 32), .bytes = load_u64(record + 40), .offset = load_u64(record + 48), .end = at};
    return COMET_OK;
}

static comet_status find_directory(const zip_archive *zip, directory_place *place)
{
    const size_t tail_bytes = (size_t)min_u64(zip->file_bytes, END_BYTES + MAX_COMMENT);
    unsigned char *tail = malloc(tail_bytes + 1);
    if (!tail)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory while opening %s", zip->path);
    comet_status status = file_read_at(zip->fd, zip->path, zip->file_bytes - tail_bytes, tail, tail_bytes);
    const unsigned char *end = NULL;
    for (size_t at = tail_bytes; status == COMET_OK && !end && at-- > 0;)
        if (tail_bytes - at >= END_BYTES && memcmp(tail + at, "PK\x05\x06", 4) == 0 &&
            load_u16(tail + at + 20) == tail_bytes - at - END_BYTES)
            end = tail + at;
    if (status == COMET_OK && !end)
        status = damaged(zip, "it is cut short, or more follows its end");
    if (status == COMET_OK) {
        const uint64_t end_offset = zip->file_bytes - tail_bytes + (uint64_t)(end - tail);
        *place = (directory_place){
            .n_records = load_u16(end + 10), .bytes = load_u32(end + 12), .offset = load_u32(end + 16), .end = end_offset};
        status = find_end64(zip, end_offset, place);
    }
    free(tail);
    if (status != COMET_OK)
        return status;
    if (place->offset > place->end || place->bytes > place->end - place->offset)
        return damaged(zip, "its directory lies outside the file");
    if (place->bytes > MAX_DIRECTORY || place->n_records > place->bytes / CENTRAL_BYTES)
        return damaged(zip, "its directory has an impossible size");
    return COMET_OK;
}

/* ---- the directory ---- */

/* Replaces numbers that do not fit 32 bits by those of the extra field, in its order; false where they are missing. */
static bool take_zip64(const unsigned char *extra, size_t bytes, zip_record *r)
{
    uint64_t *fields[3] = {&r->bytes, &r->packed_bytes, &r->header};
    size_t missing = 0;
    for (int i = 0; i < 3; i++)
        missing += *fields[i] == UINT32_MAX;
    while (missing > 0 && bytes >= 4) {
        const size_t length = load_u16(extra + 2);
        if (length > bytes - 4)
            return false;
        if (load_u16(extra) == ZIP64_EXTRA) {
            if (length < 8 * missing)
                return false;
            const unsigned char *at = extra + 4;
            for (int i = 0; i < 3; i++)
                if (*fields[i] == UINT32_MAX) {
                    *fields[i] = load_u64(at);
                    at += 8;
                }
            return true;
        }
        extra += 4 + length;
        bytes -= 4 + length;
    }
    return missing == 0;
}

static comet_status check_record(const zip_archive *zip, const zip_record *r, unsigned flags, unsigned method, uint64_t end)
{
    if (strlen(r->name) == 0)
        return damaged(zip, "a record has no name");
    if ((flags & 1) != 0)
        return damaged_record(zip, r->name, "it is encrypted");
    if (method != STORED && method != DEFLATED)
        return damaged_record(zip, r->name, "it is compressed in a way other than deflate");
    if (r->header > end || end - r->header < LOCAL_BYTES || r->packed_bytes > end - r->header - LOCAL_BYTES)
        return damaged_record(zip, r->name, "it lies outside the file");
    if (method == STORED ? r->bytes != r->packed_bytes : r->bytes / MAX_INFLATION > r->packed_bytes)
        return damaged_record(zip, r->name, "its size is impossible");
    return COMET_OK;
}

/* Takes the entry at *at. Its name moves into the place of the entry's numbers, where it can end with a zero. */
static comet_status take_entry(zip_archive *zip, const directory_place *place, size_t *at)
{
    unsigned char *entry = (unsigned char *)zip->directory + *at;
    const size_t left = (size_t)place->bytes - *at;
    if (left < CENTRAL_BYTES || memcmp(entry, "PK\x01\x02", 4) != 0)
        return damaged(zip, "its directory is broken");
    const unsigned flags = load_u16(entry + 8), method = load_u16(entry + 10);
    const size_t name_bytes = load_u16(entry + 28), extra_bytes = load_u16(entry + 30), comment_bytes = load_u16(entry + 32);
    if (name_bytes + extra_bytes + comment_bytes > left - CENTRAL_BYTES)
        return damaged(zip, "its directory is broken");
    zip_record *r = &zip->records[zip->n_records];
    *r = (zip_record){.name = (char *)entry,
                      .crc = load_u32(entry + 16),
                      .packed_bytes = load_u32(entry + 20),
                      .bytes = load_u32(entry + 24),
                      .header = load_u32(entry + 42),
                      .deflated = method == DEFLATED};
    const bool sizes_known = take_zip64(entry + CENTRAL_BYTES + name_bytes, extra_bytes, r);
    memmove(entry, entry + CENTRAL_BYTES, name_bytes);
    entry[name_bytes] = '\0';
    if (!sizes_known)
        return damaged_record(zip, r->name, "it has no 64-bit sizes");
    TRY(check_record(zip, r, flags, method, place->offset));
    *at += CENTRAL_BYTES + name_bytes + extra_bytes + comment_bytes;
    zip->n_records++;
    return COMET_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const zip_record *)a)->name, ((const zip_record *)b)->name);
}

static comet_status take_directory(zip_archive *zip, const directory_place *place)
{
    TRY(file_read_at(zip->fd, zip->path, place->offset, zip->directory, (size_t)place->bytes));
    size_t at = 0;
    while (zip->n_records < place->n_records)
        TRY(take_entry(zip, place, &at));
    qsort(zip->records, zip->n_records, sizeof *zip->records, by_name);
    for (size_t i = 1; i < zip->n_records; i++)
        if (by_name(&zip->records[i - 1], &zip->records[i]) == 0)
            return damaged_record(zip, zip->records[i].name, "there are two of this name");
    return COMET_OK;
}

comet_status zip_archive_open(zip_archive *zip, int fd, const char *path, uint64_t file_bytes)
{
    directory_place place = {0};
    *zip = (zip_archive){.fd = fd, .path = path, .file_bytes = file_bytes};
    TRY(find_directory(zip, &place));
    zip->directory = malloc((size_t)place.bytes + 1);
    zip->records = calloc((size_t)place.n_records + 1, sizeof *zip->records);
    comet_status status = zip->directory && zip->records
                              ? take_directory(zip, &place)
                              : comet_fail(COMET_ERROR_MEMORY, "out of memory while opening %s", path);
    if (status != COMET_OK)
        zip_archive_close(zip);
    return status;
}

void zip_archive_close(zip_archive *zip)
{
    free(zip->directory);
    free(zip->records);
    *zip = (zip_archive){.fd = -1};
}

const zip_record *zip_archive_find(const zip_archive *zip, const char *name)
{
    const zip_record key = {.name = name};
    if (zip->n_records == 0)
        return NULL;
    return bsearch(&key, zip->records, zip->n_records, sizeof *zip->records, by_name);
}

/* ---- data ---- */

/* Where a record's data begin: its local header has a name and an extra field of its own lengths. */
static comet_status find_data(const zip_archive *zip, const zip_record *r, uint64_t *at)
{
    unsigned char local[LOCAL_BYTES];
    TRY(file_read_at(zip->fd, zip->path, r->header, local, sizeof local));
    if (memcmp(local, "PK\x03\x04", 4) != 0)
        return damaged_record(zip, r->name, "its header is not where the directory says");
    *at = r->header + LOCAL_BYTES + load_u16(local + 26) + load_u16(local + 28);
    if (*at > zip->file_bytes || r->packed_bytes > zip->file_bytes - *at)
        return damaged_record(zip, r->name, "its data lie outside the file");
    return COMET_OK;
}

/* Gets a record's data piece by piece. */
typedef struct piece_sink {
    uint64_t first; /* the bytes that are kept */
    size_t bytes;
    unsigned char *to;
    bool check; /* read on to the end for size and CRC */
    uint64_t at;
    uLong crc;
} piece_sink;

static void take_piece(piece_sink *sink, const unsigned char *data, size_t bytes)
{
    const uint64_t begin = max_u64(sink->first, sink->at), end = min_u64(sink->first + sink->bytes, sink->at + bytes);
    if (begin < end)
        memcpy(sink->to + (begin - sink->first), data + (begin - sink->at), (size_t)(end - begin));
    if (sink->check)
        sink->crc = crc32(sink->crc, data, (uInt)bytes);
    sink->at += bytes;
}

/* Inflates `packed` further; what came out goes to the sink. */
static comet_status inflate_piece(const zip_archive *zip, const zip_record *r, z_stream *z, unsigned char *plain,
                                  piece_sink *sink, bool *ended)
{
    do {
        z->next_out = plain;
        z->avail_out = PIECE;
        const int result = inflate(z, Z_NO_FLUSH);
        const size_t made = PIECE - z->avail_out;
        if (result == Z_MEM_ERROR)
            return comet_fail(COMET_ERROR_MEMORY, "out of memory while reading %s", zip->path);
        if ((result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) || made > r->bytes - sink->at)
            return damaged_record(zip, r->name, "its data cannot be inflated");
        take_piece(sink, plain, made);
        *ended = result == Z_STREAM_END;
    } while (!*ended && z->avail_out == 0);
    return COMET_OK;
}

static comet_status read_deflated(const zip_archive *zip, const zip_record *r, uint64_t at, piece_sink *sink)
{
    z_stream z = {0};
    bool ended = false;
    unsigned char *pieces = malloc(2 * (size_t)PIECE);
    if (!pieces || inflateInit2(&z, -MAX_WBITS) != Z_OK) {
        free(pieces);
        return comet_fail(COMET_ERROR_MEMORY, "out of memory while reading %s", zip->path);
    }
    comet_status status = COMET_OK;
    for (uint64_t done = 0; done < r->packed_bytes && !ended && status == COMET_OK;) {
        const size_t here = (size_t)min_u64(r->packed_bytes - done, PIECE);
        status = file_read_at(zip->fd, zip->path, at + done, pieces, here);
        z.next_in = pieces;
        z.avail_in = (uInt)here;
        if (status == COMET_OK)
            status = inflate_piece(zip, r, &z, pieces + PIECE, sink, &ended);
        done += here;
        if (!sink->check && sink->at >= sink->first + sink->bytes)
            break;
    }
    inflateEnd(&z);
    free(pieces);
    if (status == COMET_OK && (sink->check ? !ended || sink->at < r->bytes : sink->at < sink->first + sink->bytes))
        status = damaged_record(zip, r->name, "its data end early");
    return status;
}

static comet_status read_stored(const zip_archive *zip, const zip_record *r, uint64_t at, piece_sink *sink)
{
    unsigned char *piece = malloc(PIECE);
    if (!piece)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory while reading %s", zip->path);
    comet_status status = COMET_OK;
    while (sink->at < r->bytes && status == COMET_OK) {
        const size_t here = (size_t)min_u64(r->bytes - sink->at, PIECE);
        status = file_read_at(zip->fd, zip->path, at + sink->at, piece, here);
        if (status == COMET_OK)
            take_piece(sink, piece, here);
    }
    free(piece);
    return status;
}

comet_status zip_archive_read(const zip_archive *zip, const zip_record *record, uint64_t first, void *to, size_t bytes)
{
    uint64_t at = 0;
    TRY(find_data(zip, record, &at));
    if (first > record->bytes || bytes > record->bytes - first)
        return damaged_record(zip, record->name, "it is shorter than what refers to it");
    if (!record->deflated)
        return file_read_at(zip->fd, zip->path, at + first, to, bytes);
    piece_sink sink = {.first = first, .bytes = bytes, .to = to};
    return read_deflated(zip, record, at, &sink);
}

comet_status zip_archive_verify(const zip_archive *zip, const zip_record *record)
{
    uint64_t at = 0;
    TRY(find_data(zip, record, &at));
    piece_sink sink = {.check = true, .crc = crc32(0, NULL, 0)};
    TRY(record->deflated ? read_deflated(zip, record, at, &sink) : read_stored(zip, record, at, &sink));
    if (record->crc != 0 && record->crc != (uint32_t)sink.crc)
        return comet_fail(COMET_ERROR_CORRUPT, "%s: damaged: the checksum of record %.120s is %08lx, not %08" PRIx32, zip->path,
                          record->name, sink.crc, record->crc);
    return COMET_OK;
}
