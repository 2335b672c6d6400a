/* See pickle.h. Opcodes and what they do: CPython's Lib/pickletools.py. */
#include "train/files/pickle.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/status.h"
#include "train/files/pickle_words.h"

enum {
    MAX_OBJECTS = 1 << 22, /* and entries of the stack, and of the memo */
    MAX_ITEMS = 1 << 25,   /* of all lists and dicts: each comes from a byte of the pickle, which has no more */
    MAX_TENSORS = 1 << 18,
    MAX_MARKS = 64, /* open tuples, lists and dicts; a state dict has about five */
    MAX_PROTOCOL = 5,
    MAX_NAME = 256, /* of a global */
};
static const uint32_t unset = UINT32_MAX;

/* ---- the machine ---- */

typedef struct stack {
    uint32_t *items;
    size_t n, capacity;
} stack;

struct pickle {
    const char *path;
    const unsigned char *data;
    size_t bytes, at, op_at; /* where the opcode that runs lies */
    pickle_object *objects;
    size_t n_objects, object_capacity, n_items;
    stack stack, memo;
    size_t marks[MAX_MARKS], n_marks;
    pickle_storage *storages;
    size_t n_storages, storage_capacity;
    pickle_tensor *tensors;
    size_t n_tensors, tensor_capacity;
};

/* ---- failures ---- */

static comet_status malformed(const pickle *p, const char *what)
{
    return comet_fail(COMET_ERROR_CORRUPT, "%s: its pickle is damaged at byte %zu: %s", p->path, p->op_at, what);
}

static comet_status too_much(const pickle *p, const char *what)
{
    return comet_fail(COMET_ERROR_CORRUPT, "%s: its pickle has %s, more than a state dict has (byte %zu)", p->path, what,
                      p->op_at);
}

/* `what` names the opcode or global. */
static comet_status refuse(const pickle *p, const char *what)
{
    return comet_fail(
        COMET_ERROR_CORRUPT,
        "%s: refused: its pickle has %s at byte %zu, which no state dict has, and pickles are not run; in PyTorch, "
        "save the weights alone with torch.save(model.state_dict(), FILE)",
        p->path, what, p->op_at);
}

static comet_status refuse_opcode(const pickle *p, unsigned char code)
{
    char what[64];
    const char *name = pickle_opcode_name(code);
    if (name)
        snprintf(what, sizeof what, "the opcode %s", name);
    else
        snprintf(what, sizeof what, "the unknown opcode 0x%02x", code);
    return refuse(p, what);
}

static const char *describe(const pickle_object *o, char text[2 * MAX_NAME])
{
    static const char *const names[] = {"a plain value", "a number", "a text", "a list", "a dict", "", "a storage", "a tensor"};
    if (o->kind == PICKLE_GLOBAL)
        snprintf(text, 2 * MAX_NAME, "%s.%s", o->as.global->module, o->as.global->name);
    else
        snprintf(text, 2 * MAX_NAME, "%s", names[o->kind]);
    return text;
}

/* "the opcode REDUCE of torch.FloatStorage" */
static comet_status refuse_use(const pickle *p, const char *opcode, const pickle_object *o)
{
    char of[2 * MAX_NAME], what[2 * MAX_NAME + 64];
    snprintf(what, sizeof what, "the opcode %s of %s", opcode, describe(o, of));
    return refuse(p, what);
}

/* NOLINTBEGIN(clang-analyzer-core.NullDereference): what is on the stack has a number below n_objects, and grow makes room
 * first. */

/* ---- tables that grow ---- */

/* Makes room for one more; *table has `n` of `item` bytes. */
static comet_status grow(const pickle *p, void **table, size_t n, size_t *capacity, size_t item)
{
    if (n < *capacity)
        return COMET_OK;
    if (n >= MAX_OBJECTS)
        return too_much(p, "too many objects");
    const size_t larger = *capacity > 0 ? 2 * *capacity : 256;
    void *moved = realloc(*table, larger * item);
    if (!moved)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory while reading the pickle of %s", p->path);
    *table = moved;
    *capacity = larger;
    return COMET_OK;
}

static comet_status push(pickle *p, uint32_t object)
{
    void *items = p->stack.items;
    TRY(grow(p, &items, p->stack.n, &p->stack.capacity, sizeof object));
    p->stack.items = items;
    p->stack.items[p->stack.n++] = object;
    return COMET_OK;
}

