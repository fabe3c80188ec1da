/* Redirects built-in functions to the agent by changing their definitions in place.
 *
 * The function object stays the same: it pickles, binds, hashes and compares as before, and earlier references to it
 * are redirected too. Frequent and simple calls are handled here ("native"). All other calls, and all for which a
 * fault may have to be decided, go to the Python hook. */

enum { FORM_PLAIN, FORM_KEYWORDS, FORM_FAST, FORM_FAST_KEYWORDS, FORM_METHOD, FORMS };
enum { NATIVE_NONE, NATIVE_OBSERVE, NATIVE_FD, NATIVE_RAW, NATIVE_SOCKET, NATIVE_PATH, NATIVE_TAKE, NATIVE_PAIR, NATIVE_SOON };
enum { SIZE_NONE, SIZE_NUMBER, SIZE_LENGTH };
enum { MEASURE_NONE, MEASURE_RESULT, MEASURE_TRUE };

#define SUBJECTS_MAX 10000
#define SLOTS_MAX 256

typedef struct {
    int native, size, size_at, measure, args_max;
    Operation *operation;
    PyObject *subject; /* for observed operations: a Subject, or a label for the object itself */
    PyObject *known;   /* known descriptors, sockets or paths: a dictionary */
    PyObject *parts;   /* sockets whose operations are parts of others; tasks whose steps are taken: a dictionary */
    PyObject *others;  /* descriptors of pipes; contexts of callbacks whose handles are not known yet; code left out: a dictionary */
    Operation *other;  /* the operation when the descriptor is a pipe */
    PyObject *ended;   /* called with a task that has ended */
    PyObject *subjects;
} Native;

typedef struct {
    PyCFunction original;
    int flags;
    int is_method;
    PyTypeObject *type;
    PyObject *hook;
    Native native;
} Slot;

static Slot slots[SLOTS_MAX];
static int slots_used;
static const uint8_t *ports; /* in the shared state: which node opened a connection, by its slot */

/* A call as it came in, to be passed on unchanged. */
typedef struct {
    const Slot *slot;
    int form;
    PyObject *self, *arg, *options;
    PyObject *const *args;
    Py_ssize_t count;
    PyTypeObject *cls;
} Raw;

static PyObject *
call_original(const Raw *raw)
{
    void *function = (void *)raw->slot->original;
    switch (raw->form) {
    case FORM_PLAIN:
        return ((PyCFunction)function)(raw->self, raw->arg);
    case FORM_KEYWORDS:
        return ((PyCFunctionWithKeywords)function)(raw->self, raw->arg, raw->options);
    case FORM_FAST:
        return ((_PyCFunctionFast)function)(raw->self, raw->args, raw->count);
    case FORM_FAST_KEYWORDS:
        return ((_PyCFunctionFastWithKeywords)function)(raw->self, raw->args, raw->count, raw->options);
    default:
        return ((PyCMethod)function)(raw->self, raw->cls, raw->args, (size_t)raw->count, raw->options);
    }
}

static inline int
is_tuple_form(const Raw *raw)
{
    return raw->form == FORM_KEYWORDS || (raw->form == FORM_PLAIN && raw->slot->flags & METH_VARARGS);
}

static inline Py_ssize_t
positional(const Raw *raw, PyObject *const **args)
{
    if (is_tuple_form(raw)) {
        *args = ((PyTupleObject *)raw->arg)->ob_item;
        return PyTuple_GET_SIZE(raw->arg);
    }
    if (raw->form == FORM_PLAIN) {
        *args = &raw->arg;
        return raw->arg != NULL;
    }
    *args = raw->args;
    return raw->count;
}

static inline int
has_options(const Raw *raw)
{
    if (raw->options == NULL) {
        return 0;
    }
    return raw->form == FORM_KEYWORDS ? PyDict_GET_SIZE(raw->options) > 0 : PyTuple_GET_SIZE(raw->options) > 0;
}

/* --- hiding: the agent's frames appear neither in tracebacks nor as the caller of the original */

static int
is_agents(PyCodeObject *code)
{
    int owner = owner_of(code);
    if (owner == UNKNOWN && agent_dir != NULL && PyUnicode_Tailmatch(code->co_filename, agent_dir, 0, PY_SSIZE_T_MAX, -1) == 1) {
        learn_owner(code, owner = AGENTS);
    }
    return owner == AGENTS;
}

static inline Frame *
frame_of_host(Frame *top)
{
    Frame *frame = top;
    while (frame != NULL && (FRAME_HIDDEN(frame) || is_agents(FRAME_CODE(frame)))) {
        frame = FRAME_BACK(frame);
    }
    return frame == NULL ? top : frame;
}

static int
is_agents_entry(PyObject *entry)
{
    PyCodeObject *code = PyFrame_GetCode(((PyTracebackObject *)entry)->tb_frame);
    int found = is_agents(code);
    Py_DECREF(code);
    return found;
}

