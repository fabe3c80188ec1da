/* The frames of the running thread, for every supported version of CPython. */

#if PY_VERSION_HEX < 0x030B0000

typedef PyFrameObject Frame;
#define FRAME_TOP(thread) ((thread)->frame)
#define FRAME_BACK(frame) ((frame)->f_back)
#define FRAME_CODE(frame) ((frame)->f_code)
#define FRAME_WHERE(frame) ((uintptr_t)(frame)->f_lasti)
#define FRAME_HIDDEN(frame) 0

#else

typedef _PyInterpreterFrame Frame;
#define FRAME_BACK(frame) ((frame)->previous)
#define FRAME_HIDDEN(frame) _PyFrame_IsIncomplete(frame)
#if PY_VERSION_HEX < 0x030D0000
#define FRAME_TOP(thread) ((thread)->cframe->current_frame)
#define FRAME_CODE(frame) ((frame)->f_code)
#define FRAME_WHERE(frame) ((uintptr_t)(frame)->prev_instr)
#else
#define FRAME_TOP(thread) ((thread)->current_frame)
#define FRAME_CODE(frame) ((PyCodeObject *)(frame)->f_executable)
#define FRAME_WHERE(frame) ((uintptr_t)(frame)->instr_ptr)
#endif

#endif

static inline Frame *
next_visible(Frame *frame)
{
    while (frame != NULL && FRAME_HIDDEN(frame)) {
        frame = FRAME_BACK(frame);
    }
    return frame;
}

/* Owners of code objects, by address. The table keeps the code alive. */

enum { UNKNOWN = 0, OTHERS, AGENTS, TARGETS };

typedef struct {
    PyCodeObject *code;
    int owner;
} CodeEntry;

static CodeEntry *codes;
static size_t codes_size, codes_used;

static inline size_t
pointer_hash(const void *pointer)
{
    return (size_t)(((uintptr_t)pointer >> 4) * 0x9E3779B97F4A7C15ULL >> 20);
}

static inline int
owner_of(PyCodeObject *code)
{
    if (codes_size == 0) {
        return UNKNOWN;
    }
    size_t mask = codes_size - 1, at = pointer_hash(code) & mask;
    while (codes[at].code != NULL) {
        if (codes[at].code == code) {
            return codes[at].owner;
        }
        at = (at + 1) & mask;
    }
    return UNKNOWN;
}

static void
put_owner(CodeEntry *entries, size_t size, PyCodeObject *code, int owner)
{
    size_t at = pointer_hash(code) & (size - 1);
    while (entries[at].code != NULL && entries[at].code != code) {
        at = (at + 1) & (size - 1);
    }
    entries[at] = (CodeEntry){code, owner};
}

/* Only for code that isn't in the table yet. */
static void
learn_owner(PyCodeObject *code, int owner)
{
    if (codes_used * 2 >= codes_size) {
        size_t size = codes_size ? codes_size * 2 : 1024;
        CodeEntry *entries = calloc(size, sizeof(CodeEntry));
        if (entries == NULL) {
            return;
        }
        for (size_t i = 0; i < codes_size; i++) {
            if (codes[i].code != NULL) {
                put_owner(entries, size, codes[i].code, codes[i].owner);
            }
        }
        free(codes);
        codes = entries;
        codes_size = size;
    }
    Py_INCREF(code);
    put_owner(codes, codes_size, code, owner);
    codes_used++;
}

/* Stacks: the sites of the target's frames, compared in full, lead to the Python object that names them. */

#define DEPTH_MAX 30
#define STACKS_MAX 50000

typedef struct {
    PyCodeObject *code;
    uintptr_t where;
} Site;

typedef struct {
    uint64_t hash;
    uint32_t id;
    int count;
    PyObject *stack;
    Site sites[];
} StackEntry;

static StackEntry **stacks;
static size_t stacks_size, stacks_used;