static comet_status make(pickle *p, pickle_object object, uint32_t *index)
{
    void *objects = p->objects;
    TRY(grow(p, &objects, p->n_objects, &p->object_capacity, sizeof object));
    p->objects = objects;
    p->objects[p->n_objects] = object;
    *index = (uint32_t)p->n_objects++;
    return COMET_OK;
}

static comet_status push_new(pickle *p, pickle_object object)
{
    uint32_t index = 0;
    TRY(make(p, object, &index));
    return push(p, index);
}

/* Objects above the last mark. */
static size_t above_mark(const pickle *p)
{
    return p->stack.n - (p->n_marks > 0 ? p->marks[p->n_marks - 1] : 0);
}

/* The object on top, which stays there or goes. */
static comet_status peek(const pickle *p, uint32_t *object)
{
    if (above_mark(p) == 0)
        return malformed(p, "its stack is empty");
    *object = p->stack.items[p->stack.n - 1];
    return COMET_OK;
}

static comet_status pop(pickle *p, uint32_t *object)
{
    TRY(peek(p, object));
    p->stack.n--;
    return COMET_OK;
}

/* Appends the `n` topmost objects to the items of `to` and takes them off the stack. */
static comet_status move_items(pickle *p, pickle_object *to, size_t n)
{
    if (n == 0)
        return COMET_OK;
    if (n > MAX_OBJECTS - to->n || n > MAX_ITEMS - p->n_items)
        return too_much(p, "too many items in lists");
    if (to->n + n > to->capacity) {
        const size_t wanted = max_u64(2 * (uint64_t)to->n, to->n + n);
        uint32_t *moved = realloc(to->as.items, wanted * sizeof *moved);
        if (!moved)
            return comet_fail(COMET_ERROR_MEMORY, "out of memory while reading the pickle of %s", p->path);
        to->as.items = moved;
        to->capacity = (uint32_t)wanted;
    }
    memcpy(to->as.items + to->n, p->stack.items + p->stack.n - n, n * sizeof *to->as.items);
    to->n += (uint32_t)n;
    p->stack.n -= n;
    p->n_items += n;
    return COMET_OK;
}

/* A new list or dict of the `n` topmost objects. */
static comet_status collect(pickle *p, pickle_kind kind, size_t n)
{
    uint32_t index = 0;
    if (n > above_mark(p))
        return malformed(p, "its stack is empty");
    if (kind == PICKLE_DICT && n % 2 != 0)
        return malformed(p, "a dict has a key without a value");
    TRY(make(p, (pickle_object){.kind = kind}, &index));
    TRY(move_items(p, &p->objects[index], n));
    return push(p, index);
}

static comet_status end_mark(pickle *p, size_t *n)
{
    if (p->n_marks == 0)
        return malformed(p, "there is no mark");
    *n = above_mark(p);
    p->n_marks--;
    return COMET_OK;
}

static comet_status collect_marked(pickle *p, pickle_kind kind)
{
    size_t n = 0;
    TRY(end_mark(p, &n));
    return collect(p, kind, n);
}

/* Adds the `n` topmost objects to the list or dict beneath them. */
static comet_status add_items(pickle *p, const char *opcode, pickle_kind kind, size_t n)
{
    if (n > above_mark(p) || above_mark(p) - n == 0)
        return malformed(p, "its stack is empty");
    if (kind == PICKLE_DICT && n % 2 != 0)
        return malformed(p, "a dict has a key without a value");
    pickle_object *to = &p->objects[p->stack.items[p->stack.n - n - 1]];
    if (to->kind != kind)
        return refuse_use(p, opcode, to);
    return move_items(p, to, n);
}

static comet_status add_marked(pickle *p, const char *opcode, pickle_kind kind)
{
    size_t n = 0;
    TRY(end_mark(p, &n));
    return add_items(p, opcode, kind, n);
}

/* ---- bytes of the program ---- */

static comet_status take(pickle *p, uint64_t bytes, const unsigned char **at)
{
    if (bytes > p->bytes - p->at)
        return malformed(p, "it is cut short");
    *at = p->data + p->at;
    p->at += (size_t)bytes;
    return COMET_OK;
}

/* An unsigned number of 1, 2, 4 or 8 bytes. */
static comet_status take_number(pickle *p, size_t width, uint64_t *n)
{
    const unsigned char *at = NULL;
    TRY(take(p, width, &at));
    *n = 0;
    for (size_t i = width; i-- > 0;)
        *n = *n << 8 | at[i];
    return COMET_OK;
}

