/* The accelerator of the Python agent: the same records and the same decisions as its Python code, in less time.
 *
 * It is built for one interpreter at a time (CPython 3.9 to 3.13); see undermine/runtimes/accelerator.py. An agent that cannot
 * load it works without it. It works only in the main interpreter and relies on the interpreter's lock. */

#define Py_BUILD_CORE 1
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#ifdef Py_GIL_DISABLED
#error "builds without the interpreter's lock are not supported"
#endif
#include <frameobject.h>
#if PY_VERSION_HEX < 0x030B0000
#include <longintrepr.h>
#endif
#include <structmember.h>
#if PY_VERSION_HEX >= 0x030B0000
#include "internal/pycore_frame.h"
#endif
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "frames.h"

#include "writer.h"

#include "calls.h"

#include "redirect.h"

#include "heap.h"

#include "labels.h"

/* die(keeper, group, kill_file): kill this node at once; no other thread of this process runs Python code any more. */
static PyObject *
die(PyObject *module, PyObject *args)
{
    int keeper, group;
    const char *kill_file;
    if (!PyArg_ParseTuple(args, "iis", &keeper, &group, &kill_file)) {
        return NULL;
    }
    if (*kill_file != '\0') {
        int fd = open(kill_file, O_WRONLY | O_CLOEXEC);
        if (fd >= 0 && write(fd, "1", 1) < 0) {
            close(fd);
        }
    }
    if (keeper > 0) {
        kill(keeper, SIGUSR1);
    }
    if (group > 0 && getpgrp() == group) {
        killpg(group, SIGKILL);
    }
    kill(getpid(), SIGKILL);
    for (;;) {
        pause();
    }
}

static PyObject *
forget(PyObject *module, PyObject *unused)
{
    forget_codes();
    Py_RETURN_NONE;
}

static PyObject *
is_forked(PyObject *module, PyObject *unused)
{
    return PyBool_FromLong(forked);
}

/* look(): the code and offset of every frame, innermost first; checks that frames have the expected layout. */
static PyObject *
look(PyObject *module, PyObject *unused)
{
    PyObject *found = PyList_New(0);
    for (Frame *f = FRAME_TOP(this_thread()); found != NULL && f != NULL; f = FRAME_BACK(f)) {
        if (FRAME_HIDDEN(f)) {
            continue;
        }
        if (PyList_Append(found, (PyObject *)FRAME_CODE(f)) < 0) {
            Py_CLEAR(found);
        }
    }
    return found;
}

/* learn(code, is_targets): remember whose code it is. */
static PyObject *
learn(PyObject *module, PyObject *args)
{
    PyCodeObject *code;
    int is_targets;
    if (!PyArg_ParseTuple(args, "O!p", &PyCode_Type, &code, &is_targets)) {
        return NULL;
    }
    if (agent_dir != NULL && owner_of(code) == UNKNOWN) {
        int agents = !is_targets && PyUnicode_Tailmatch(code->co_filename, agent_dir, 0, PY_SSIZE_T_MAX, -1) == 1;
        learn_owner(code, is_targets ? TARGETS : agents ? AGENTS : OTHERS);
    }
    Py_RETURN_NONE;
}

/* called_by_target(): did the target's own code call the agent's? None if that isn't known yet. */
static PyObject *
called_by_target(PyObject *module, PyObject *unused)
{
    int owner = AGENTS;
    if (core != NULL && !core->off) {
        Frame *frame = FRAME_TOP(this_thread());
        for (; frame != NULL && owner == AGENTS; frame = FRAME_BACK(frame)) {
            owner = FRAME_HIDDEN(frame) ? AGENTS : owner_of(FRAME_CODE(frame));
        }
    }
    if (owner == UNKNOWN) {
        Py_RETURN_NONE;
    }
    return PyBool_FromLong(owner == TARGETS);
}

/* raw_file_has(file, fd), socket_has(socket, fd, family, timeout_ns): do the objects have the expected fields? */
static PyObject *
raw_file_has(PyObject *module, PyObject *args)
{
    PyObject *file;
    int fd;
    if (!PyArg_ParseTuple(args, "Oi", &file, &fd)) {
        return NULL;
    }
    return PyBool_FromLong(((RawFile *)file)->fd == fd);
}

