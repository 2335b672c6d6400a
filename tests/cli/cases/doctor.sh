# comet doctor.
# shellcheck shell=bash

run 0 doctor
out_has '^self test     passed: '
out_has '^kernels  '
run 0 doctor --json
is_json
out_has '"self_test_identical":true,"self_test_within_bound":true'
out_has '"training_on_dnnl":.*,"training_built_with_dnnl":'
shell 0 'COMET_MAX_ISA=reference "$comet" doctor'
out_has '^kernels       reference active, '
shell 0 'COMET_MAX_ISA=avx3 "$comet" doctor'
out_has '^kernels .* cap none$'
out_has '^  COMET_MAX_ISA=avx3 is unknown and ignored'
shell 0 'COMET_MAX_ISA=avx3 "$comet" doctor --json'
is_json
out_has '"kernels_cap":null,"kernels_cap_ignored":"avx3"'
shell 0 'COMET_MAX_ISA= "$comet" doctor'
out_has '^kernels .* cap none$'
run 0 doctor --gpu
out_has '^comet  .* device'