static comet_status push_number(pickle *p, int64_t n)
{
    return push_new(p, (pickle_object){.kind = PICKLE_NUMBER, .as.number = n});
}

static comet_status push_plain(pickle *p)
{
    return push_new(p, (pickle_object){.kind = PICKLE_PLAIN});
}

/* Texts and bytes with a length of `width` bytes before them. */
static comet_status push_text(pickle *p, size_t width, pickle_kind kind)
{
    uint64_t bytes = 0;
    const unsigned char *at = NULL;
    TRY(take_number(p, width, &bytes));
    TRY(take(p, bytes, &at));
    return push_new(p, (pickle_object){.kind = kind, .n = (uint32_t)bytes, .as.text = (const char *)at});
}

/* Two's complement of any length; what does not fit 64 bits is no number that weights need. */
static comet_status push_long(pickle *p, size_t width)
{
    uint64_t bytes = 0, n = 0;
    const unsigned char *at = NULL;
    TRY(take_number(p, width, &bytes));
    TRY(take(p, bytes, &at));
    if (bytes > 8)
        return push_plain(p);
    for (size_t i = (size_t)bytes; i-- > 0;)
        n = n << 8 | at[i];
    if (bytes > 0 && bytes < 8 && (at[bytes - 1] & 0x80) != 0)
        n |= UINT64_MAX << (8 * bytes);
    return push_number(p, (int64_t)n);
}

/* ---- the memo ---- */

static comet_status put(pickle *p, uint64_t index)
{
    uint32_t object = 0;
    TRY(peek(p, &object));
    if (index >= MAX_OBJECTS)
        return too_much(p, "too many entries in its memo");
    while (p->memo.n <= index) {
        void *items = p->memo.items;
        TRY(grow(p, &items, p->memo.n, &p->memo.capacity, sizeof object));
        p->memo.items = items;
        p->memo.items[p->memo.n++] = unset;
    }
    p->memo.items[index] = object;
    return COMET_OK;
}

static comet_status get(pickle *p, size_t width)
{
    uint64_t index = 0;
    TRY(take_number(p, width, &index));
    if (index >= p->memo.n || p->memo.items[index] == unset)
        return malformed(p, "it refers to an object that it has not made");
    return push(p, p->memo.items[index]);
}

/* ---- globals and calls ---- */

static bool equals(const char *text, const char *name, size_t bytes)
{
    return strlen(text) == bytes && memcmp(text, name, bytes) == 0;
}

static comet_status push_global(pickle *p, const char *module, size_t module_bytes, const char *name, size_t name_bytes)
{
    char what[2 * MAX_NAME + 32];
    const pickle_global *global = pickle_global_find(module, module_bytes, name, name_bytes);
    if (global)
        return push_new(p, (pickle_object){.kind = PICKLE_GLOBAL, .as.global = global});
    snprintf(what, sizeof what, "the global %.*s.%.*s", (int)min_u64(module_bytes, MAX_NAME), module,
             (int)min_u64(name_bytes, MAX_NAME), name);
    return refuse(p, what);
}

static comet_status take_line(pickle *p, const char **line, size_t *bytes)
{
    const unsigned char *begin = p->data + p->at, *end = memchr(begin, '\n', p->bytes - p->at);
    if (!end)
        return malformed(p, "it is cut short");
    *line = (const char *)begin;
    *bytes = (size_t)(end - begin);
    p->at += *bytes + 1;
    return COMET_OK;
}

static comet_status global_of_lines(pickle *p)
{
    const char *module = NULL, *name = NULL;
    size_t module_bytes = 0, name_bytes = 0;
    TRY(take_line(p, &module, &module_bytes));
    TRY(take_line(p, &name, &name_bytes));
    return push_global(p, module, module_bytes, name, name_bytes);
}

static comet_status global_of_stack(pickle *p)
{
    uint32_t module = 0, name = 0;
    TRY(pop(p, &name));
    TRY(pop(p, &module));
    const pickle_object *m = &p->objects[module], *n = &p->objects[name];
    if (m->kind != PICKLE_TEXT || n->kind != PICKLE_TEXT)
        return malformed(p, "the name of a global is no text");
    return push_global(p, m->as.text, m->n, n->as.text, n->n);
}

static const pickle_object *item(const pickle *p, const pickle_object *list, size_t i)
{
    return &p->objects[list->as.items[i]];
}