/* Returns the hook's result, and removes the agent's frames from the traceback of its error. */
static PyObject *
without_us(PyObject *result)
{
    if (result != NULL) {
        return result;
    }
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    while (traceback != NULL && PyTraceBack_Check(traceback) && is_agents_entry(traceback)) {
        PyObject *next = (PyObject *)((PyTracebackObject *)traceback)->tb_next;
        Py_XINCREF(next);
        Py_DECREF(traceback);
        traceback = next;
    }
    PyErr_Restore(type, value, traceback);
    return NULL;
}

/* The original as hooks get it: its caller is the caller of the hook. */
typedef struct {
    PyObject_HEAD
    PyObject *original;
    vectorcallfunc vectorcall;
} Original;

static PyObject *
Original_call(Original *self, PyObject *const *args, size_t count, PyObject *names)
{
    PyThreadState *thread = this_thread();
    Frame *top = FRAME_TOP(thread);
    FRAME_TOP(thread) = frame_of_host(top);
    PyObject *result = PyObject_Vectorcall(self->original, args, count, names);
    FRAME_TOP(thread) = top;
    return result;
}

static PyObject *
Original_getattro(PyObject *self, PyObject *name)
{
    return PyObject_GetAttr(((Original *)self)->original, name);
}

static int
Original_traverse(Original *self, visitproc visit, void *arg)
{
    Py_VISIT(self->original);
    return 0;
}

static void
Original_dealloc(Original *self)
{
    PyObject_GC_UnTrack(self);
    Py_XDECREF(self->original);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *
Original_new(PyTypeObject *type, PyObject *args, PyObject *options)
{
    PyObject *original;
    if (!PyArg_ParseTuple(args, "O", &original)) {
        return NULL;
    }
    Original *self = (Original *)type->tp_alloc(type, 0);
    if (self != NULL) {
        Py_INCREF(original);
        self->original = original;
        self->vectorcall = (vectorcallfunc)Original_call;
    }
    return (PyObject *)self;
}

static PyTypeObject OriginalType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "undermine_agent.original",
    .tp_basicsize = sizeof(Original),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = Original_new,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Original, vectorcall),
    .tp_getattro = Original_getattro,
    .tp_traverse = (traverseproc)Original_traverse,
    .tp_dealloc = (destructor)Original_dealloc,
};

/* The hook that `make` creates for an original. */
static PyObject *
made_hook(PyObject *make, PyObject *original)
{
    PyObject *shown = PyObject_CallFunctionObjArgs((PyObject *)&OriginalType, original, NULL);
    PyObject *hook = shown ? PyObject_CallFunctionObjArgs(make, shown, NULL) : NULL;
    Py_XDECREF(shown);
    return hook;
}

static PyObject *
call_hook(const Raw *raw)
{
    PyObject *const *args;
    Py_ssize_t count = positional(raw, &args), named = 0;
    int first = raw->slot->is_method;
    if (raw->form != FORM_KEYWORDS && raw->options != NULL) {
        named = PyTuple_GET_SIZE(raw->options);
    }
    PyObject *few[12], **all = few;
    if (count + named + 2 > 12) {
        all = PyMem_Malloc((size_t)(count + named + 2) * sizeof(PyObject *));
        if (all == NULL) {
            return PyErr_NoMemory();
        }
    }
    all[1] = raw->self;
    memcpy(all + 1 + first, args, (size_t)(count + named) * sizeof(PyObject *));
    PyObject *result;
    if (raw->form == FORM_KEYWORDS) {
        result = PyObject_VectorcallDict(raw->slot->hook, all + 1, (size_t)(count + first) | PY_VECTORCALL_ARGUMENTS_OFFSET,
                                         raw->options);
    } else {
        result = PyObject_Vectorcall(raw->slot->hook, all + 1, (size_t)(count + first) | PY_VECTORCALL_ARGUMENTS_OFFSET,
                                     raw->options);
    }
    if (all != few) {
        PyMem_Free(all);
    }
    return without_us(result);
}

/* --- native handling */

/* The length of the data to be moved; -1 if only Python can tell. */
static inline int64_t
data_length(PyObject *data)
{
    if (PyBytes_CheckExact(data)) {
        return PyBytes_GET_SIZE(data);
    }
    if (PyMemoryView_Check(data)) {
        Py_buffer *view = PyMemoryView_GET_BUFFER(data);
        return view->obj == NULL ? -1 : view->len;
    }
    return PyByteArray_CheckExact(data) ? PyByteArray_GET_SIZE(data) : -1;
}

static inline int64_t
asked_size(const Native *native, PyObject *const *args, Py_ssize_t count)
{
    if (native->size == SIZE_NONE || count <= native->size_at) {
        return 0;
    }
    PyObject *arg = args[native->size_at];
    if (native->size == SIZE_LENGTH) {
        return data_length(arg);
    }
    if (!PyLong_CheckExact(arg)) {
        return 0;
    }
    int overflow;
    int64_t number = PyLong_AsLongLongAndOverflow(arg, &overflow);
    return number > 0 && !overflow ? number : 0;
}

