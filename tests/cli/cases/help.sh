# Pages of help, versions, unknown verbs and options.
# shellcheck shell=bash

verbs="compress decompress info verify bench generate doctor report demo"
if has_training; then
    verbs="$verbs models train eval predict export import plan"
else
    echo "skipped, since this build has no training: the pages of models, train, eval, predict, export, import, plan, bench train and demo train"
fi
run 0 --version
out_has '^comet [0-9]*\.[0-9]*\.[0-9]*$'
run 0 --help
err_empty
for verb in $verbs; do out_has "^  $verb  *[A-Z]"; done
for verb in $verbs; do
    run 0 "$verb" --help
    err_empty
    out_has "^usage: comet $verb "
    out_has 'default'
    cp .out page
    if [ "$(sed -n '/^examples:/,$p' page | grep -c '^  .*comet ')" -ge 3 ]; then pass; else fault "fewer than three examples"; fi
    if [ "$(wc -l <page)" -le 70 ] && [ "$(wc -L <page)" -le 120 ]; then pass; else fault "more than a page"; fi
    run 0 help "$verb"
    same .out page
    run 0 "$verb" -h
    same .out page
done
run 2
err_has '^usage: comet VERB'
out_empty
run 2 comprss
err_has "unknown verb 'comprss'; did you mean compress?"
out_empty
run 2 help decompres
err_has 'did you mean decompress?'
run 2 xyzzy
err_has "unknown verb 'xyzzy'$"
run 2 pan
err_has "unknown verb 'pan'; did you mean plan?"
run 2 ran
err_has "unknown verb 'ran'$"
run 2 --verison
err_has "unknown option '--verison'"
run 2 help info extra
run 0 help bench
cp .out page
run 0 bench --help
same .out page
run 0 help bench codec
out_has '^usage: comet bench codec FILE'
cp .out page
run 0 bench codec --help
same .out page
if has_training; then
    run 0 bench train --help
    out_has '^usage: comet bench train '
    out_has 'default'
    run 2 bench trian --model cnn28
    err_has 'did you mean train?'
    run 0 demo train --help
    out_has '^usage: comet demo train '
    run 0 demo --help
    out_has "^options of the default subject, train:$"
    out_has "^ *--steps N "
    run 0 demo --help
    out_has "^options of the default subject, train:$"
    out_has "^ *--steps N "
else
    run 1 bench train --help
    err_has 'this build has no training: '
    run 1 train --model cnn28
    err_has 'this build has no training: '
fi
run 0 demo codec --help
out_has '^usage: comet demo codec '
run 2 demo cdec
err_has "unknown subject 'cdec'; did you mean codec?"
run 2 help bench codecs
run 2 help bench codec extra
run 2 help info codec
run 2 compress in.npy -e 0.1 --jsn
err_has "unknown option '--jsn'; did you mean --json?"
err_has "try 'comet compress --help'"
run 2 decompress x --chunk 0,1
err_has 'did you mean --chunks?'
run 2 compress in.npy -e 0.1 --out x
err_has "unknown option '--out'; did you mean --output?"
run 2 compress in.npy --tolerance 0.1
err_has "unknown option '--tolerance'; did you mean --error?"
run 2 compress in.npy --overwrite
err_has "unknown option '--overwrite'; did you mean --force?"
run 2 compress in.npy --lr 0.1
err_has "unknown option '--lr'$"
run 2 compress in.npy -Z
err_has "unknown option '-Z'"
run 2 compress in.npy -e
err_has 'option -e needs a value'
run 2 compress in.npy --json=yes -e 1
err_has 'takes no value'
run 2 compress
err_has 'IN, the file to compress, is missing'
run 2 compress in.npy
err_has '-e BOUND is missing'
run 2 compress a b -e 1
err_has "unexpected: 'b'"
run 2 compress in.npy -e 1 -j 100000
err_has 'option -j: 100000 threads are too many for [0-9]* cores*; give 0 to [0-9]*'
run 2 verify a
err_has 'FRAME is missing'
run 2 doctor x
run 2 compress in.npy -e 1 -l dens
err_has "unknown level 'dens'; did you mean dense?"
run 2 compress in.npy -e 1 --layout nchw16c
err_has 'did you mean nChw16c?'
run 2 compress in.npy -e 1 -t f31
err_has 'did you mean f32?'
run 2 compress in.npy -e 1 -o ''
err_has 'empty'
# Documents are topics, those of the source tree for a program in a folder beside docs/.
if [ -e "$(dirname "$comet")/../docs/tutorial.md" ]; then
    run 0 help tutorial
    out_has '^# Tutorial'
    run 0 help cli.md
    out_has '^# The command line'
    run 2 help tutorail
    err_has "did you mean tutorial?"
else
    echo "skipped: this program has no documents beside it"
    run 2 help tutorial
fi
run 2 help ../docs/cli
run 0 help --man compress
out_has '^\.TH COMET\\-COMPRESS 1 '
run 0 help --completion fish
out_has '^complete -c comet -n __fish_use_subcommand -f -a compress '
run 2 help --completion tcsh
run 2 help --man xyzzy