/* ("storage", type, key, device, number of elements[, None]) */
static comet_status push_storage(pickle *p)
{
    uint32_t id = 0;
    TRY(pop(p, &id));
    const pickle_object *t = &p->objects[id];
    if (t->kind != PICKLE_LIST || t->n < 5 || t->n > 6 || !pickle_is_text(p, t->as.items[0], "storage"))
        return refuse_use(p, "BINPERSID", t);
    const pickle_object *type = item(p, t, 1), *key = item(p, t, 2), *n = item(p, t, 4);
    if (type->kind != PICKLE_GLOBAL || type->as.global->use != PICKLE_USE_STORAGE)
        return refuse_use(p, "BINPERSID", type);
    if (key->kind != PICKLE_TEXT || n->kind != PICKLE_NUMBER || n->as.number < 0)
        return malformed(p, "the name or size of a storage is none");
    if (t->n == 6 && item(p, t, 5)->kind != PICKLE_PLAIN)
        return refuse(p, "a view of a storage by torch before 0.4");
    if (p->n_storages == MAX_TENSORS)
        return too_much(p, "too many tensors");
    void *storages = p->storages;
    TRY(grow(p, &storages, p->n_storages, &p->storage_capacity, sizeof *p->storages));
    p->storages = storages;
    p->storages[p->n_storages] = (pickle_storage){
        .key = key->as.text, .key_bytes = key->n, .element = type->as.global->element, .n_elements = (uint64_t)n->as.number};
    return push_new(p, (pickle_object){.kind = PICKLE_STORAGE, .as.index = p->n_storages++});
}

static comet_status take_sides(const pickle *p, const pickle_object *list, uint64_t *sides)
{
    if (list->kind != PICKLE_LIST || list->n > SAFETENSORS_MAX_DIMS)
        return malformed(p, "a tensor has no shape, or one of more than 8 axes");
    for (uint32_t i = 0; i < list->n; i++) {
        const pickle_object *side = item(p, list, i);
        if (side->kind != PICKLE_NUMBER || side->as.number < 0)
            return malformed(p, "a tensor has an axis or stride that is negative, or no number");
        sides[i] = (uint64_t)side->as.number;
    }
    return COMET_OK;
}

/* Does every element of the view lie in the storage, and has it no more elements? */
static bool view_fits(const pickle_tensor *t)
{
    uint64_t n = 1, last = t->offset;
    for (uint32_t i = 0; i < t->n_dims; i++)
        if (__builtin_mul_overflow(n, t->dims[i], &n))
            return false;
    if (n == 0)
        return true;
    for (uint32_t i = 0; i < t->n_dims; i++) {
        uint64_t reach = 0;
        if (__builtin_mul_overflow(t->dims[i] - 1, t->strides[i], &reach) || __builtin_add_overflow(last, reach, &last))
            return false;
    }
    return last < t->storage.n_elements && n <= t->storage.n_elements;
}

/* (storage, offset, shape, strides[, requires_grad, hooks[, metadata]]) */
static comet_status make_tensor(pickle *p, const pickle_object *arguments, uint32_t *made)
{
    if (arguments->n < 4)
        return malformed(p, "a tensor is made of too little");
    const pickle_object *storage = item(p, arguments, 0), *offset = item(p, arguments, 1);
    const pickle_object *shape = item(p, arguments, 2), *strides = item(p, arguments, 3);
    if (storage->kind != PICKLE_STORAGE || offset->kind != PICKLE_NUMBER || offset->as.number < 0)
        return malformed(p, "a tensor has no storage, or no place in it");
    pickle_tensor t = {.storage = p->storages[storage->as.index], .offset = (uint64_t)offset->as.number, .n_dims = shape->n};
    TRY(take_sides(p, shape, t.dims));
    TRY(take_sides(p, strides, t.strides));
    if (strides->n != shape->n)
        return malformed(p, "a tensor has not as many strides as axes");
    if (!view_fits(&t))
        return malformed(p, "a tensor reaches beyond its storage, or has more elements than it");
    if (p->n_tensors == MAX_TENSORS)
        return too_much(p, "too many tensors");
    void *tensors = p->tensors;
    TRY(grow(p, &tensors, p->n_tensors, &p->tensor_capacity, sizeof t));
    p->tensors = tensors;
    p->tensors[p->n_tensors] = t;
    return make(p, (pickle_object){.kind = PICKLE_TENSOR, .as.index = p->n_tensors++}, made);
}

