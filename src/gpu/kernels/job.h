/* What the host hands to every kernel, and where results and intermediate values lie. Members go from large to small, so that
 * no compiler puts room between them. */
#ifndef COMET_GPU_JOB_H
#define COMET_GPU_JOB_H

#define GROUP 256       /* threads of a group */
#define MAX_CHUNK 8192  /* elements at level fast: 32 a thread */
#define PARTS_A_GROUP 8 /* at level dense, at a time */
#define MAX_PART 12544  /* elements at level dense */
#define BLOCK_ELEMENTS 64
#define HALF 32 /* elements of a thread: half a block */
#define HEADER_WORDS 34

/* Element types, quantiser modes, predictors, chunk modes and flags, as the format numbers them. */
#define TYPE_F32 0
#define TYPE_F16 1
#define TYPE_BF16 2
#define MODE_PLAIN 0
#define MODE_SUPPORT 1
#define MODE_NONZERO 2
#define MODE_DITHER 3
#define PREDICTOR_NONE 0
#define PREDICTOR_LEFT 1
#define PREDICTOR_UP 2
#define PREDICTOR_LORENZO 3
#define PREDICTOR_MEDIAN 4
#define PREDICTOR_LINEAR 5
#define PREDICTOR_WAVE 6
#define PAYLOAD_RAW 0
#define PAYLOAD_FAST 1
#define PAYLOAD_PARTS 3
#define PAYLOAD_IDENTITY 1
#define PAYLOAD_NONZERO 2
#define RAW_HEADER 4
#define CODED_HEADER 12
#define LARGEST_CODE16 8191
#define LARGEST_CODE32 (1 << 28)

/* Statuses, the numbers of comet_status. */
#define STATUS_OK 0
#define STATUS_CAPACITY 4
#define STATUS_CORRUPT 5
#define STATUS_UNSUPPORTED 6
#define NO_CHUNK 0xffffffffu

typedef struct gpu_job {
    u64 x_offset, frame_offset, work_offset, result_offset, arena_offset; /* bytes from the start of each buffer */
    u64 n_elements, n_chunks;
    u64 capacity;   /* bytes of the frame's room, or of the frame where it is read */
    u64 slot_bytes; /* distance of the chunks' slots in the workspace, a multiple of 16 */
    u64 seed;
    u32 chunk_elements;
    u32 type, element_bytes; /* of the elements */
    u32 mode, lossless;
    u32 channels, columns, line;
    u32 header_bytes;
    u32 pass;      /* of encoding: 0 all chunks, 1 those that a kernel before has left a note for */
    u32 use_arena; /* the frame goes to the arena's end, else to frame_offset */
    float step, half_step, inverse, bound;
    float limit;              /* the largest magnitude that 16-bit codes are meant for */
    u32 header[HEADER_WORDS]; /* of the frame, without its length and checksum */
    u32 lines;                /* at level dense: of a plane */
    u32 groups;               /* at level dense: groups a chunk; 0 at level fast */
    u32 part_elements, parts; /* at level dense, of frames that are made: elements of a part, the most parts of a chunk */
} gpu_job;

/* In the first bytes of the workspace, for the kernels that follow. */
typedef struct gpu_state {
    u64 frame_at; /* bytes from the start of the frame's buffer */
    u32 go, unused;
} gpu_state;

/* comet_gpu_result of comet/gpu.h. */
typedef struct gpu_result {
    u32 status, chunk;
    u64 bytes, offset, n_outliers, n_raw, unused;
} gpu_result;

/* comet_gpu_summary of comet/gpu.h; also what each group leaves for the last sum. */
typedef struct gpu_summary {
    double sum_of_squares, min, max;
    u64 n_nonzero, n_nonfinite, unused;
} gpu_summary;

/* At the start of an arena. */
typedef struct gpu_arena {
    u64 used, capacity;
} gpu_arena;

/* ---- level dense, encoded: what kernels leave for those after them ---- */

#define CONTEXTS 16
#define SYMBOLS 16
#define COUNTERS (CONTEXTS * SYMBOLS) /* context x 16 + symbol */
#define PART_LANES 32                 /* threads of a part */
#define CHOICES 6                     /* predictors that are compared, one of them in two ways */
#define SAMPLED 5                     /* one part in so many is looked at to choose */
#define ESCAPE_LENGTHS 33             /* escapes have 0 to 32 bits */
#define TABLE_BYTES 704               /* more than any tables take: 5 bits and 5 + 16 x 21 for each context */

