# Turns files into a C header of char arrays, at build time:
#
#   cmake -DOUT=report_assets.h "-DFILES=a/report.css;a/report.js" -P embed.cmake
#
# report.css becomes `static const char report_css[]`, without a 0 at its end.

set(text "/* Made by cmake/embed.cmake. */\n")
foreach(file IN LISTS FILES)
    get_filename_component(name "${file}" NAME)
    string(MAKE_C_IDENTIFIER "${name}" name)
    file(READ "${file}" bytes HEX)
    string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
    string(APPEND text "static const char ${name}[] = {\n${bytes}\n};\n")
endforeach()
file(WRITE "${OUT}" "${text}")
