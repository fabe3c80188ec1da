/* Copies of values that the interpreter shares, so that a label belongs to one value (labels/table.py). */

static PyObject *
own_integer(PyObject *value)
{
#if PY_VERSION_HEX >= 0x030C0000
    const PyLongObject *from = (PyLongObject *)value;
    if ((from->long_value.lv_tag >> 3) > 1) {
        return _PyLong_Copy((PyLongObject *)value);
    }
    PyLongObject *made = (PyLongObject *)PyLong_FromLong(1 << 20); /* not shared, and of one digit */
    if (made != NULL) {
        made->long_value.lv_tag = from->long_value.lv_tag & ~(uintptr_t)4; /* from 3.14 on, 4 says that it is shared */
        made->long_value.ob_digit[0] = from->long_value.ob_digit[0];
    }
    return (PyObject *)made;
#else
    const PyLongObject *from = (PyLongObject *)value;
    if (Py_ABS(Py_SIZE(value)) > 1) {
        return _PyLong_Copy((PyLongObject *)value);
    }
    PyLongObject *made = (PyLongObject *)PyLong_FromLong(1 << 20);
    if (made != NULL) {
        made->ob_digit[0] = Py_SIZE(value) ? from->ob_digit[0] : 0;
        Py_SET_SIZE(made, Py_SIZE(value));
    }
    return (PyObject *)made;
#endif
}

/* own(value): a copy of a plain integer, text or bytes object that nobody else has; the value itself if it has no copies. */
static PyObject *
own(PyObject *module, PyObject *value)
{
    if (PyLong_CheckExact(value)) {
        return own_integer(value);
    }
    if (PyUnicode_CheckExact(value) && PyUnicode_GET_LENGTH(value) > 0) {
        Py_ssize_t length = PyUnicode_GET_LENGTH(value);
        PyObject *made = PyUnicode_New(length, PyUnicode_MAX_CHAR_VALUE(value));
        if (made != NULL && PyUnicode_CopyCharacters(made, 0, value, 0, length) < 0) {
            Py_CLEAR(made);
        }
        return made;
    }
    if (PyBytes_CheckExact(value) && PyBytes_GET_SIZE(value) > 0) {
        PyObject *made = PyBytes_FromStringAndSize(NULL, PyBytes_GET_SIZE(value));
        if (made != NULL) {
            memcpy(PyBytes_AS_STRING(made), PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value));
        }
        return made;
    }
    Py_INCREF(value);
    return value;
}

/* The hooks of labels (labels/hooks.py): operations without a labelled value, which are most, are done here; `slow(parts)` does
 * the others, and all that isn't known here. */

typedef struct {
    PyObject_HEAD
    PyObject *slow;      /* a function of the key of the subscript */
    PyObject *labels;    /* by address: labelled values */
    PyObject *methods;   /* by address of a type: its methods with stand-ins */
    PyObject *loops;     /* addresses of the types whose loops have hooks */
    PyObject *functions; /* by address: functions with stand-ins */
} LabelHooks;

/* Is the address a key of the dictionary? -1: error. */
static inline int
has_address(PyObject *dictionary, PyObject *value)
{
    PyObject *address = PyLong_FromVoidPtr(value);
    if (address == NULL) {
        return -1;
    }
    int found = PyDict_Contains(dictionary, address);
    Py_DECREF(address);
    return found;
}

/* The operation of an operator; NULL with the others. */
static binaryfunc
operation_of(const char *kind, Py_ssize_t length)
{
    if (length == 1) {
        switch (kind[0]) {
        case '+': return PyNumber_Add;
        case '-': return PyNumber_Subtract;
        case '*': return PyNumber_Multiply;
        case '/': return PyNumber_TrueDivide;
        case '%': return PyNumber_Remainder;
        case '|': return PyNumber_Or;
        case '^': return PyNumber_Xor;
        case '&': return PyNumber_And;
        default: return NULL;
        }
    }
    if (length == 2 && kind[1] == '=') {
        switch (kind[0]) {
        case '+': return PyNumber_InPlaceAdd;
        case '-': return PyNumber_InPlaceSubtract;
        case '*': return PyNumber_InPlaceMultiply;
        case '/': return PyNumber_InPlaceTrueDivide;
        case '%': return PyNumber_InPlaceRemainder;
        case '|': return PyNumber_InPlaceOr;
        case '^': return PyNumber_InPlaceXor;
        case '&': return PyNumber_InPlaceAnd;
        default: return NULL;
        }
    }
    if (length == 2 && kind[0] == kind[1]) {
        switch (kind[0]) {
        case '/': return PyNumber_FloorDivide;
        case '<': return PyNumber_Lshift;
        case '>': return PyNumber_Rshift;
        default: return NULL;
        }
    }
    return NULL;
}

