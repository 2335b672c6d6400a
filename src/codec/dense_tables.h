/* Level dense: frequency tables and escapes, which codes in lanes and codes in parts share. */
#ifndef COMET_CODEC_DENSE_TABLES_H
#define COMET_CODEC_DENSE_TABLES_H

#include "codec/kernels/kernels.h"

/* Frequencies that suit the counts, and what the coder needs of them. */
void dense_frequencies(const uint32_t counts[N_CONTEXTS * N_SYMBOLS], uint32_t frequency[N_CONTEXTS][N_SYMBOLS],
                       uint32_t entries[N_CONTEXTS * N_SYMBOLS]);

/* Writes the order of the escapes; for each context one bit that says whether it occurs, then 4 bits for its last symbol and
 * frequency + 1 of each symbol up to that. Returns the end. */
uint8_t *dense_write_tables(unsigned escape_order, uint32_t frequency[N_CONTEXTS][N_SYMBOLS], uint8_t *out);
bool dense_read_tables(const uint8_t *in, size_t bytes, symbol_tables *t, unsigned *escape_order);

/* Makes the other tables from t->start. */
void dense_fill_tables(symbol_tables *t);

/* Exp-Golomb numbers: v + 2^order, with a zero in front for every bit that this is longer than 2^order. */
void dense_write_escape(bit_writer *w, uint32_t escape, unsigned order);
uint64_t dense_escape_bits(const uint32_t *escapes, size_t n, unsigned order);

/* The best order near the mean length. */
unsigned dense_escape_order(const uint32_t *escapes, size_t n);

#endif