/* OrderedDict(), or OrderedDict([[key, value], ...]) as Python 2 writes it. */
static comet_status make_dict(pickle *p, uint32_t arguments, uint32_t *made)
{
    const pickle_object *given = &p->objects[arguments];
    const uint32_t list = given->n > 0 ? given->as.items[0] : unset;
    TRY(make(p, (pickle_object){.kind = PICKLE_DICT}, made));
    if (list == unset)
        return COMET_OK;
    if (p->objects[list].kind != PICKLE_LIST)
        return malformed(p, "an OrderedDict is not made of pairs");
    for (uint32_t i = 0; i < p->objects[list].n; i++) {
        const pickle_object *pair = item(p, &p->objects[list], i);
        if (pair->kind != PICKLE_LIST || pair->n != 2)
            return malformed(p, "an OrderedDict is not made of pairs");
        TRY(push(p, pair->as.items[0]));
        TRY(push(p, pair->as.items[1]));
        TRY(move_items(p, &p->objects[*made], 2));
    }
    return COMET_OK;
}

static comet_status call(pickle *p)
{
    uint32_t arguments = 0, callee = 0, made = 0;
    TRY(pop(p, &arguments));
    TRY(pop(p, &callee));
    const pickle_object *a = &p->objects[arguments], *c = &p->objects[callee];
    if (c->kind != PICKLE_GLOBAL)
        return refuse_use(p, "REDUCE", c);
    if (a->kind != PICKLE_LIST)
        return malformed(p, "what a function is called with is no tuple");
    switch (c->as.global->use) {
    case PICKLE_USE_DICT: TRY(make_dict(p, arguments, &made)); return push(p, made);
    case PICKLE_USE_TENSOR: TRY(make_tensor(p, a, &made)); return push(p, made);
    case PICKLE_USE_DEVICE: return push_plain(p);
    case PICKLE_USE_SEQUENCE:
        if (a->n != 1 || item(p, a, 0)->kind != PICKLE_LIST)
            return malformed(p, "a torch.Size or set is not made of one list");
        return push(p, a->as.items[0]);
    case PICKLE_USE_PARAMETER:
        if (a->n < 1 || item(p, a, 0)->kind != PICKLE_TENSOR)
            return malformed(p, "a parameter is not made of a tensor");
        return push(p, a->as.items[0]);
    case PICKLE_USE_DTYPE:
    case PICKLE_USE_STORAGE: break;
    }
    return refuse_use(p, "REDUCE", c);
}

/* Attributes of dicts (a state dict's _metadata) and of tensors (their hooks, before 0.4) do not matter. */
static comet_status build(pickle *p)
{
    uint32_t state = 0, object = 0;
    TRY(pop(p, &state));
    TRY(peek(p, &object));
    const pickle_object *o = &p->objects[object];
    return o->kind == PICKLE_DICT || o->kind == PICKLE_TENSOR ? COMET_OK : refuse_use(p, "BUILD", o);
}

/* ---- opcodes ---- */

static comet_status check_protocol(pickle *p)
{
    uint64_t protocol = 0;
    TRY(take_number(p, 1, &protocol));
    return protocol >= 2 && protocol <= MAX_PROTOCOL ? COMET_OK : malformed(p, "its protocol is none of 2 to 5");
}

static comet_status check_frame(pickle *p)
{
    uint64_t bytes = 0;
    TRY(take_number(p, 8, &bytes));
    return bytes <= p->bytes - p->at ? COMET_OK : malformed(p, "a frame is cut short");
}

static comet_status begin_mark(pickle *p)
{
    if (p->n_marks == MAX_MARKS)
        return too_much(p, "lists and tuples too deep in one another");
    p->marks[p->n_marks++] = p->stack.n;
    return COMET_OK;
}

static comet_status run_values(pickle *p, unsigned char code)
{
    uint64_t n = 0;
    const unsigned char *ignored = NULL;
    switch (code) {
    case 'N':
    case 0x88:
    case 0x89: return push_plain(p);
    case 'G': TRY(take(p, 8, &ignored)); return push_plain(p);
    case 'J': TRY(take_number(p, 4, &n)); return push_number(p, (int32_t)(uint32_t)n);
    case 'K': TRY(take_number(p, 1, &n)); return push_number(p, (int64_t)n);
    case 'M': TRY(take_number(p, 2, &n)); return push_number(p, (int64_t)n);
    case 0x8a: return push_long(p, 1);
    case 0x8b: return push_long(p, 4);
    case 'X':
    case 'T': return push_text(p, 4, PICKLE_TEXT);
    case 'U':
    case 0x8c: return push_text(p, 1, PICKLE_TEXT);
    case 0x8d: return push_text(p, 8, PICKLE_TEXT);
    case 'C': return push_text(p, 1, PICKLE_PLAIN);
    case 'B': return push_text(p, 4, PICKLE_PLAIN);
    case 0x8e:
    case 0x96: return push_text(p, 8, PICKLE_PLAIN);
    default: return refuse_opcode(p, code);
    }
}