static inline int64_t
moved_size(const Native *native, PyObject *result)
{
    if (result == NULL || native->measure == MEASURE_NONE) {
        return 0;
    }
    if (native->measure == MEASURE_TRUE) {
        return result == Py_True;
    }
    if (PyBytes_Check(result)) {
        return PyBytes_GET_SIZE(result);
    }
    if (PyTuple_Check(result) && PyTuple_GET_SIZE(result) > 0) {
        result = PyTuple_GET_ITEM(result, 0);
        if (PyBytes_Check(result)) {
            return PyBytes_GET_SIZE(result);
        }
    }
    int overflow;
    return PyLong_Check(result) ? PyLong_AsLongLongAndOverflow(result, &overflow) : 0;
}

/* Passes a call on, and records its beginning and end. `pass` does the calling. */
typedef PyObject *(*Pass)(const void *what);

static inline PyObject *
recorded(const Native *native, PyThreadState *thread, State *s, PyObject *subject, int64_t size, Pass pass,
         const void *what)
{
    Py_INCREF(subject);
    int64_t seq = begin_recorded(thread, s, native->operation, (Subject *)subject, size, 0);
    PyObject *result = seq < 0 ? NULL : pass(what);
    if (seq > 0) {
        end_recorded(thread, (uint32_t)seq, moved_size(native, result));
    }
    Py_DECREF(subject);
    return result;
}

/* The same for non-blocking calls: one that would have to wait leaves no event. The exception is `sendall`, which may
 * have sent a part without saying how much. */
static inline PyObject *
recorded_if_done(const Native *native, PyThreadState *thread, PyObject *subject, int64_t size, const Raw *raw)
{
    int64_t t_ns = now_ns();
    Py_INCREF(subject);
    PyObject *result = call_original(raw);
    State *s = NULL;
    if (result != NULL || native->measure == MEASURE_NONE ||
        !(PyErr_ExceptionMatches(PyExc_BlockingIOError) || PyErr_ExceptionMatches(PyExc_InterruptedError))) {
        s = state_to_record(thread);
    }
    if (s != NULL) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        int64_t seq = begin_recorded(thread, s, native->operation, (Subject *)subject, size, t_ns);
        if (seq < 0) {
            Py_CLEAR(result);
            Py_XDECREF(type);
            Py_XDECREF(value);
            Py_XDECREF(traceback);
        } else {
            PyErr_Restore(type, value, traceback);
            if (seq > 0) {
                end_recorded(thread, (uint32_t)seq, moved_size(native, result));
            }
        }
    }
    Py_DECREF(subject);
    return result;
}

/* The subject of an observed call (borrowed); NULL if there is none. */
static PyObject *
observed_subject(Native *native, PyObject *object)
{
    if (!PyUnicode_Check(native->subject)) {
        return native->subject;
    }
    if (object == NULL) {
        return NULL;
    }
    PyObject *key = PyLong_FromVoidPtr(object);
    PyObject *subject = key ? PyDict_GetItemWithError(native->subjects, key) : NULL;
    if (subject == NULL && key != NULL && !PyErr_Occurred()) {
        if (PyDict_GET_SIZE(native->subjects) > SUBJECTS_MAX) {
            PyDict_Clear(native->subjects);
        }
        char address[24]; /* PyUnicode_FromFormat has no %zx before 3.12 */
        snprintf(address, sizeof(address), "%zx", (size_t)object);
        PyObject *resource = PyUnicode_FromFormat("%U@%s", native->subject, address);
        PyObject *made = resource ? PyObject_CallFunctionObjArgs((PyObject *)&SubjectType, native->subject, resource, NULL) : NULL;
        if (made != NULL && PyDict_SetItem(native->subjects, key, made) == 0) {
            subject = made; /* the dictionary keeps it alive */
        }
        Py_XDECREF(made);
        Py_XDECREF(resource);
    }
    Py_XDECREF(key);
    if (subject == NULL) {
        PyErr_Clear();
    }
    return subject;
}

static PyObject *
pass_raw(const void *raw)
{
    return call_original(raw);
}

static PyObject *
pass_raw_to_hook(const void *raw)
{
    return call_hook(raw);
}

/* Do the calls of all code count, except for some? Then, does this one? */
static int
counts_of_others(const Native *native, PyThreadState *thread)
{
    Frame *frame = native->others == NULL ? NULL : next_visible(FRAME_TOP(thread));
    PyObject *code = frame == NULL ? NULL : PyLong_FromVoidPtr(FRAME_CODE(frame));
    int is_left_out = code == NULL ? 1 : PyDict_Contains(native->others, code);
    Py_XDECREF(code);
    if (PyErr_Occurred()) {
        PyErr_Clear();
    }
    return is_left_out == 0;
}