static void
forget_stacks(void)
{
    StackEntry **old = stacks;
    size_t size = stacks_size;
    stacks = NULL;
    stacks_size = stacks_used = 0;
    for (size_t i = 0; i < size; i++) {
        if (old[i] != NULL) {
            Py_DECREF(old[i]->stack);
            free(old[i]);
        }
    }
    free(old);
}

static void
forget_codes(void)
{
    CodeEntry *old = codes;
    size_t size = codes_size;
    codes = NULL;
    codes_size = codes_used = 0;
    forget_stacks();
    /* Releasing code may run other code: by now nobody finds the table any more. */
    for (size_t i = 0; i < size; i++) {
        Py_XDECREF(old[i].code);
    }
    free(old);
}

/* The sites of the target's frames, or of the innermost frame outside the agent; -1 if some code is unknown. */
static int
walk(Frame *frame, Site *sites)
{
    Frame *other = NULL;
    int count = 0;
    for (; frame != NULL; frame = FRAME_BACK(frame)) {
        if (FRAME_HIDDEN(frame)) {
            continue;
        }
        PyCodeObject *code = FRAME_CODE(frame);
        int owner = owner_of(code);
        if (owner == TARGETS) {
            sites[count++] = (Site){code, FRAME_WHERE(frame)};
            if (count == DEPTH_MAX) {
                break;
            }
        } else if (owner == UNKNOWN) {
            return -1;
        } else if (owner == OTHERS && other == NULL) {
            other = frame;
        }
    }
    if (count == 0 && other != NULL) {
        sites[count++] = (Site){FRAME_CODE(other), FRAME_WHERE(other)};
    }
    return count;
}

static inline uint64_t
sites_hash(const Site *sites, int count)
{
    uint64_t hash = 1469598103934665603ULL;
    for (int i = 0; i < count; i++) {
        hash = (hash ^ (uint64_t)(uintptr_t)sites[i].code) * 1099511628211ULL;
        hash = (hash ^ (uint64_t)sites[i].where) * 1099511628211ULL;
        hash ^= hash >> 29;
    }
    return hash;
}

static inline StackEntry *
known_stack(const Site *sites, int count, uint64_t hash)
{
    if (stacks_size == 0) {
        return NULL;
    }
    size_t mask = stacks_size - 1, at = hash & mask;
    for (; stacks[at] != NULL; at = (at + 1) & mask) {
        StackEntry *entry = stacks[at];
        if (entry->hash == hash && entry->count == count &&
            memcmp(entry->sites, sites, (size_t)count * sizeof(Site)) == 0) {
            return entry;
        }
    }
    return NULL;
}

static StackEntry *
learn_stack(const Site *sites, int count, uint64_t hash, PyObject *stack, uint32_t id)
{
    if (stacks_used >= STACKS_MAX) {
        forget_stacks();
    }
    if (stacks_used * 2 >= stacks_size) {
        size_t size = stacks_size ? stacks_size * 2 : 1024;
        StackEntry **entries = calloc(size, sizeof(StackEntry *));
        if (entries == NULL) {
            return NULL;
        }
        for (size_t i = 0; i < stacks_size; i++) {
            if (stacks[i] != NULL) {
                size_t at = stacks[i]->hash & (size - 1);
                while (entries[at] != NULL) {
                    at = (at + 1) & (size - 1);
                }
                entries[at] = stacks[i];
            }
        }
        free(stacks);
        stacks = entries;
        stacks_size = size;
    }
    StackEntry *entry = malloc(sizeof(StackEntry) + (size_t)count * sizeof(Site));
    if (entry == NULL) {
        return NULL;
    }
    entry->hash = hash;
    entry->id = id;
    entry->count = count;
    entry->stack = stack;
    Py_INCREF(stack);
    memcpy(entry->sites, sites, (size_t)count * sizeof(Site));
    size_t at = hash & (stacks_size - 1);
    while (stacks[at] != NULL) {
        at = (at + 1) & (stacks_size - 1);
    }
    stacks[at] = entry;
    stacks_used++;
    return entry;
}