static comet_status run_collections(pickle *p, unsigned char code)
{
    switch (code) {
    case ')':
    case ']':
    case 0x8f: return collect(p, PICKLE_LIST, 0);
    case 0x85: return collect(p, PICKLE_LIST, 1);
    case 0x86: return collect(p, PICKLE_LIST, 2);
    case 0x87: return collect(p, PICKLE_LIST, 3);
    case 't':
    case 'l':
    case 0x91: return collect_marked(p, PICKLE_LIST);
    case '}': return collect(p, PICKLE_DICT, 0);
    case 'd': return collect_marked(p, PICKLE_DICT);
    case 'a': return add_items(p, "APPEND", PICKLE_LIST, 1);
    case 'e':
    case 0x90: return add_marked(p, "APPENDS", PICKLE_LIST);
    case 's': return add_items(p, "SETITEM", PICKLE_DICT, 2);
    case 'u': return add_marked(p, "SETITEMS", PICKLE_DICT);
    default: return run_values(p, code);
    }
}

static comet_status run_opcode(pickle *p, unsigned char code)
{
    uint32_t object = 0;
    uint64_t index = 0;
    size_t n = 0;
    switch (code) {
    case 0x80: return check_protocol(p);
    case 0x95: return check_frame(p);
    case '(': return begin_mark(p);
    case '0': return pop(p, &object);
    case '1':
        TRY(end_mark(p, &n));
        p->stack.n -= n;
        return COMET_OK;
    case '2': TRY(peek(p, &object)); return push(p, object);
    case 'q': TRY(take_number(p, 1, &index)); return put(p, index);
    case 'r': TRY(take_number(p, 4, &index)); return put(p, index);
    case 0x94: return put(p, p->memo.n);
    case 'h': return get(p, 1);
    case 'j': return get(p, 4);
    case 'c': return global_of_lines(p);
    case 0x93: return global_of_stack(p);
    case 'Q': return push_storage(p);
    case 'R': return call(p);
    case 'b': return build(p);
    default: return run_collections(p, code);
    }
}

static comet_status run(pickle *p, uint32_t *root, size_t *used)
{
    for (;;) {
        const unsigned char *code = NULL;
        p->op_at = p->at;
        TRY(take(p, 1, &code));
        if (*code == '.')
            break;
        TRY(run_opcode(p, *code));
    }
    if (p->n_marks > 0 || p->stack.n != 1)
        return malformed(p, "it does not end with one object");
    *root = p->stack.items[0];
    *used = p->at;
    return COMET_OK;
}

comet_status pickle_run(pickle **p, const char *path, const void *data, size_t bytes, uint32_t *root, size_t *used)
{
    pickle *made = calloc(1, sizeof *made);
    *p = NULL;
    if (!made)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory while reading the pickle of %s", path);
    made->path = path;
    made->data = data;
    made->bytes = bytes;
    const comet_status status = run(made, root, used);
    if (status == COMET_OK)
        *p = made;
    else
        pickle_free(made);
    return status;
}

void pickle_free(pickle *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->n_objects; i++)
        if (p->objects[i].kind == PICKLE_LIST || p->objects[i].kind == PICKLE_DICT)
            free(p->objects[i].as.items);
    free(p->objects);
    free(p->stack.items);
    free(p->memo.items);
    free(p->storages);
    free(p->tensors);
    free(p);
}

const pickle_object *pickle_at(const pickle *p, uint32_t object)
{
    return &p->objects[object];
}

bool pickle_is_text(const pickle *p, uint32_t object, const char *text)
{
    const pickle_object *o = &p->objects[object];
    return o->kind == PICKLE_TEXT && equals(text, o->as.text, o->n);
}

const pickle_tensor *pickle_tensor_at(const pickle *p, uint32_t object)
{
    return &p->tensors[p->objects[object].as.index];
}

const pickle_storage *pickle_storages(const pickle *p, size_t *n)
{
    *n = p->n_storages;
    return p->storages;
}

/* NOLINTEND(clang-analyzer-core.NullDereference) */
