/* The event file, as wire/writer.py writes it: one chunk per thread, the length of a record written last.
 *
 * Everything here runs with the interpreter's lock held and calls no Python code, so it needs no other lock. */

#define CHUNK 65536
#define MAGIC "UMC1"
#define TEXT_MAX 4000
#define INTERNED_MAX 100000

enum { PROCESS = 1, STRING, FRAME, STACK, BEGIN, END, RECEIPT };

/* The agent's data for one thread, with the thread's position in its chunk. */
typedef struct {
    PyObject_HEAD
    char busy;
    char scratch;
    PyObject *name;
    PyObject *named; /* the name that `name_id` stands for */
    uint32_t name_id, name_epoch;
    int unnamed; /* operations since the name was last looked up */
    uint32_t epoch;
    uint32_t position;
    uint8_t *chunk;
    PyObject *logical_call; /* the logical operation under way */
    unsigned int extent, pauses; /* the last handler and sleep, if accesses to the heap are recorded */
    PyObject *heap;
} State;

typedef struct {
    uint8_t *chunk;
    uint32_t position;
} Rest;

typedef struct {
    PyObject_HEAD
    char *path;
    uint32_t epoch;
    uint32_t chunks;
    int failed;
    PyObject *strings;
    uint32_t string_ids, frame_ids, stack_ids, sequence;
    Rest *rests; /* unused parts of chunks that ended threads left */
    size_t rests_used, rests_size;
} Writer;

static Writer *writer;      /* the current writer */
static uint32_t epoch_last; /* each event file has its own number */
static int forked;          /* this process is a child that has no event file yet */

static inline int64_t
now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t clock_speed = 1, clock_origin; /* of the process's clock, as in wire/clock.py */

/* A moment of the process's clock, as the tool's clock shows it. */
static inline int64_t
true_ns(int64_t t_ns)
{
    return clock_speed == 1 ? t_ns : clock_origin + (t_ns - clock_origin) / clock_speed;
}

/* A new chunk at the end of the file; NULL if the file cannot grow. */
static uint8_t *
grow(Writer *w)
{
    if (w->failed) {
        return NULL;
    }
    int fd = open(w->path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        /* A target that has run out of descriptors may get one later. */
        w->failed = errno != EMFILE && errno != ENFILE;
        return NULL;
    }
    off_t offset = (off_t)w->chunks * CHUNK;
    int status;
    do {
        status = posix_fallocate(fd, offset, CHUNK);
    } while (status == EINTR);
    void *chunk = MAP_FAILED;
    if (status == 0) {
        chunk = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, offset);
    }
    close(fd);
    if (chunk == MAP_FAILED) {
        w->failed = 1;
        return NULL;
    }
    memcpy(chunk, MAGIC, 4);
    w->chunks++;
    return chunk;
}

static void
leave_chunk(State *s)
{
    if (s->chunk != NULL) {
        if (s->scratch) {
            free(s->chunk);
        } else {
            munmap(s->chunk, CHUNK);
        }
        s->chunk = NULL;
    }
}

static void
fresh_chunk(State *s)
{
    leave_chunk(s);
    s->epoch = writer->epoch;
    s->chunk = grow(writer);
    s->scratch = s->chunk == NULL;
    if (s->scratch) {
        s->chunk = calloc(1, CHUNK);
    }
    s->position = 4;
}

/* The position of the next record of this size; NULL only if there is no memory at all. */
static inline uint8_t *
room(State *s, uint32_t size)
{
    if (s->epoch != writer->epoch || s->chunk == NULL) {
        leave_chunk(s);
        if (writer->rests_used > 0) {
            Rest rest = writer->rests[--writer->rests_used];
            s->chunk = rest.chunk;
            s->position = rest.position;
            s->scratch = 0;
            s->epoch = writer->epoch;
        } else {
            fresh_chunk(s);
        }
    }
    if (s->position + size > CHUNK) {
        fresh_chunk(s);
    }
    return s->chunk == NULL ? NULL : s->chunk + s->position;
}

static inline void
commit(State *s, uint8_t *record, uint32_t size)
{
    /* Not an atomic store: records begin anywhere, and some machines require alignment for those. */
    __atomic_thread_fence(__ATOMIC_RELEASE);
    memcpy(record, &size, sizeof(size));
    s->position += size;
}

/* Records need not be aligned. */
#define PUT(at, type, value)             \
    do {                                 \
        type value_ = (type)(value);     \
        memcpy(at, &value_, sizeof(type)); \
        at += sizeof(type);              \
    } while (0)

static void
put_bytes(State *s, const void *head, uint32_t head_size, const void *body, uint32_t body_size)
{
    uint32_t size = 4 + head_size + body_size;
    uint8_t *record = size <= CHUNK - 4 ? room(s, size) : NULL;
    if (record != NULL) {
        memcpy(record + 4, head, head_size);
        memcpy(record + 4 + head_size, body, body_size);
        commit(s, record, size);
    }
}