static PyObject *
socket_has(PyObject *module, PyObject *args)
{
    PyObject *sock;
    int fd, family;
    long long timeout_ns;
    if (!PyArg_ParseTuple(args, "OiiL", &sock, &fd, &family, &timeout_ns)) {
        return NULL;
    }
    Socket *s = (Socket *)sock;
    return PyBool_FromLong(s->fd == fd && s->family == family && s->timeout_ns == timeout_ns);
}

/* use_ports(view, offset): where the shared state says which node opened a connection. */
static PyObject *
use_ports(PyObject *module, PyObject *args)
{
    Py_buffer view;
    unsigned long offset;
    if (!PyArg_ParseTuple(args, "y*k", &view, &offset)) {
        return NULL;
    }
    /* Never released: the state stays mapped as long as the process lives. */
    ports = offset > 0 && (Py_ssize_t)offset + 65536 <= view.len ? (const uint8_t *)view.buf + offset : NULL;
    Py_RETURN_NONE;
}

/* set_clock(speed, origin_ns): the process's clock runs faster than the true one, since then. */
static PyObject *
set_clock(PyObject *module, PyObject *args)
{
    long long speed, origin;
    if (!PyArg_ParseTuple(args, "LL", &speed, &origin)) {
        return NULL;
    }
    clock_speed = speed < 1 ? 1 : speed;
    clock_origin = origin;
    Py_RETURN_NONE;
}

static void
in_child(void)
{
    forked = writer != NULL;
}

static PyMethodDef functions[] = {
    {"die", die, METH_VARARGS, NULL},
    {"forget", forget, METH_NOARGS, NULL},
    {"forked", is_forked, METH_NOARGS, NULL},
    {"look", look, METH_NOARGS, NULL},
    {"learn", learn, METH_VARARGS, NULL},
    {"called_by_target", called_by_target, METH_NOARGS, NULL},
    {"raw_file_has", raw_file_has, METH_VARARGS, NULL},
    {"socket_has", socket_has, METH_VARARGS, NULL},
    {"use_ports", use_ports, METH_VARARGS, NULL},
    {"set_clock", set_clock, METH_VARARGS, NULL},
    {"redirect", redirect, METH_VARARGS, NULL},
    {"own", own, METH_O, NULL},
    {NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "fast", NULL, -1, functions, NULL, NULL, NULL, NULL};

static int
add_type(PyObject *module, const char *name, PyTypeObject *type)
{
    if (PyType_Ready(type) < 0) {
        return -1;
    }
    Py_INCREF(type);
    return PyModule_AddObject(module, name, (PyObject *)type);
}

PyMODINIT_FUNC
PyInit_fast(void)
{
    static const struct {
        PyObject **text;
        const char *name;
    } texts[] = {
        {&text_stack, "stack"}, {&text_id, "id"}, {&text_codes, "codes"}, {&text_decide_before, "_decide_before"},
        {&text_decide_after, "_decide_after"}, {&text_check_tasks, "check_tasks"}, {&text_carry_out, "carry_out"},
        {&text_refuse, "refuse"}, {&text_note, "_note"}, {&text_thread_name, "_thread_name"},
        {&text_targets_own, "targets_own"}, {&text_after_fork, "after_fork"},
        {&text_callback, "_callback"}, {&text_done, "done"},
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        *texts[i].text = PyUnicode_InternFromString(texts[i].name);
        if (*texts[i].text == NULL) {
            return NULL;
        }
    }
    main_interpreter = this_thread()->interp;
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL || add_type(module, "ThreadState", &StateType) < 0 || add_type(module, "Writer", &WriterType) < 0 ||
        add_type(module, "Subject", &SubjectType) < 0 || add_type(module, "Operation", &OperationType) < 0 ||
        add_type(module, "Call", &CallType) < 0 || add_type(module, "Core", &CoreType) < 0 ||
        add_type(module, "Hooks", &HooksType) < 0 || add_type(module, "LabelHooks", &LabelHooksType) < 0 || add_type(module, "Original", &OriginalType) < 0 || add_type(module, "Method", &MethodType) < 0 || add_type(module, "Lasting", &LastingType) < 0) {
        return NULL;
    }
    pthread_atfork(NULL, NULL, in_child);
    return module;
}
