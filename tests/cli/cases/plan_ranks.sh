# comet plan --ranks and --place: what is predicted, in words and as JSON, and what is refused.
# shellcheck shell=bash

needs_training
tiny_net

plan="plan --net tiny.txt -j 1 --compress off --batch 8"
number() { sed -n "s/.*\"$1\":\([0-9.e+-]*\).*/\1/p" .out | head -1; }

run 0 $plan --ranks 4 --link 100Gbit --latency 5us
out_has '^a rank alone: .* (measured: forward '
out_has '^4 ranks, 1 on a node, 100 Gbit/s, 5 us$'
for line in step images/s efficiency 'sent by a rank' 'hidden of the transfer' 'peak memory of a rank'; do out_has "^$line"; done

# By hand: the gradients of the net take 2 x 3/4 of their bytes from each of 4 ranks; in bf16 half of that.
run 0 $plan --ranks 4 --step-time 1s --json
plain=$(number sent_bytes)
run 0 $plan --ranks 4 --step-time 1s --compress-gradients bf16 --json
if [ "$((plain / 2))" -eq "$(number sent_bytes)" ] && [ "$plain" -gt 0 ]; then pass; else fault "bf16 does not halve $plain"; fi
run 0 $plan --ranks 1 --step-time 1s --json
out_has '"sent_bytes":0,.*"hidden_share":1,'
# A slow link shows: the bytes take seconds.
run 0 $plan --ranks 2 --step-time 10ms --link 1Mbit --latency 0us --json
if awk "BEGIN { exit !($(number waited_s) > 0.5 * $(number sent_bytes) * 8e-6 && $(number hidden_share) < 0.5) }"; then pass; else fault "no wait for 1 Mbit/s"; fi
# ResNet-18 has 46.8 MB of momentum, of which a rank of 16 keeps 2.9.
large="plan --model resnet18 --image 64 -j 1 --compress off --batch 8 --ranks 16 --step-time 1s --json"
run 0 $large
plain=$(number peak_bytes)
run 0 $large --shard-optimiser
less=$((plain - $(number peak_bytes)))
if [ "$less" -gt 40000000 ] && [ "$less" -lt 48000000 ]; then pass; else fault "--shard-optimiser lowers the peak by $less"; fi

run 0 $plan --ranks table --step-time 10ms
out_lacks '[0-9]e+'
if [ "$(grep -c '^ *[0-9]* *[0-9]* .*%' .out)" -eq 11 ]; then pass; else fault "not 11 numbers of nodes"; fi
run 0 $plan --ranks table --step-time 1s --ranks-per-node 2 --json
if [ "$(grep -c '"ranks_per_node":2' .out)" -eq 33 ]; then pass; else fault "not 33 objects"; fi

run 2 $plan --ranks many
err_has "nor is it 'table'"
run 2 $plan --ranks 0
run 2 $plan --ranks 4 --ranks-per-node 3
err_has '4 ranks cannot be spread with 3 on each node'
run 2 $plan --link 1Gbit
err_has 'are for --ranks N'
run 2 $plan --ranks table --link 1Gbit
run 2 $plan --ranks 2 --link 100
err_has "'100' is not a rate such as"
run 2 $plan --ranks 2 --latency 5
run 2 $plan --ranks 2 --step-time 0s
run 2 $plan --ranks 2 --compress-gradients half
run 2 $plan --ranks 2 --memory 1GiB

cat >two.txt <<'END'
node a b sockets=2 cores=4 memory=20GB
link a b 10Gbit
used a 0 4
END
run 0 plan --place two.txt --ranks 2 -j 2
out_has '^two.txt: 2 nodes, 4 domains of memory, 16 cores, 4 in use$'
out_has '^ *40 *GB/s .* b:0 x1, b:1 x1$'
out_has '^rank 1=b slot=4-5$'
out_has '^b:2 binding=user:0+1,4+5$'
run 0 plan --place two.txt --ranks 2 -j 4 --json
out_has '"place":1,"where":"b:0 x1, b:1 x1"'
run 3 plan --place two.txt --ranks 4 -j 4
err_has '4 ranks of 4 threads do not fit: there is room for 3, with 12 free cores'
run 2 plan --place two.txt
err_has '--place needs --ranks N'
run 2 plan --place two.txt --ranks 2 --model resnet18
echo 'link a b 10Gbit' >bad.txt
run 3 plan --place bad.txt --ranks 2
err_has "bad.txt:1: 'a' is neither a node nor a switch"
run 3 plan --place nothere.txt --ranks 2
if ldconfig -p 2>/dev/null | grep -q libhwloc.so.15 && "$comet" plan --place here --ranks 1 >/dev/null 2>&1; then
    run 0 plan --place 'synthetic:pack:2 core:4 pu:2' --ranks 2 -j 4
    out_has '2 domains of memory, 8 cores'
    run 3 plan --place 'synthetic:nonsense' --ranks 2
fi

# The peak has the MPI's memory, and what coding keeps: a float for each of 11.7 million weights.
run 0 $large
out_has '"mpi":"\(openmpi\|mpich\)"'
run 0 $large --mpi openmpi
plain=$(number peak_bytes)
run 0 $large --mpi mpich
more=$(($(number peak_bytes) - plain))
if [ "$more" -gt 60000000 ] && [ "$more" -lt 72000000 ]; then pass; else fault "MPICH takes $more more, not 63 MiB"; fi
run 0 $large --mpi openmpi --compress-gradients 8x
more=$(($(number peak_bytes) - plain))
if [ "$more" -gt 46000000 ] && [ "$more" -lt 100000000 ]; then pass; else fault "coded gradients keep $more"; fi
run 2 $large --mpi lam
err_has "'lam' is neither openmpi nor mpich"
run 2 $plan --mpi openmpi
