# Control characters in names of files and options are shown, not obeyed.
# shellcheck shell=bash

tensor_files
frame_file

# ESC, newline, DEL, C1 controls as UTF-8 (the first, one between, the last) and a byte that is not UTF-8 are shown; other UTF-8, from
# U+00A0 on, is left alone.
odd=$(printf 'o\033[2J\ndd\177\302\200\302\233\302\237\351 \302\240\303\251\342\202\254.comet')
shown='o\\x1b\[2J\\x0add\\x7f\\xc2\\x80\\xc2\\x9b\\xc2\\x9f\\xe9 '$(printf '\302\240\303\251\342\202\254')'\.comet'
cp npy.comet "$odd"
cp bn.npy "$odd.npy"
clean() { if LC_ALL=C grep -q "$(printf '[\001-\010\013-\037\177]\|\302[\200-\237]')" .out .err; then fault "control characters are printed"; else pass; fi; }
run 0 info "$odd"
out_has "^file          $shown\$"
clean
run 0 info "$odd" --json
is_json
out_has 'o\\u001b\[2J\\ndd'
run 3 info "$odd.none"
err_has "^comet info: $shown\.none: No such file"
clean
run 0 compress "$odd.npy" -e 0.1 -o "$odd" -f
err_has "^comet compress: $shown\.npy -> $shown: "
clean
run 2 "$odd"
err_has "^comet: unknown verb '$shown'"
clean
run 2 info npy.comet "--$odd"
err_has "unknown option '--$shown'"
clean
# shellcheck disable=SC2086
run 0 bench codec "$odd.npy" --seconds 0 --repeat 1
out_has "^$shown\.npy "
clean
shell 0 'COMET_MAX_ISA="$odd" "$comet" doctor'
out_has "COMET_MAX_ISA=$shown is unknown"
clean
rm "$odd" "$odd.npy"