static inline void
put_begin(State *s, uint32_t seq, int64_t t_ns, uint32_t op, uint32_t stack, uint32_t target, uint32_t resource,
          uint32_t thread, int64_t size)
{
    uint8_t *record = room(s, 45), *at;
    if (record == NULL) {
        return;
    }
    at = record + 4;
    PUT(at, uint8_t, BEGIN);
    PUT(at, uint32_t, seq);
    PUT(at, int64_t, true_ns(t_ns));
    PUT(at, uint32_t, op);
    PUT(at, uint32_t, stack);
    PUT(at, uint32_t, target);
    PUT(at, uint32_t, resource);
    PUT(at, uint32_t, thread);
    PUT(at, int64_t, size);
    commit(s, record, 45);
}

static inline void
put_end(State *s, uint32_t seq, int64_t t_ns, int64_t result, uint32_t error)
{
    uint8_t *record = room(s, 29), *at;
    if (record == NULL) {
        return;
    }
    at = record + 4;
    PUT(at, uint8_t, END);
    PUT(at, uint32_t, seq);
    PUT(at, int64_t, true_ns(t_ns));
    PUT(at, int64_t, result);
    PUT(at, uint32_t, error);
    commit(s, record, 29);
}

/* The id of a text, defined at its first use; 0 with an exception set on failure. */
static uint32_t
string_id(State *s, PyObject *text)
{
    PyObject *known = PyDict_GetItemWithError(writer->strings, text);
    if (known != NULL) {
        return (uint32_t)PyLong_AsUnsignedLong(known);
    }
    if (PyErr_Occurred()) {
        return 0;
    }
    PyObject *data = PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace");
    if (data == NULL) {
        return 0;
    }
    uint32_t number = ++writer->string_ids;
    Py_ssize_t size = PyBytes_GET_SIZE(data);
    uint8_t head[5], *at = head;
    PUT(at, uint8_t, STRING);
    PUT(at, uint32_t, number);
    put_bytes(s, head, 5, PyBytes_AS_STRING(data), size > TEXT_MAX ? TEXT_MAX : (uint32_t)size);
    Py_DECREF(data);
    if (PyDict_GET_SIZE(writer->strings) < INTERNED_MAX) {
        PyObject *id = PyLong_FromUnsignedLong(number);
        if (id == NULL || PyDict_SetItem(writer->strings, text, id) < 0) {
            PyErr_Clear();
        }
        Py_XDECREF(id);
    }
    return number;
}

/* --- the type of threads' states */

static void tls_forget(State *s);

static PyObject *
State_new(PyTypeObject *type, PyObject *args, PyObject *options)
{
    State *s = (State *)type->tp_alloc(type, 0);
    if (s != NULL) {
        s->name = PyUnicode_FromString("");
    }
    return (PyObject *)s;
}

static void
State_dealloc(State *s)
{
    tls_forget(s);
    if (s->chunk != NULL && !s->scratch && writer != NULL && s->epoch == writer->epoch) {
        if (writer->rests_used == writer->rests_size) {
            size_t size = writer->rests_size ? writer->rests_size * 2 : 16;
            Rest *rests = realloc(writer->rests, size * sizeof(Rest));
            if (rests != NULL) {
                writer->rests = rests;
                writer->rests_size = size;
            }
        }
        if (writer->rests_used < writer->rests_size) {
            writer->rests[writer->rests_used++] = (Rest){s->chunk, s->position};
            s->chunk = NULL;
        }
    }
    leave_chunk(s);
    Py_XDECREF(s->name);
    Py_XDECREF(s->named);
    Py_XDECREF(s->logical_call);
    Py_XDECREF(s->heap);
    Py_TYPE(s)->tp_free((PyObject *)s);
}

static PyObject *
State_cursor(State *s, void *unused)
{
    Py_INCREF(s);
    return (PyObject *)s;
}

static PyMemberDef State_members[] = {
    {"busy", T_BOOL, offsetof(State, busy), 0, NULL},
    {"name", T_OBJECT_EX, offsetof(State, name), 0, NULL},
    {"logical_call", T_OBJECT, offsetof(State, logical_call), 0, NULL},
    {"extent", T_UINT, offsetof(State, extent), 0, NULL},
    {"pauses", T_UINT, offsetof(State, pauses), 0, NULL},
    {"heap", T_OBJECT, offsetof(State, heap), 0, NULL},
    {NULL},
};
static PyGetSetDef State_getset[] = {{"cursor", (getter)State_cursor, NULL, NULL, NULL}, {NULL}};

static PyTypeObject StateType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "undermine_agent.ThreadState",
    .tp_basicsize = sizeof(State),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = State_new,
    .tp_dealloc = (destructor)State_dealloc,
    .tp_members = State_members,
    .tp_getset = State_getset,
};

/* --- the type of writers */

