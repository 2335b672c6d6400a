# Where output goes: existing files, folders, devices, modes, closed streams, full disks.
# shellcheck shell=bash

tensor_files
frame_file
mkdir names

run 1 compress bn.npy -e 0.1 -o npy.comet
err_has 'npy.comet already exists; -f overwrites it'
run 1 compress bn.npy -e 0.1 -o names
err_has 'is a folder'
run 1 compress bn.npy -e 0.1 -o nofolder/x.comet
err_has 'No such file'
run 0 compress bn.npy -e 0.1 -o /dev/null
if [ -c /dev/null ]; then pass; else fault "/dev/null was replaced"; fi
if [ -c /dev/full ]; then
    run 1 compress bn.npy -e 0.1 -o /dev/full
    err_has '/dev/full: No space left on device'
    shell 1 '"$comet" compress bn.npy -e 0.1 -o - >/dev/full'
    err_has 'standard output: No space left on device'
    for words in 'info npy.comet' 'info npy.comet --json' 'verify bn.npy npy.comet' '--help' 'help info' 'doctor --json'; do
        shell 1 "\"\$comet\" $words >/dev/full"
        err_has 'standard output: No space left on device'
    done
fi
# A file that is replaced keeps its mode, a new one follows the umask.
mode_is() { if [ "$(stat -c %a "$1")" = "$2" ]; then pass; else fault "$1 has mode $(stat -c %a "$1"), not $2"; fi; }
shell 0 'umask 027; "$comet" compress bn.npy -e 0.1 -o mode.comet'
mode_is mode.comet 640
for mode in 600 644 604 400; do
    chmod $mode mode.comet
    shell 0 'umask 027; "$comet" compress bn.npy -e 0.1 -o mode.comet -f'
    mode_is mode.comet $mode
done
# The output is the input, by whatever path: refused with and without -f, and the input stays.
mkdir self
cp bn.npy self/a.npy
cp npy.comet self/a.comet
ln self/a.npy self/hard.npy
ln -s a.npy self/soft.npy
ln -s a.comet self/soft.comet
for other in self/a.npy ./self/../self/a.npy self/hard.npy self/soft.npy; do
    run 2 compress self/a.npy -e 0.1 -o $other -f
    err_has "$other: input and output are the same file"
    run 2 compress self/a.npy -e 0.1 -o $other
done
shell 2 '"$comet" compress - -e 0.1 -o self/a.npy -f <self/a.npy'
shell 2 '"$comet" compress self/a.npy -e 0.1 -o - >>self/a.npy'
for other in self/a.comet self/soft.comet "$PWD/self/a.comet"; do
    run 2 decompress self/a.comet -o "$other" -f
    err_has 'input and output are the same file'
done
run 2 decompress self/soft.comet -o self/a.comet -f
same self/a.npy bn.npy
same self/a.comet npy.comet
run 0 compress self/a.npy -e 0.1 -o self/a.comet -f
if [ -c /dev/null ]; then run 3 compress /dev/null -e 0.1 -o /dev/null; fi
# A limit on the size of files stands in for a full disk: the write fails half way.
mkdir small
cp npy.comet small/old.comet
shell 1 'ulimit -f 1; cd small && "$comet" compress ../bn.npy -e lossless -o new.comet'
err_has 'new.comet: File too large'
absent small/new.comet
no_temporaries small
shell 1 'ulimit -f 1; cd small && "$comet" compress ../bn.npy -e lossless -o old.comet -f'
same small/old.comet npy.comet
no_temporaries small
shell 1 'ulimit -f 1; cd small && "$comet" decompress ../npy.comet -o new.npy'
absent small/new.npy
no_temporaries small
# Standard streams that are closed are not taken for files, and failing ones are told.
shell 1 '"$comet" compress bn.npy -e 0.1 -o - >&-'
err_has '^comet compress: standard output: Bad file descriptor'
shell 1 '"$comet" info npy.comet >&-'
err_has 'standard output: Bad file descriptor'
shell 1 '"$comet" compress - -e 0.1 -o in.comet <&-'
err_has '^comet compress: standard input: Bad file descriptor'
absent in.comet
shell 0 '"$comet" compress bn.npy -e 0.1 -o closed.comet <&- >&- 2>&-'
shell 0 '"$comet" compress bn.npy -e 0.1 -o open.comet'
same closed.comet open.comet
# Endless input that is read whole ends with the memory.
if memory_limits; then # not under a sanitizer
    shell 5 'ulimit -v 1000000; "$comet" compress - -e 0.1 -o endless.comet </dev/zero'
    err_has 'out of memory'
    absent endless.comet
fi
# A disk that is full, where this user may mount one.
if unshare -rm true 2>/dev/null && unshare -rm mount -t tmpfs -o size=64k none small 2>/dev/null; then
    shell 1 'unshare -rm sh -c "mount -t tmpfs -o size=16k none small && cd small && \"$comet\" compress ../bn.npy -e lossless -o x.comet; code=\$?; ls -A; exit \$code"'
    err_has 'x.comet: No space left on device'
    out_empty
fi
