# comet info.
# shellcheck shell=bash

tensor_files
frame_file

run 0 info npy.comet --json
is_json
n_lines 1
for key in file version dims dtype layout eb lossless level keep_support dither dither_seed content_checksum n_elements \
    tensor_bytes frame_bytes ratio chunk_elements n_chunks header_bytes; do
    out_has "\"$key\":"
done
out_has '"dims":\[2,6,33,31\],"dtype":"f32","layout":"nchw"'
