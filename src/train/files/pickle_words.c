/* See pickle_words.h. */
#include "train/files/pickle_words.h"

#include <string.h>

static const pickle_global globals[] = {
    {"collections", "OrderedDict", PICKLE_USE_DICT, {0}},
    {"torch", "Size", PICKLE_USE_SEQUENCE, {0}},
    {"builtins", "set", PICKLE_USE_SEQUENCE, {0}},
    {"__builtin__", "set", PICKLE_USE_SEQUENCE, {0}}, /* as protocol 2 calls it */
    {"torch", "device", PICKLE_USE_DEVICE, {0}},
    {"torch._utils", "_rebuild_tensor", PICKLE_USE_TENSOR, {0}}, /* before 0.4 */
    {"torch._utils", "_rebuild_tensor_v2", PICKLE_USE_TENSOR, {0}},
    {"torch._utils", "_rebuild_parameter", PICKLE_USE_PARAMETER, {0}},
    {"torch", "FloatStorage", PICKLE_USE_STORAGE, {SAFETENSORS_F32, 4}},
    {"torch", "DoubleStorage", PICKLE_USE_STORAGE, {SAFETENSORS_F64, 8}},
    {"torch", "HalfStorage", PICKLE_USE_STORAGE, {SAFETENSORS_F16, 2}},
    {"torch", "BFloat16Storage", PICKLE_USE_STORAGE, {SAFETENSORS_BF16, 2}},
    {"torch", "LongStorage", PICKLE_USE_STORAGE, {SAFETENSORS_I64, 8}},
    {"torch", "IntStorage", PICKLE_USE_STORAGE, {SAFETENSORS_OTHER, 4}},
    {"torch", "ShortStorage", PICKLE_USE_STORAGE, {SAFETENSORS_OTHER, 2}},
    {"torch", "CharStorage", PICKLE_USE_STORAGE, {SAFETENSORS_OTHER, 1}},
    {"torch", "ByteStorage", PICKLE_USE_STORAGE, {SAFETENSORS_OTHER, 1}},
    {"torch", "BoolStorage", PICKLE_USE_STORAGE, {SAFETENSORS_OTHER, 1}},
    {"torch", "float32", PICKLE_USE_DTYPE, {0}},
    {"torch", "float64", PICKLE_USE_DTYPE, {0}},
    {"torch", "float16", PICKLE_USE_DTYPE, {0}},
    {"torch", "bfloat16", PICKLE_USE_DTYPE, {0}},
    {"torch", "int64", PICKLE_USE_DTYPE, {0}},
    {"torch", "int32", PICKLE_USE_DTYPE, {0}},
    {"torch", "int16", PICKLE_USE_DTYPE, {0}},
    {"torch", "int8", PICKLE_USE_DTYPE, {0}},
    {"torch", "uint8", PICKLE_USE_DTYPE, {0}},
    {"torch", "bool", PICKLE_USE_DTYPE, {0}},
};
/* Letters of the opcodes; those without a case in pickle.c are refused. */
static const struct opcode_name {
    unsigned char code;
    const char *name;
} opcode_names[] = {
    {'(', "MARK"},
    {'.', "STOP"},
    {'0', "POP"},
    {'1', "POP_MARK"},
    {'2', "DUP"},
    {'F', "FLOAT"},
    {'I', "INT"},
    {'J', "BININT"},
    {'K', "BININT1"},
    {'L', "LONG"},
    {'M', "BININT2"},
    {'N', "NONE"},
    {'P', "PERSID"},
    {'Q', "BINPERSID"},
    {'R', "REDUCE"},
    {'S', "STRING"},
    {'T', "BINSTRING"},
    {'U', "SHORT_BINSTRING"},
    {'V', "UNICODE"},
    {'X', "BINUNICODE"},
    {'a', "APPEND"},
    {'b', "BUILD"},
    {'c', "GLOBAL"},
    {'d', "DICT"},
    {'}', "EMPTY_DICT"},
    {'e', "APPENDS"},
    {'g', "GET"},
    {'h', "BINGET"},
    {'i', "INST"},
    {'j', "LONG_BINGET"},
    {'l', "LIST"},
    {']', "EMPTY_LIST"},
    {'o', "OBJ"},
    {'p', "PUT"},
    {'q', "BINPUT"},
    {'r', "LONG_BINPUT"},
    {'s', "SETITEM"},
    {'t', "TUPLE"},
    {')', "EMPTY_TUPLE"},
    {'u', "SETITEMS"},
    {'G', "BINFLOAT"},
    {'B', "BINBYTES"},
    {'C', "SHORT_BINBYTES"},
    {0x80, "PROTO"},
    {0x81, "NEWOBJ"},
    {0x82, "EXT1"},
    {0x83, "EXT2"},
    {0x84, "EXT4"},
    {0x85, "TUPLE1"},
    {0x86, "TUPLE2"},
    {0x87, "TUPLE3"},
    {0x88, "NEWTRUE"},
    {0x89, "NEWFALSE"},
    {0x8a, "LONG1"},
    {0x8b, "LONG4"},
    {0x8c, "SHORT_BINUNICODE"},
    {0x8d, "BINUNICODE8"},
    {0x8e, "BINBYTES8"},
    {0x8f, "EMPTY_SET"},
    {0x90, "ADDITEMS"},
    {0x91, "FROZENSET"},
    {0x92, "NEWOBJ_EX"},
    {0x93, "STACK_GLOBAL"},
    {0x94, "MEMOIZE"},
    {0x95, "FRAME"},
    {0x96, "BYTEARRAY8"},
    {0x97, "NEXT_BUFFER"},
    {0x98, "READONLY_BUFFER"},
};

static bool equals(const char *text, const char *name, size_t bytes)
{
    return strlen(text) == bytes && memcmp(text, name, bytes) == 0;
}

const pickle_global *pickle_global_find(const char *module, size_t module_bytes, const char *name, size_t name_bytes)
{
    for (size_t i = 0; i < sizeof globals / sizeof *globals; i++)
        if (equals(globals[i].module, module, module_bytes) && equals(globals[i].name, name, name_bytes))
            return &globals[i];
    return NULL;
}

const char *pickle_opcode_name(unsigned char code)
{
    for (size_t i = 0; i < sizeof opcode_names / sizeof *opcode_names; i++)
        if (opcode_names[i].code == code)
            return opcode_names[i].name;
    return NULL;
}