/* A group's elements, quantised: how many fail, by attempt; is one out of range; the mode of the first attempt. */
typedef struct dense_tally {
    u32 failed16[2], failed32[2], out_of_range, mode, unused[2];
} dense_tally;

/* A sampled part: symbols and bits of escapes by choice. */
typedef struct dense_sample {
    u32 counts[CHOICES * COUNTERS], escape_bits[CHOICES], negative, unused;
} dense_sample;

/* A group's symbols; its escapes by length, and by the least order with which they get one bit more. */
typedef struct dense_counts {
    u32 counts[COUNTERS], lengths[ESCAPE_LENGTHS], carries[ESCAPE_LENGTHS], unused[2];
} dense_counts;

/* A chunk: how it is coded; raw bits << 28 | start << 16 | frequency by context and symbol; the bytes of its tables. */
typedef struct dense_tables {
    u32 predictor, identity, escape_order, bytes, entries[COUNTERS], words[TABLE_BYTES / 4];
} dense_tables;

/* A part: its bytes, and the states that decoding begins with. */
typedef struct dense_part {
    u32 bytes, unused[3], state[PART_LANES];
} dense_part;

/*
 * A chunk's slot at level dense: its tables, tallies and counts by group, samples, parts; bits of failed elements for codes of
 * 16 and of 32 bits; and two areas with 4 bytes an element. Codes of 16 bits are in the first, those of 32 in the second; the
 * other one gets the symbols, which later become the bits that they take in the frame.
 */
#define SAMPLES(job) (((job).parts + SAMPLED - 1) / SAMPLED)
#define SLOT_ELEMENTS(job)                                                                                        \
    ((((job).n_elements < (job).chunk_elements ? (job).n_elements : (job).chunk_elements) + BLOCK_ELEMENTS - 1) / \
     BLOCK_ELEMENTS * BLOCK_ELEMENTS)
#define SLOT_TALLIES_AT(job) ((u64)sizeof(dense_tables))
#define SLOT_COUNTS_AT(job) (SLOT_TALLIES_AT(job) + (job).groups * sizeof(dense_tally))
#define SLOT_SAMPLES_AT(job) (SLOT_COUNTS_AT(job) + (job).groups * sizeof(dense_counts))
#define SLOT_PARTS_AT(job) (SLOT_SAMPLES_AT(job) + SAMPLES(job) * sizeof(dense_sample))
#define SLOT_FAILED_AT(job) (SLOT_PARTS_AT(job) + (job).parts * sizeof(dense_part))
#define SLOT_AREAS_AT(job) (SLOT_FAILED_AT(job) + SLOT_ELEMENTS(job) / 4)
#define DENSE_SLOT_BYTES(job) (SLOT_AREAS_AT(job) + 8 * SLOT_ELEMENTS(job))

/*
 * The workspace: the state; then for encoding, by chunk, its bytes (u32), its note (u32), where it begins (u64) and
 * a slot; for decoding where it begins (u64, one more than there are chunks) and, at level dense, the codes, 4 bytes each; for
 * figures a gpu_summary for each chunk.
 */
#define STATE_BYTES 64
#define NOTE_DONE 0u
#define NOTE_WIDE 1u      /* wide codes are to be tried */
#define NOTE_NARROW 2u    /* 16-bit codes it is, whatever fails */
#define NOTE_MODE 4u      /* times the quantiser mode */
#define NOTE_OUTLIERS 16u /* times their number, once it is done */

#define ENCODE_BYTES_AT(job) (STATE_BYTES)
#define ENCODE_NOTES_AT(job) (STATE_BYTES + 4 * (job).n_chunks)
#define ENCODE_STARTS_AT(job) (STATE_BYTES + 8 * (job).n_chunks)
#define ENCODE_SLOTS_AT(job) ((STATE_BYTES + 16 * (job).n_chunks + 15) / 16 * 16)
#define DECODE_STARTS_AT(job) (STATE_BYTES)
#define DECODE_CODES_AT(job) ((STATE_BYTES + 8 * ((job).n_chunks + 1) + 15) / 16 * 16)
#define SUMMARIES_AT(job) (STATE_BYTES)

#endif
