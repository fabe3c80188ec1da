/* The hooks at accesses to the heap (heap/rewriting.py): a subscript that returns a part of its key.
 *
 * Outside handlers this is all that a hook does. Inside, Python code records the access, unless it was the last one of this
 * handler with the same parts. */

#define FIRST 64   /* the flags of heap/rewriting.py */
#define STORES 128
#define KINDS 31
#define RECENT 1024

typedef struct {
    PyObject_HEAD
    PyObject *note;
} Hooks;

/* Accesses that were noted. The addresses are only compared: if one is used again in the same handler, an access is lost. */
typedef struct {
    PyObject *site, *one, *other;
    State *state;
    unsigned int extent, pauses;
} Recent;

static Recent recent[RECENT];

/* Kinds that need every call: their parts come in pairs. */
static inline int
in_pairs(long kind)
{
    switch (kind & KINDS) {
    case 3: case 4: case 7: case 8: case 9: case 12: case 15: case 17: case 19: /* PUSH to IN_PUSHED in heap/rewriting.py */
        return 1;
    default:
        return 0;
    }
}

static int
is_recent(State *s, PyObject *site, PyObject *parts)
{
    Py_ssize_t count = PyTuple_GET_SIZE(parts);
    PyObject *one = PyTuple_GET_ITEM(parts, 1), *other = count > 2 ? PyTuple_GET_ITEM(parts, 2) : NULL;
    size_t at = (pointer_hash(site) ^ pointer_hash(one) * 3 ^ pointer_hash(other) * 5 ^ pointer_hash(s)) % RECENT;
    Recent now = {site, one, other, s, s->extent, s->pauses};
    Recent *known = &recent[at];
    if (known->site == now.site && known->one == now.one && known->other == now.other && known->state == now.state &&
        known->extent == now.extent && known->pauses == now.pauses) {
        return 1;
    }
    *known = now;
    return 0;
}

static PyObject *
Hooks_subscript(Hooks *self, PyObject *parts)
{
    Py_ssize_t count = PyTuple_CheckExact(parts) ? PyTuple_GET_SIZE(parts) : 0;
    PyObject *site = count > 1 ? PyTuple_GET_ITEM(parts, 0) : NULL;
    if (site == NULL || !PyTuple_CheckExact(site) || PyTuple_GET_SIZE(site) == 0) {
        PyErr_SetString(PyExc_TypeError, "not a hook of the agent");
        return NULL;
    }
    long kind = PyLong_AsLong(PyTuple_GET_ITEM(site, 0));
    PyObject *value = PyTuple_GET_ITEM(parts, kind & FIRST ? 1 : count - 1);
    State *s = state_to_record(this_thread());
    int in_handler = s != NULL && (s->extent || s->pauses);
    if (in_handler ? in_pairs(kind) || !is_recent(s, site, parts) : s != NULL && kind & STORES) {
        PyObject *done = PyObject_CallFunctionObjArgs(self->note, parts, NULL);
        if (done == NULL) { /* an exception of the host, from a signal handler */
            return NULL;
        }
        Py_DECREF(done);
    }
    Py_INCREF(value);
    return value;
}

static int
Hooks_init(Hooks *self, PyObject *args, PyObject *options)
{
    PyObject *note;
    if (!PyArg_ParseTuple(args, "O", &note)) {
        return -1;
    }
    Py_INCREF(note);
    Py_XSETREF(self->note, note);
    return 0;
}

static void
Hooks_dealloc(Hooks *self)
{
    Py_XDECREF(self->note);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMappingMethods Hooks_mapping = {.mp_subscript = (binaryfunc)Hooks_subscript};

static PyTypeObject HooksType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "undermine_agent.Hooks",
    .tp_basicsize = sizeof(Hooks),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)Hooks_init,
    .tp_dealloc = (destructor)Hooks_dealloc,
    .tp_as_mapping = &Hooks_mapping,
};
