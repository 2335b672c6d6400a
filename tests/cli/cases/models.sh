# comet models.
# shellcheck shell=bash

needs_training

run 0 models
err_empty
n_lines 9
out_has '^name  *input  *classes  *layers  *parameters  *multiply-adds  summary$'
out_has '^resnet18  *3 x 224 x 224  *1000  *69  *11.69 M  *1.81 G  ResNet'
out_has '^cnn28  *1 x 28 x 28  *10 '
if [ "$(wc -L <.out)" -le 120 ]; then pass; else fault "the table is too wide"; fi

# Parameters as torch counts them, multiply-adds as torchvision's pages give them (in units of 1e9: 0.71, 15.47, 1.81, 4.09, 0.39).
run 0 models --json
is_json
n_lines 8
out_has '"net":"alexnet",.*"parameters":61100840,"multiply_adds":714188480,'
out_has '"net":"vgg16",.*"parameters":138357544,"multiply_adds":15470264320,'
out_has '"net":"resnet18","input":\[3,224,224\],"output":\[1000\],"layers":69,"parameters":11689512,"multiply_adds":1814073344,'
out_has '"net":"resnet50",.*"parameters":25557032,"multiply_adds":4089184256,'
out_has '"net":"efficientnet_b0",.*"parameters":5288548,"multiply_adds":385814752,'
out_has '"net":"resnet20",.*"parameters":272474,"multiply_adds":40813184,'
out_has '"net":"resnet32",.*"parameters":466906,'
out_has '"net":"cnn28",.*"parameters":96554,'

run 0 models --image 64 --classes 7 --channels 1
n_lines 7
err_has 'left out: alexnet takes images of 223 to 254 pixels, not 64'
err_has 'left out: vgg16 takes images of 224 to 255 pixels, not 64'
out_has '^resnet18  *1 x 64 x 64  *7 '
run 2 models --image 65536
err_has 'no built-in net takes images of this size'
out_empty

for net in alexnet vgg16 resnet18 resnet50 efficientnet_b0 resnet20 resnet32 cnn28; do
    run 0 models --show $net
    err_empty
    cp .out $net.net
    run 0 models --net $net.net --json
    is_json
    tail -1 .out >last.json
    "$comet" models --json 2>/dev/null | grep "\"net\":\"$net\"" | sed 's/,"summary":.*/}/' >row.json
    same last.json row.json
done
run 0 models --show resnet20
out_has '^net resnet20$'
out_has '^input 3 32 32$'
out_has '^conv1 = conv input out=16 kernel=3 pad=1 bias=no init=he_fan_out$'
out_has '^layer2.0.add = add layer2.0.bn2 layer2.0.downsample.1$'
run 0 models --show resnet20 --image 48 --classes 100
out_has '^input 3 48 48$'
out_has '^fc = linear flatten out=100$'
run 2 models --show vgg16 --image 32
err_has 'vgg16 takes images of 224 to 255 pixels, not 32'
out_empty
run 2 models --show resnet21
err_has "there is no net 'resnet21' (did you mean resnet20?); there are alexnet, "
run 2 models --show ''

printf '# mine\ninput 3 8 8\nc = conv out=4 kernel=3\nf = flatten\nfc = linear out=2\n' >mine.net
run 0 models --net mine.net
out_has '^c  *conv  *4 x 6 x 6  *112  *3.89 k$'
out_has '^f  *flatten  *144  *0  *0$'
out_has '^total  *402  *4.18 k$'
shell 0 '"$comet" models --net - <mine.net'
n_lines 6
run 0 models --net mine.net --json
is_json
n_lines 5
out_has '^{"layer":"c","kind":"conv","output":\[4,6,6\],"parameters":112,"multiply_adds":3888}$'
out_has '^{"net":"net","input":\[3,8,8\],"output":\[2\],"layers":3,"parameters":402,"multiply_adds":4176}$'
printf 'input 3 8 8\nc = conv out=4 kernle=3\n' >wrong.net
run 3 models --net wrong.net
err_has '^comet models: wrong.net:2: c: conv has no option .kernle.; did you mean kernel?$'
out_empty
printf 'input 3 8 8\n\0\377\n' >wrong.net
run 3 models --net wrong.net
err_has "wrong.net:2: '=' is missing after '??'"
run 3 models --net /dev/null
run 3 models --net nothere.net
err_has 'nothere.net: No such file'
run 2 models --net mine.net --show vgg16
err_has 'exclude each other'
run 2 models --net mine.net --image 8
err_has 'a file has its own'
run 2 models --show vgg16 --json
run 2 models resnet18
err_has "unexpected: 'resnet18'"
for words in '--image 0' '--image 65537' '--classes 0' '--classes x' '--channels -1' '--image 2.5'; do
    # shellcheck disable=SC2086
    run 2 models $words
    err_has "option ${words% *}"
done

# The example of the documentation.
awk '/^```/ { inside = !inside; next } inside' "$source/docs/net_format.md" >example.net
run 0 models --net example.net
out_has '^fc  *linear  *10 '