/* Observes a call. If it isn't simple and the target's own code calls, the hook handles it. */
static inline PyObject *
observe(Native *native, PyThreadState *thread, PyObject *object, Pass pass, Pass to_hook, const void *what)
{
    int own = targets_own(thread);
    if (own < 0) {
        return NULL;
    }
    own = own || counts_of_others(native, thread);
    State *s = own ? state_to_record(thread) : NULL;
    if (s == NULL) {
        return pass(what);
    }
    PyObject *subject = native->subject == Py_None || !is_quiet(s, native->operation) ? NULL : observed_subject(native, object);
    return subject == NULL ? to_hook(what) : recorded(native, thread, s, subject, 0, pass, what);
}

/* The first fields of the objects of `_io.FileIO` and `_socket.socket`; checked before they are used. */
typedef struct {
    PyObject_HEAD
    int fd;
} RawFile;

typedef struct {
    PyObject_HEAD
    int fd, family, type, protocol;
    void *error_handler;
    int64_t timeout_ns;
} Socket;

static inline int
has_others(const Native *native)
{
    return native->others != NULL && PyDict_GET_SIZE(native->others) > 0;
}

/* A read or write of a descriptor that led to a pipe when it was last seen. */
static PyObject *
on_pipe(const Raw *raw, const Native *native, PyThreadState *thread, State *s, int fd, PyObject *end,
        PyObject *const *args, Py_ssize_t count)
{
    struct stat found;
    char name[32];
    int64_t size = asked_size(native, args, count);
    if (s == NULL) {
        return call_original(raw);
    }
    if (native->other == NULL || size < 0 || has_options(raw) || !PyObject_TypeCheck(end, &SubjectType) ||
        !is_quiet(s, native->other) || fstat(fd, &found) != 0) {
        return call_hook(raw);
    }
    snprintf(name, sizeof(name), "%s:%llu", S_ISSOCK(found.st_mode) ? "pair" : "pipe", (unsigned long long)found.st_ino);
    if (PyUnicode_CompareWithASCIIString(((Subject *)end)->resource, name) != 0) {
        return call_hook(raw);
    }
    Native piped = *native;
    piped.operation = native->other;
    if ((fcntl(fd, F_GETFL) & O_NONBLOCK) == 0) {
        return recorded(&piped, thread, s, end, size, pass_raw, raw);
    }
    return native->native == NATIVE_RAW ? call_hook(raw) : recorded_if_done(&piped, thread, end, size, raw);
}

static PyObject *
on_descriptor(const Raw *raw, const Native *native, PyThreadState *thread, PyObject *const *args, Py_ssize_t count)
{
    PyObject *fd, *subject, *end = NULL;
    if (PyDict_GET_SIZE(native->known) == 0 && !has_others(native)) {
        return call_original(raw);
    }
    State *s = state_to_record(thread); /* may run Python code: before anything is borrowed */
    if (native->native == NATIVE_RAW) {
        fd = PyLong_FromLong(((RawFile *)raw->self)->fd);
        subject = fd ? PyDict_GetItemWithError(native->known, fd) : NULL;
        end = fd && subject == NULL && has_others(native) ? PyDict_GetItemWithError(native->others, fd) : NULL;
        Py_XDECREF(fd);
    } else {
        if (count == 0 || !PyLong_CheckExact(args[0])) {
            return call_hook(raw);
        }
        subject = PyDict_GetItemWithError(native->known, args[0]);
        end = subject == NULL && has_others(native) ? PyDict_GetItemWithError(native->others, args[0]) : NULL;
    }
    if (end != NULL) {
        int number = native->native == NATIVE_RAW ? ((RawFile *)raw->self)->fd : (int)PyLong_AsLong(args[0]);
        return on_pipe(raw, native, thread, s, number, end, args, count);
    }
    if (subject == NULL) {
        PyErr_Clear();
        return call_original(raw);
    }
    if (s == NULL) {
        return call_original(raw);
    }
    int64_t size = asked_size(native, args, count);
    if (size < 0 || has_options(raw) || !PyObject_TypeCheck(subject, &SubjectType) || !is_quiet(s, native->operation)) {
        return call_hook(raw);
    }
    return recorded(native, thread, s, subject, size, pass_raw, raw);
}

/* Does an operation of a socket. If its connection is reset while a receive waits, the kernel answers EPIPE, which no
 * other receive gets. */
static PyObject *
pass_to_socket(const void *what)
{
    const Raw *raw = what;
    PyObject *result = call_original(raw);
    if (result == NULL && PyErr_ExceptionMatches(PyExc_BrokenPipeError) &&
        PyUnicode_CompareWithASCIIString(raw->slot->native.operation->name, "net.recv") == 0) {
        PyErr_Clear();
        errno = ECONNRESET;
        PyErr_SetFromErrno(PyExc_OSError);
    }
    return result;
}