static int
Writer_init(Writer *w, PyObject *args, PyObject *options)
{
    PyObject *path;
    if (!PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &path)) {
        return -1;
    }
    /* Never reuse a file: another program may have had the same pid, or may still have the file mapped. */
    int fd = open(PyBytes_AS_STRING(path), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        Py_DECREF(path);
        return -1;
    }
    close(fd);
    w->path = strdup(PyBytes_AS_STRING(path));
    Py_DECREF(path);
    w->strings = PyDict_New();
    PyObject *zero = PyLong_FromLong(0);
    if (w->path == NULL || w->strings == NULL || zero == NULL || PyDict_SetItemString(w->strings, "", zero) < 0) {
        Py_XDECREF(zero);
        return -1;
    }
    Py_DECREF(zero);
    w->epoch = ++epoch_last;
    Py_INCREF(w);
    Writer *old = writer;
    writer = w;
    forked = 0;
    Py_XDECREF(old);
    return 0;
}

static void
Writer_dealloc(Writer *w)
{
    for (size_t i = 0; i < w->rests_used; i++) {
        munmap(w->rests[i].chunk, CHUNK);
    }
    free(w->rests);
    free(w->path);
    Py_XDECREF(w->strings);
    Py_TYPE(w)->tp_free((PyObject *)w);
}

static PyObject *
Writer_string(Writer *w, PyObject *args)
{
    State *s;
    PyObject *text;
    if (!PyArg_ParseTuple(args, "O!U", &StateType, &s, &text)) {
        return NULL;
    }
    uint32_t id = string_id(s, text);
    return PyErr_Occurred() ? NULL : PyLong_FromUnsignedLong(id);
}

static PyObject *
Writer_process(Writer *w, PyObject *args)
{
    State *s;
    const char *text;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "O!s#", &StateType, &s, &text, &size)) {
        return NULL;
    }
    uint8_t head = PROCESS;
    put_bytes(s, &head, 1, text, (uint32_t)size);
    Py_RETURN_NONE;
}

static PyObject *
Writer_frame(Writer *w, PyObject *args)
{
    State *s;
    PyObject *loc;
    unsigned int line;
    if (!PyArg_ParseTuple(args, "O!UI", &StateType, &s, &loc, &line)) {
        return NULL;
    }
    uint32_t text = string_id(s, loc), number = ++w->frame_ids;
    if (PyErr_Occurred()) {
        return NULL;
    }
    uint8_t head[13], *at = head;
    PUT(at, uint8_t, FRAME);
    PUT(at, uint32_t, number);
    PUT(at, uint32_t, text);
    PUT(at, uint32_t, line);
    put_bytes(s, head, 13, "", 0);
    return PyLong_FromUnsignedLong(number);
}

static PyObject *
Writer_stack(Writer *w, PyObject *args)
{
    State *s;
    PyObject *frames;
    if (!PyArg_ParseTuple(args, "O!O!", &StateType, &s, &PyTuple_Type, &frames)) {
        return NULL;
    }
    uint32_t ids[DEPTH_MAX], number = ++w->stack_ids;
    Py_ssize_t count = PyTuple_GET_SIZE(frames);
    if (count > DEPTH_MAX) {
        count = DEPTH_MAX;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        ids[i] = (uint32_t)PyLong_AsUnsignedLong(PyTuple_GET_ITEM(frames, i));
    }
    if (PyErr_Occurred()) {
        return NULL;
    }
    uint8_t head[7], *at = head;
    PUT(at, uint8_t, STACK);
    PUT(at, uint32_t, number);
    PUT(at, uint16_t, count);
    put_bytes(s, head, 7, ids, (uint32_t)count * 4);
    return PyLong_FromUnsignedLong(number);
}

static PyObject *
Writer_receipt(Writer *w, PyObject *args)
{
    State *s;
    unsigned int seq, action, detail;
    long long t_ns, held_ns;
    unsigned short step;
    if (!PyArg_ParseTuple(args, "O!ILHLII", &StateType, &s, &seq, &t_ns, &step, &held_ns, &action, &detail)) {
        return NULL;
    }
    uint8_t head[31], *at = head;
    PUT(at, uint8_t, RECEIPT);
    PUT(at, uint32_t, seq);
    PUT(at, int64_t, true_ns(t_ns));
    PUT(at, uint16_t, step);
    PUT(at, int64_t, held_ns / clock_speed);
    PUT(at, uint32_t, action);
    PUT(at, uint32_t, detail);
    put_bytes(s, head, 31, "", 0);
    Py_RETURN_NONE;
}

static PyMethodDef Writer_methods[] = {
    {"string", (PyCFunction)Writer_string, METH_VARARGS, NULL},
    {"process", (PyCFunction)Writer_process, METH_VARARGS, NULL},
    {"frame", (PyCFunction)Writer_frame, METH_VARARGS, NULL},
    {"stack", (PyCFunction)Writer_stack, METH_VARARGS, NULL},
    {"receipt", (PyCFunction)Writer_receipt, METH_VARARGS, NULL},
    {NULL},
};

static PyTypeObject WriterType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "undermine_agent.Writer",
    .tp_basicsize = sizeof(Writer),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)Writer_init,
    .tp_dealloc = (destructor)Writer_dealloc,
    .tp_methods = Writer_methods,
};