/* 1: this hook has nothing to do with labels; 0: it may; -1: error. */
static int
is_plain(LabelHooks *self, const char *kind, Py_ssize_t length, PyObject *parts, Py_ssize_t count)
{
    PyObject *first = PyTuple_GET_ITEM(parts, 1);
    int found;
    if (count == 3 && operation_of(kind, length) != NULL) {
        if (kind[0] == '%' && (PyUnicode_CheckExact(first) || PyBytes_CheckExact(first) || PyByteArray_CheckExact(first))) {
            return 0; /* values of a format may have labels */
        }
        found = has_address(self->labels, first);
        return found ? (found < 0 ? -1 : 0) : (found = has_address(self->labels, PyTuple_GET_ITEM(parts, 2))) < 0 ? -1 : !found;
    }
    if (count == 3 && length == 2 && kind[0] == '[') {
        PyTypeObject *type = Py_TYPE(first);
        return type == &PyDict_Type || type == &PyList_Type || type == &PyTuple_Type;
    }
    if (count == 3 && length == 1 && kind[0] == '.') {
        PyObject *owner = PyTuple_GET_ITEM(parts, 2);
        if (PyModule_CheckExact(owner) || PyType_Check(owner)) {
            return 0;
        }
        return (found = has_address(self->methods, (PyObject *)Py_TYPE(owner))) < 0 ? -1 : !found;
    }
    if (count == 2 && length == 3 && kind[0] == 'f') { /* for */
        return (found = has_address(self->loops, (PyObject *)Py_TYPE(first))) < 0 ? -1 : !found;
    }
    if (count == 2 && length == 3 && kind[0] == '=') { /* an item is stored */
        return !PyObject_CheckBuffer(first);
    }
    if (count == 2 && length == 2 && kind[0] == '(') {
        if ((found = has_address(self->functions, first)) != 0) {
            return found < 0 ? -1 : 0;
        }
        return PyFunction_Check(first) || PyMethod_Check(first) || PyType_Check(first);
    }
    if (count == 2 && length == 2 && kind[0] == 'i') { /* is */
        return (found = has_address(self->labels, first)) < 0 ? -1 : !found;
    }
    return 0;
}

static PyObject *
LabelHooks_subscript(LabelHooks *self, PyObject *parts)
{
    Py_ssize_t count = PyTuple_CheckExact(parts) ? PyTuple_GET_SIZE(parts) : 0, length;
    const char *kind = count > 1 ? PyUnicode_AsUTF8AndSize(PyTuple_GET_ITEM(parts, 0), &length) : NULL;
    if (kind == NULL) {
        PyErr_SetString(PyExc_TypeError, "not a hook of the agent");
        return NULL;
    }
    int plain = is_plain(self, kind, length, parts, count);
    if (plain < 0) {
        return NULL;
    }
    if (!plain) {
        return PyObject_CallFunctionObjArgs(self->slow, parts, NULL);
    }
    PyObject *first = PyTuple_GET_ITEM(parts, 1);
    if (count == 3 && kind[0] != '.') {
        PyObject *second = PyTuple_GET_ITEM(parts, 2);
        return kind[0] == '[' ? PyObject_GetItem(first, second) : operation_of(kind, length)(first, second);
    }
    PyObject *value = PyTuple_GET_ITEM(parts, count - 1);
    Py_INCREF(value);
    return value;
}

static int
LabelHooks_init(LabelHooks *self, PyObject *args, PyObject *options)
{
    PyObject *slow, *labels, *methods, *loops, *functions;
    if (!PyArg_ParseTuple(args, "OO!O!O!O!", &slow, &PyDict_Type, &labels, &PyDict_Type, &methods, &PyDict_Type, &loops,
                          &PyDict_Type, &functions)) {
        return -1;
    }
    PyObject **fields[] = {&self->slow, &self->labels, &self->methods, &self->loops, &self->functions};
    PyObject *values[] = {slow, labels, methods, loops, functions};
    for (int i = 0; i < 5; i++) {
        Py_INCREF(values[i]);
        Py_XSETREF(*fields[i], values[i]);
    }
    return 0;
}

static void
LabelHooks_dealloc(LabelHooks *self)
{
    Py_XDECREF(self->slow);
    Py_XDECREF(self->labels);
    Py_XDECREF(self->methods);
    Py_XDECREF(self->loops);
    Py_XDECREF(self->functions);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMappingMethods LabelHooks_mapping = {.mp_subscript = (binaryfunc)LabelHooks_subscript};

static PyTypeObject LabelHooksType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "undermine_agent.LabelHooks",
    .tp_basicsize = sizeof(LabelHooks),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)LabelHooks_init,
    .tp_dealloc = (destructor)LabelHooks_dealloc,
    .tp_as_mapping = &LabelHooks_mapping,
};