/* Sockets by address: (weak reference, subject, slot of an unknown caller). */
static PyObject *
on_socket(const Raw *raw, const Native *native, PyThreadState *thread, PyObject *const *args, Py_ssize_t count)
{
    State *s = state_to_record(thread); /* may run Python code: before anything is borrowed */
    PyObject *key = PyLong_FromVoidPtr(raw->self);
    PyObject *entry = key ? PyDict_GetItemWithError(native->known, key) : NULL;
    PyObject *part = key && native->parts && PyDict_GET_SIZE(native->parts) ? PyDict_GetItemWithError(native->parts, key) : NULL;
    Py_XDECREF(key);
    if (part != NULL && s == NULL) {
        PyErr_Clear();
        return call_original(raw);
    }
    if (part != NULL) {
        PyObject *of = PyTuple_CheckExact(part) && PyTuple_GET_SIZE(part) == 2 ? PyTuple_GET_ITEM(part, 1) : NULL;
        int is_part = of && is_quiet(s, native->operation) ? PySequence_Contains(of, native->operation->name) : 0;
        PyErr_Clear();
        return is_part == 1 ? call_original(raw) : call_hook(raw);
    }
    if (entry == NULL || !PyTuple_CheckExact(entry) || PyTuple_GET_SIZE(entry) < 3) {
        PyErr_Clear();
        return call_hook(raw);
    }
    PyObject *subject = PyTuple_GET_ITEM(entry, 1);
    if (subject == Py_None || s == NULL) {
        return call_original(raw);
    }
    long slot = PyLong_AsLong(PyTuple_GET_ITEM(entry, 2));
    int64_t size = asked_size(native, args, count);
    if (size < 0 || has_options(raw) || count > native->args_max || !PyObject_TypeCheck(subject, &SubjectType) ||
        (slot > 0 && slot < 65536 && ports != NULL && ports[slot] != 0) || !is_quiet(s, native->operation)) {
        return call_hook(raw);
    }
    if (((Socket *)raw->self)->timeout_ns == 0) {
        return recorded_if_done(native, thread, subject, size, raw);
    }
    return recorded(native, thread, s, subject, size, pass_to_socket, raw);
}

/* The import system looks for files all the time, by functions that hooks without the accelerator don't reach. */
static int
is_importing(PyThreadState *thread)
{
    static const char prefix[] = "<frozen importlib";
    Frame *frame = next_visible(FRAME_TOP(thread));
    PyObject *name = frame ? FRAME_CODE(frame)->co_filename : NULL;
    return name != NULL && PyUnicode_IS_COMPACT_ASCII(name) && PyUnicode_GET_LENGTH(name) >= (Py_ssize_t)sizeof(prefix) - 1 &&
           memcmp(PyUnicode_1BYTE_DATA(name), prefix, sizeof(prefix) - 1) == 0;
}

/* The subject (borrowed) in an entry (weak reference, subject) for this object; NULL if there is none. */
static inline PyObject *
marked(PyObject *known, PyObject *object)
{
    if (known == NULL || object == NULL || PyDict_GET_SIZE(known) == 0) {
        return NULL;
    }
    PyObject *key = PyLong_FromVoidPtr(object);
    PyObject *entry = key ? PyDict_GetItemWithError(known, key) : NULL;
    Py_XDECREF(key);
    if (entry == NULL) {
        PyErr_Clear();
        return NULL;
    }
    PyObject *subject = PyTuple_CheckExact(entry) && PyTuple_GET_SIZE(entry) == 2 ? PyTuple_GET_ITEM(entry, 1) : NULL;
    return subject != NULL && PyObject_TypeCheck(subject, &SubjectType) ? subject : NULL;
}

static inline int
is_marked(PyObject *known, PyObject *object)
{
    return marked(known, object) != NULL;
}

static PyObject *
redirected(int number, int form, PyObject *self, PyObject *arg, PyObject *const *args, Py_ssize_t count,
           PyObject *options, PyTypeObject *cls)
{
    Slot *slot = &slots[number];
    Raw raw = {slot, form, self, arg, options, args, count, cls};
    PyThreadState *thread = this_thread();
    if (core == NULL || core->off || thread == NULL || thread->interp != main_interpreter) {
        return call_original(&raw);
    }
    if (slot->type != NULL && !PyObject_TypeCheck(self, slot->type)) {
        return call_original(&raw);
    }
    if (!slot->is_method && is_importing(thread)) {
        return call_original(&raw);
    }
    if (slot->native.native == NATIVE_NONE) {
        return call_hook(&raw);
    }
    if (slot->native.native == NATIVE_OBSERVE) {
        return observe(&slot->native, thread, slot->is_method ? self : NULL, pass_raw, pass_raw_to_hook, &raw);
    }
    PyObject *const *given;
    Py_ssize_t number_given = positional(&raw, &given);
    if (slot->native.native == NATIVE_PAIR) {
        return is_marked(slot->native.known, self) ? call_hook(&raw) : call_original(&raw);
    }
    if (slot->native.native == NATIVE_SOCKET) {
        return on_socket(&raw, &slot->native, thread, given, number_given);
    }
    if (slot->native.native != NATIVE_PATH) {
        return on_descriptor(&raw, &slot->native, thread, given, number_given);
    }
    /* A path that is known not to count. */
    if (number_given > 0 && PyUnicode_CheckExact(given[0]) && PyUnicode_GET_LENGTH(given[0]) > 0 &&
        PyUnicode_READ_CHAR(given[0], 0) == '/') {
        PyObject *subject = PyDict_GetItemWithError(slot->native.known, given[0]);
        if (subject == Py_None) {
            return call_original(&raw);
        }
        if (subject == NULL) {
            PyErr_Clear();
        }
    }
    return call_hook(&raw);
}

