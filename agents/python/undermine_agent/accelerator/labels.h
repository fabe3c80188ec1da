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