/* --- one function for each slot and form: C has no closures */

#define ENTRANCES(n)                                                                                           \
    static PyObject *plain_##n(PyObject *s, PyObject *a)                                                       \
    {                                                                                                          \
        return redirected(0x##n, FORM_PLAIN, s, a, NULL, 0, NULL, NULL);                                       \
    }                                                                                                          \
    static PyObject *keywords_##n(PyObject *s, PyObject *a, PyObject *k)                                       \
    {                                                                                                          \
        return redirected(0x##n, FORM_KEYWORDS, s, a, NULL, 0, k, NULL);                                       \
    }                                                                                                          \
    static PyObject *fast_##n(PyObject *s, PyObject *const *v, Py_ssize_t c)                                   \
    {                                                                                                          \
        return redirected(0x##n, FORM_FAST, s, NULL, v, c, NULL, NULL);                                        \
    }                                                                                                          \
    static PyObject *fast_keywords_##n(PyObject *s, PyObject *const *v, Py_ssize_t c, PyObject *k)             \
    {                                                                                                          \
        return redirected(0x##n, FORM_FAST_KEYWORDS, s, NULL, v, c, k, NULL);                                  \
    }                                                                                                          \
    static PyObject *method_##n(PyObject *s, PyTypeObject *t, PyObject *const *v, size_t c, PyObject *k)       \
    {                                                                                                          \
        return redirected(0x##n, FORM_METHOD, s, NULL, v, (Py_ssize_t)c, k, t);                                \
    }
#define ROW(what, n) \
    what(n##0) what(n##1) what(n##2) what(n##3) what(n##4) what(n##5) what(n##6) what(n##7) \
    what(n##8) what(n##9) what(n##a) what(n##b) what(n##c) what(n##d) what(n##e) what(n##f)
#define ALL(what) \
    ROW(what, 0) ROW(what, 1) ROW(what, 2) ROW(what, 3) ROW(what, 4) ROW(what, 5) ROW(what, 6) ROW(what, 7) \
    ROW(what, 8) ROW(what, 9) ROW(what, a) ROW(what, b) ROW(what, c) ROW(what, d) ROW(what, e) ROW(what, f)
ALL(ENTRANCES)
#define ENTRANCE_ROW(n) {(void *)plain_##n, (void *)keywords_##n, (void *)fast_##n, (void *)fast_keywords_##n, (void *)method_##n},
static void *const entrances[SLOTS_MAX][FORMS] = {ALL(ENTRANCE_ROW)};

static int
form_of(int flags)
{
    switch (flags & ~(METH_CLASS | METH_STATIC | METH_COEXIST)) {
    case METH_O:
    case METH_NOARGS:
    case METH_VARARGS:
        return FORM_PLAIN;
    case METH_VARARGS | METH_KEYWORDS:
        return FORM_KEYWORDS;
    case METH_FASTCALL:
        return FORM_FAST;
    case METH_FASTCALL | METH_KEYWORDS:
        return FORM_FAST_KEYWORDS;
    case METH_METHOD | METH_FASTCALL | METH_KEYWORDS:
        return FORM_METHOD;
    default:
        return -1;
    }
}

/* (kind, operation, subject or dictionary, size, size_at, measure, args_max, parts, others, other, ended), or None */
static int
read_native(PyObject *description, Native *native)
{
    memset(native, 0, sizeof(*native));
    if (description == Py_None) {
        return 0;
    }
    PyObject *operation, *known;
    if (!PyArg_ParseTuple(description, "iO!O|iiiiO!O!O!O", &native->native, &OperationType, &operation, &known, &native->size,
                          &native->size_at, &native->measure, &native->args_max, &PyDict_Type, &native->parts,
                          &PyDict_Type, &native->others, &OperationType, &native->other, &native->ended)) {
        return -1;
    }
    Py_XINCREF(native->ended);
    Py_XINCREF(native->others);
    Py_XINCREF(native->other);
    native->operation = (Operation *)operation;
    Py_INCREF(operation);
    Py_INCREF(known);
    Py_XINCREF(native->parts);
    if (native->native == NATIVE_OBSERVE) {
        native->measure = MEASURE_TRUE;
        native->subject = known;
        native->subjects = PyDict_New();
        return native->subjects == NULL ? -1 : 0;
    }
    native->known = known;
    if (!PyDict_Check(known)) {
        PyErr_SetString(PyExc_TypeError, "what is known must be a dictionary");
        return -1;
    }
    return 0;
}

/* redirect(function, make, native, class): true if it could be done; only instances of the class, or of the method's
 * own type, reach the hook */
static PyObject *
redirect(PyObject *module, PyObject *args)
{
    PyObject *function, *make, *description, *cls, *original = NULL;
    if (!PyArg_ParseTuple(args, "OOOO", &function, &make, &description, &cls)) {
        return NULL;
    }
    PyMethodDef *definition = NULL;
    int is_method = 0;
    if (PyCFunction_CheckExact(function)) {
        definition = ((PyCFunctionObject *)function)->m_ml;
    } else if (Py_IS_TYPE(function, &PyMethodDescr_Type)) {
        definition = ((PyMethodDescrObject *)function)->d_method;
        is_method = 1;
    }
    int form = definition == NULL ? -1 : form_of(definition->ml_flags);
    if (form < 0 || slots_used == SLOTS_MAX) {
        Py_RETURN_FALSE;
    }
    PyMethodDef *copy = PyMem_Malloc(sizeof(PyMethodDef));
    if (copy == NULL) {
        return PyErr_NoMemory();
    }
    *copy = *definition;
    if (is_method) {
        original = PyDescr_NewMethod(PyDescr_TYPE(function), copy);
    } else {
        PyCFunctionObject *f = (PyCFunctionObject *)function;
        original = form == FORM_METHOD ? NULL : PyCFunction_NewEx(copy, f->m_self, f->m_module);
    }
    if (original == NULL) {
        if (PyErr_Occurred()) {
            return NULL;
        }
        Py_RETURN_FALSE;
    }
    Slot slot = {definition->ml_meth, definition->ml_flags, is_method, NULL, NULL, {0}};
    if (is_method) { /* a module imported again creates new types from these definitions: the original isn't theirs */
        slot.type = PyType_Check(cls) ? (PyTypeObject *)cls : PyDescr_TYPE(function);
        Py_INCREF(slot.type);
    }
    slot.hook = made_hook(make, original);
    Py_DECREF(original);
    if (slot.hook == NULL || read_native(description, &slot.native) < 0) {
        return NULL;
    }
    Py_INCREF(function);
    slots[slots_used] = slot;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    definition->ml_meth = (PyCFunction)entrances[slots_used][form];
    slots_used++;
    Py_RETURN_TRUE;
}

/* --- methods of Python classes: a callable that binds like a function and adds no frame of its own */

typedef struct {
    PyObject_HEAD
    PyObject *original, *hook, *weak;
    vectorcallfunc vectorcall;
    Native native;
} Method;

typedef struct {
    Method *method;
    PyObject *const *args;
    size_t count;
    PyObject *names;
} Forward;

static PyObject *
pass_forward(const void *what)
{
    const Forward *f = what;
    return PyObject_Vectorcall(f->method->original, f->args, f->count, f->names);
}

static PyObject *
pass_forward_to_hook(const void *what)
{
    const Forward *f = what;
    return without_us(PyObject_Vectorcall(f->method->hook, f->args, f->count, f->names));
}

/* The task that a callback continues (borrowed from it); NULL if it does something else. */
static PyObject *
task_of(PyObject *callback)
{
    if (PyCFunction_Check(callback)) {
        PyCFunctionObject *function = (PyCFunctionObject *)callback;
        return strcmp(function->m_ml->ml_name, "task_wakeup") == 0 ? function->m_self : NULL;
    }
    if (PyMethod_Check(callback)) {
        PyObject *function = PyMethod_GET_FUNCTION(callback);
        PyObject *name = PyFunction_Check(function) ? ((PyFunctionObject *)function)->func_name : NULL;
        int is_step = name != NULL && (PyUnicode_CompareWithASCIIString(name, "__step") == 0 ||
                                       PyUnicode_CompareWithASCIIString(name, "__wakeup") == 0);
        return is_step ? PyMethod_GET_SELF(callback) : NULL;
    }
    if (PyFunction_Check(callback) || strstr(Py_TYPE(callback)->tp_name, "MethWrapper") == NULL) {
        return NULL;
    }
    PyObject *task = PyObject_GetAttrString(callback, "__self__");
    if (task == NULL) {
        PyErr_Clear();
    }
    Py_XDECREF(task); /* the callback keeps it alive */
    return task;
}

/* After a task's step: has the task ended? Keeps the current exception. */
static void
look_at_end(const Native *native, PyObject *task)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *done = PyObject_CallMethodObjArgs(task, text_done, NULL);
    if (done == Py_True && native->ended != NULL) {
        Py_XDECREF(PyObject_CallFunctionObjArgs(native->ended, task, NULL));
    }
    Py_XDECREF(done);
    PyErr_Clear();
    PyErr_Restore(type, value, traceback);
}

/* The known task whose step this handle runs: a new reference, and its subject (borrowed). */
static PyObject *
known_task(const Native *native, PyObject *handle, PyObject **subject)
{
    PyObject *callback = PyDict_GET_SIZE(native->parts) > 0 ? PyObject_GetAttr(handle, text_callback) : NULL;
    if (callback == NULL) {
        PyErr_Clear();
        return NULL;
    }
    PyObject *task = task_of(callback);
    *subject = marked(native->parts, task);
    if (*subject == NULL) {
        task = NULL;
    }
    Py_XINCREF(task);
    Py_DECREF(callback);
    return task;
}

/* Runs a handle of an event loop: a step of a task, or a callback that was given to the loop. */
static PyObject *
take(Method *self, PyThreadState *thread, const Forward *forward)
{
    const Native *native = &self->native;
    if (PyVectorcall_NARGS(forward->count) == 0 || has_others(native)) {
        return pass_forward_to_hook(forward);
    }
    State *s = state_to_record(thread); /* may run Python code: before anything is borrowed */
    if (s == NULL) {
        return pass_forward(forward);
    }
    PyObject *subject = NULL, *result, *task = known_task(native, forward->args[0], &subject);
    if (subject == NULL) {
        subject = marked(native->known, forward->args[0]);
    }
    if (subject == NULL) {
        return pass_forward(forward);
    }
    if (!is_quiet(s, native->operation)) {
        Py_XDECREF(task);
        return pass_forward_to_hook(forward);
    }
    result = recorded(native, thread, s, subject, 0, pass_forward, forward);
    if (task != NULL) {
        look_at_end(native, task);
        Py_DECREF(task);
    }
    return result;
}

static PyObject *
Method_call(Method *self, PyObject *const *args, size_t count, PyObject *names)
{
    PyThreadState *thread = this_thread();
    Forward forward = {self, args, count, names};
    if (core == NULL || core->off || thread->interp != main_interpreter) {
        return pass_forward(&forward);
    }
    if (self->native.native == NATIVE_OBSERVE) {
        PyObject *object = PyVectorcall_NARGS(count) > 0 ? args[0] : NULL;
        return observe(&self->native, thread, object, pass_forward, pass_forward_to_hook, &forward);
    }
    if (self->native.native == NATIVE_TAKE) {
        return take(self, thread, &forward);
    }
    if (self->native.native == NATIVE_SOON && PyVectorcall_NARGS(count) > 1 && task_of(args[1]) != NULL) {
        return pass_forward(&forward); /* the step of a task is recorded where it runs */
    }
    return pass_forward_to_hook(&forward);
}

static PyObject *
Method_get(PyObject *self, PyObject *object, PyObject *type)
{
    if (object == NULL || object == Py_None) {
        Py_INCREF(self);
        return self;
    }
    return PyMethod_New(self, object);
}

/* Everything but calling, binding and pickling is the original's. */
static PyObject *
Method_getattro(PyObject *self, PyObject *name)
{
    static const char *const own[] = {"__call__", "__get__", "__reduce__", "__reduce_ex__"};
    for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++) {
        if (PyUnicode_CompareWithASCIIString(name, own[i]) == 0) {
            return PyObject_GenericGetAttr(self, name);
        }
    }
    return PyObject_GetAttr(((Method *)self)->original, name);
}

static PyObject *
Method_reduce(PyObject *self, PyObject *unused)
{
    return PyObject_GetAttrString(((Method *)self)->original, "__qualname__");
}

static PyMethodDef Method_methods[] = {
    {"__reduce__", Method_reduce, METH_NOARGS, NULL},
    {"__reduce_ex__", Method_reduce, METH_O, NULL},
    {NULL},
};

static int
Method_setattro(PyObject *self, PyObject *name, PyObject *value)
{
    return PyObject_SetAttr(((Method *)self)->original, name, value);
}

static PyObject *
Method_repr(PyObject *self)
{
    return PyObject_Repr(((Method *)self)->original);
}

static PyObject *
Method_new(PyTypeObject *type, PyObject *args, PyObject *options)
{
    PyObject *original, *make, *description;
    if (!PyArg_ParseTuple(args, "OOO", &original, &make, &description)) {
        return NULL;
    }
    Method *self = (Method *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    Py_INCREF(original);
    self->original = original;
    self->vectorcall = (vectorcallfunc)Method_call;
    self->hook = made_hook(make, original);
    if (self->hook == NULL || read_native(description, &self->native) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static int
Method_traverse(Method *self, visitproc visit, void *arg)
{
    Py_VISIT(self->original);
    Py_VISIT(self->hook);
    return 0;
}

static void
Method_dealloc(Method *self)
{
    PyObject_GC_UnTrack(self);
    if (self->weak != NULL) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    Py_XDECREF(self->original);
    Py_XDECREF(self->hook);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyTypeObject MethodType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "function",
    .tp_basicsize = sizeof(Method),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_new = Method_new,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Method, vectorcall),
    .tp_descr_get = Method_get,
    .tp_getattro = Method_getattro,
    .tp_setattro = Method_setattro,
    .tp_repr = Method_repr,
    .tp_methods = Method_methods,
    .tp_weaklistoffset = offsetof(Method, weak),
    .tp_traverse = (traverseproc)Method_traverse,
    .tp_dealloc = (destructor)Method_dealloc,
};
