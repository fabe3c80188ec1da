/* Operations: their beginning, their end, and whether a fault must be decided for them.
 *
 * An operation without a possible fault is recorded here from beginning to end. For all others the agent's Python
 * code decides, as it does without this accelerator. */

typedef struct {
    PyObject_HEAD
    PyObject *target, *resource, *content;
    char on_disk;
    uint32_t epoch, target_id, resource_id;
} Subject;

typedef struct {
    PyObject_HEAD
    PyObject *name, *before, *after;
    char matchable;
    unsigned char opens; /* 1: a handler begins and ends with it; 2: its thread polls */
    uint32_t epoch, id;
} Operation;

typedef struct {
    PyObject_HEAD
    PyObject *operation, *subject, *stack, *cursor, *error, *change;
    unsigned int seq;
    long long t_ns;
} Call;

/* The lasting faults in force, and the generation of the shared state when they were fetched. */
typedef struct {
    PyObject_HEAD
    PyObject *entries;
    long long generation;
} Lasting;

/* The part of the agent that every operation uses. */
typedef struct {
    PyObject_HEAD
    char off;
    PyObject *lost_tasks, *covered, *sites;
    Lasting *lasting;
    Py_buffer shared;
    const volatile uint32_t *generation;
} Core;

static unsigned int opened; /* the number of handlers and sleeps so far, in all threads */
static Core *core;
static PyInterpreterState *main_interpreter;
static PyObject *text_stack, *text_id, *text_codes, *text_decide_before, *text_decide_after, *text_check_tasks,
    *text_carry_out, *text_refuse, *text_note, *text_thread_name, *text_targets_own, *text_after_fork, *text_callback,
    *text_done, *agent_dir, *error_name;

static PyTypeObject SubjectType, OperationType, CallType, LastingType;

/* --- the state of the running thread */

static __thread struct {
    uint64_t thread;
    State *state;
    uint64_t ended; /* the thread whose state has gone: its last operations use `late` */
} mine;

static State *late;

static void
tls_forget(State *s)
{
    if (mine.state == s) {
        mine.state = NULL;
        mine.ended = mine.thread;
    }
}

static inline PyThreadState *
this_thread(void)
{
#if PY_VERSION_HEX >= 0x030D0000
    return PyThreadState_GetUnchecked();
#else
    return _PyThreadState_UncheckedGet();
#endif
}

/* The state of threads whose own state has gone: releasing it also releases objects, and closes files. A new one
 * would never be released. */
static State *
late_state(void)
{
    if (late == NULL) {
        late = (State *)State_new(&StateType, NULL, NULL);
    } else {
        Py_XSETREF(late->name, PyUnicode_FromString(""));
    }
    return late;
}

/* A thread's state lives in the thread's dictionary, and goes with it. NULL: there is none. */
static State *
find_state(PyThreadState *thread)
{
    if (thread->id == mine.ended) {
        return late_state();
    }
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *dict = PyThreadState_GetDict(), *found = NULL;
    if (dict != NULL) {
        found = PyDict_GetItemWithError(dict, (PyObject *)&StateType);
        if (found == NULL && !PyErr_Occurred()) {
            found = State_new(&StateType, NULL, NULL);
            if (found != NULL) {
                int status = PyDict_SetItem(dict, (PyObject *)&StateType, found);
                Py_DECREF(found);
                found = status < 0 ? NULL : found;
            }
        }
    }
    PyErr_Restore(type, value, traceback);
    mine.thread = thread->id;
    mine.state = (State *)found;
    return (State *)found;
}

static inline State *
state_of(PyThreadState *thread)
{
    return mine.state != NULL && mine.thread == thread->id ? mine.state : find_state(thread);
}

static void
note_trouble(void)
{
    /* Passes on an exception of the host (from a signal handler), and notes one of the agent. */
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (value != NULL && traceback != NULL) {
        PyException_SetTraceback(value, traceback);
    }
    if (value != NULL && !PyErr_GivenExceptionMatches(value, PyExc_Exception)) {
        PyErr_Restore(type, value, traceback);
        return;
    }
    PyObject *done = value ? PyObject_CallMethodObjArgs((PyObject *)core, text_note, value, NULL) : NULL;
    Py_XDECREF(done);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
}

/* --- stacks */

/* The agent's Python code has classified these frames: take over its result. */
static int
take_over_owners(Frame *frame)
{
    PyObject *known = PyObject_GetAttr(core->sites, text_codes);
    if (known == NULL || !PyDict_Check(known)) {
        Py_XDECREF(known);
        return -1;
    }
    for (; frame != NULL; frame = FRAME_BACK(frame)) {
        if (FRAME_HIDDEN(frame)) {
            continue;
        }
        PyCodeObject *code = FRAME_CODE(frame);
        if (owner_of(code) != UNKNOWN) {
            continue;
        }
        PyObject *key = PyLong_FromVoidPtr(code);
        PyObject *offsets = key ? PyDict_GetItemWithError(known, key) : NULL;
        Py_XDECREF(key);
        if (offsets == Py_None) {
            int agents = PyUnicode_Tailmatch(code->co_filename, agent_dir, 0, PY_SSIZE_T_MAX, -1) == 1;
            learn_owner(code, agents ? AGENTS : OTHERS);
        } else if (offsets != NULL) {
            learn_owner(code, TARGETS);
        }
    }
    Py_DECREF(known);
    return PyErr_Occurred() ? -1 : 0;
}

/* A new reference to the stack's Python object, and its id. NULL: an exception is set. */
static PyObject *
define_stack(State *s, PyThreadState *thread, uint32_t *id)
{
    PyObject *frame = (PyObject *)PyThreadState_GetFrame(thread);
    PyObject *stack = PyObject_CallMethodObjArgs(core->sites, text_stack, (PyObject *)s, frame ? frame : Py_None, NULL);
    Py_XDECREF(frame);
    if (stack == NULL) {
        return NULL;
    }
    PyObject *number = PyObject_GetAttr(stack, text_id);
    *id = number ? (uint32_t)PyLong_AsUnsignedLong(number) : 0;
    Py_XDECREF(number);
    if (number == NULL || take_over_owners(FRAME_TOP(thread)) < 0) {
        Py_DECREF(stack);
        return NULL;
    }
    Site sites[DEPTH_MAX];
    int count = walk(FRAME_TOP(thread), sites);
    if (count >= 0) {
        uint64_t hash = sites_hash(sites, count);
        if (known_stack(sites, count, hash) == NULL) {
            learn_stack(sites, count, hash, stack, *id);
        }
    }
    return stack;
}

static inline PyObject *
find_stack(State *s, PyThreadState *thread, uint32_t *id)
{
    Site sites[DEPTH_MAX];
    int count = walk(FRAME_TOP(thread), sites);
    if (count >= 0) {
        StackEntry *entry = known_stack(sites, count, sites_hash(sites, count));
        if (entry != NULL) {
            *id = entry->id;
            Py_INCREF(entry->stack);
            return entry->stack;
        }
    }
    return define_stack(s, thread, id);
}

/* 1 if the running Python code is the target's own, else 0; -1: an exception of the host is set. */
static inline int
targets_own(PyThreadState *thread)
{
    Frame *frame = next_visible(FRAME_TOP(thread));
    if (frame == NULL) {
        return 0;
    }
    int owner = owner_of(FRAME_CODE(frame));
    if (owner != UNKNOWN) {
        return owner == TARGETS;
    }
    State *s = state_of(thread);
    if (s == NULL || s->busy) {
        return 0;
    }
    s->busy = 1;
    PyObject *object = (PyObject *)PyThreadState_GetFrame(thread);
    PyObject *own = object ? PyObject_CallMethodObjArgs((PyObject *)core, text_targets_own, object, NULL) : NULL;
    Py_XDECREF(object);
    int answer = own == Py_True && take_over_owners(FRAME_TOP(thread)) == 0;
    if (own == Py_False) {
        take_over_owners(FRAME_TOP(thread));
    }
    Py_XDECREF(own);
    if (PyErr_Occurred()) {
        note_trouble();
    }
    s->busy = 0;
    return PyErr_Occurred() ? -1 : answer;
}

/* --- begin and end */

static inline uint32_t
thread_id(State *s)
{
    PyObject *name = s->name;
    int has_name = name != NULL && PyUnicode_Check(name) && PyUnicode_GET_LENGTH(name) > 0;
    if (name == s->named && s->name_epoch == writer->epoch && (has_name || ++s->unnamed & 63)) {
        return s->name_id;
    }
    if (has_name) {
        Py_INCREF(name);
    } else {
        name = PyObject_CallMethodObjArgs((PyObject *)core, text_thread_name, (PyObject *)s, NULL);
        if (name == NULL) {
            return 0;
        }
    }
    s->name_id = string_id(s, name);
    s->name_epoch = writer->epoch;
    Py_DECREF(name);
    Py_XINCREF(s->name);
    Py_XDECREF(s->named);
    s->named = s->name;
    return s->name_id;
}

/* The id of the text of a target, with the content behind the mark if there is one. */
static uint32_t
target_id(State *s, Subject *subject)
{
    if (subject->content == NULL || PyUnicode_GET_LENGTH(subject->content) == 0) {
        return string_id(s, subject->target);
    }
    PyObject *text = PyUnicode_FromFormat("%U\x1f%U", subject->target, subject->content);
    uint32_t id = text != NULL ? string_id(s, text) : 0;
    Py_XDECREF(text);
    return id;
}

static inline int
has_ids(State *s, Operation *operation, Subject *subject)
{
    if (operation->epoch != writer->epoch) {
        operation->id = string_id(s, operation->name);
        operation->epoch = writer->epoch;
    }
    if (subject->epoch != writer->epoch) {
        subject->target_id = target_id(s, subject);
        subject->resource_id = string_id(s, subject->resource);
        if (PyErr_Occurred()) {
            return 0;
        }
        subject->epoch = writer->epoch;
    }
    return 1;
}

/* Writes the beginning of an operation. Returns its number; 0: an exception is set. The state must be busy. */
static inline uint32_t
begin(State *s, Operation *operation, Subject *subject, int64_t size, int64_t t_ns, uint32_t stack)
{
    uint32_t thread = thread_id(s);
    if (!has_ids(s, operation, subject) || PyErr_Occurred()) {
        return 0;
    }
    if (operation->opens) {
        *(operation->opens == 1 ? &s->extent : &s->pauses) = ++opened;
    }
    uint32_t seq = ++writer->sequence;
    put_begin(s, seq, t_ns ? t_ns : now_ns(), operation->id, stack, subject->target_id, subject->resource_id, thread,
              size);
    return seq;
}

static inline int
is_empty(PyObject *parts)
{
    return parts == NULL || (PyTuple_Check(parts) ? PyTuple_GET_SIZE(parts) == 0 : PyObject_IsTrue(parts) != 1);
}

/* True if a fault may have to be decided for this operation. */
static inline int
must_decide(Operation *operation)
{
    return !is_empty(operation->before) ||
           (operation->matchable && (core->lasting->generation != (long long)*core->generation ||
                                     !is_empty(core->lasting->entries)));
}

static inline int
has_lost_tasks(void)
{
    return core->lost_tasks != NULL && PyList_Check(core->lost_tasks) && PyList_GET_SIZE(core->lost_tasks) > 0;
}

/* True in a thread where a logical operation is under way. */
static inline int
in_logical_call(const State *s)
{
    return s->logical_call != NULL && s->logical_call != Py_None;
}

/* True if this operation needs only recording. */
static inline int
is_quiet(const State *s, Operation *operation)
{
    return !must_decide(operation) && is_empty(operation->after) && !in_logical_call(s) && !has_lost_tasks();
}

/* A child that was forked without Python's knowledge gets its event file when it first needs one. */
static void
settle_in_child(void)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    Py_XDECREF(PyObject_CallMethodObjArgs((PyObject *)core, text_after_fork, NULL));
    if (forked) {
        core->off = 1;
    }
    PyErr_Restore(type, value, traceback);
}

/* The thread's state if an operation is to be recorded now; NULL: it passes straight through. */
static inline State *
state_to_record(PyThreadState *thread)
{
    if (core == NULL || core->off || thread == NULL || thread->interp != main_interpreter) {
        return NULL;
    }
    if (forked) {
        settle_in_child();
    }
    State *s = state_of(thread);
    return s == NULL || s->busy ? NULL : s;
}

static uint32_t
error_id(State *s, PyObject *error)
{
    if (error == NULL || error == Py_None) {
        return 0;
    }
    PyObject *name = PyObject_CallFunctionObjArgs(error_name, error, NULL);
    uint32_t id = name && PyUnicode_Check(name) ? string_id(s, name) : 0;
    Py_XDECREF(name);
    return id;
}

/* Ends an operation. An exception that is set is its error; it stays set unless a signal handler raises another. */
static void
end_recorded(PyThreadState *thread, uint32_t seq, int64_t result)
{
    State *s = core->off || forked ? NULL : state_of(thread);
    if (s == NULL) {
        return;
    }
    uint32_t error = 0;
    if (PyErr_Occurred()) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        PyErr_NormalizeException(&type, &value, &traceback);
        char busy = s->busy;
        s->busy = 1;
        error = error_id(s, value);
        if (PyErr_Occurred()) {
            note_trouble();
        }
        s->busy = busy;
        if (PyErr_Occurred()) {
            Py_XDECREF(type);
            Py_XDECREF(value);
            Py_XDECREF(traceback);
        } else {
            PyErr_Restore(type, value, traceback);
        }
        result = 0;
    }
    put_end(s, seq, now_ns(), result, error);
}

/* Begins an operation without a possible fault. 0: not recorded; -1: an exception of the host is set. */
static inline int64_t
begin_recorded(PyThreadState *thread, State *s, Operation *operation, Subject *subject, int64_t size, int64_t t_ns)
{
    uint32_t stack_id, seq = 0;
    s->busy = 1;
    PyObject *stack = find_stack(s, thread, &stack_id);
    if (stack != NULL) {
        seq = begin(s, operation, subject, size, t_ns, stack_id);
        Py_DECREF(stack);
    }
    if (seq == 0) {
        note_trouble();
        s->busy = 0;
        return PyErr_Occurred() ? -1 : 0;
    }
    s->busy = 0;
    return seq;
}

/* --- enter and leave, for hooks in Python */

static PyObject *
make_call(State *s, PyObject *operation, PyObject *subject, PyObject *stack, uint32_t seq, int64_t t_ns)
{
    Call *call = (Call *)CallType.tp_alloc(&CallType, 0);
    if (call != NULL) {
        Py_INCREF(operation);
        Py_INCREF(subject);
        Py_INCREF(stack);
        Py_INCREF(s);
        Py_INCREF(Py_None);
        Py_INCREF(Py_None);
        call->operation = operation;
        call->subject = subject;
        call->stack = stack;
        call->cursor = (PyObject *)s;
        call->error = call->change = Py_None;
        call->seq = seq;
        call->t_ns = t_ns;
    }
    return (PyObject *)call;
}

/* A new reference to the call, or to None if it isn't recorded; NULL: an exception of the host is set. */
static PyObject *
enter(PyObject *operation, PyObject *subject, int64_t size, int64_t t_ns, PyObject *place)
{
    PyThreadState *thread = this_thread();
    State *s = state_to_record(thread);
    if (s == NULL) {
        Py_RETURN_NONE;
    }
    if (!PyObject_TypeCheck(operation, &OperationType) || !PyObject_TypeCheck(subject, &SubjectType)) {
        Py_RETURN_NONE;
    }
    PyObject *call = NULL, *stack = NULL, *done;
    uint32_t stack_id, seq = 0;
    int64_t began_ns = 0;
    if (in_logical_call(s) && core->covered != NULL && core->covered != Py_None) {
        PyObject *covered = core->covered;
        Py_INCREF(covered);
        done = PyObject_CallFunctionObjArgs(covered, operation, subject, NULL);
        Py_DECREF(covered);
        int part = done ? PyObject_IsTrue(done) : -1;
        if (part > 0 && PyObject_TypeCheck(done, &OperationType)) { /* recorded as this operation; the table keeps it alive */
            operation = done;
            part = 0;
        }
        Py_XDECREF(done);
        if (part != 0) {
            if (part > 0) {
                Py_RETURN_NONE;
            }
            return NULL;
        }
    }
    s->busy = 1;
    if (has_lost_tasks()) {
        done = PyObject_CallMethodObjArgs((PyObject *)core, text_check_tasks, NULL);
        if (done == NULL) {
            goto end;
        }
        Py_DECREF(done);
    }
    if (place != NULL && place != Py_None) {
        PyObject *number = PyObject_GetAttr(place, text_id);
        stack_id = number ? (uint32_t)PyLong_AsUnsignedLong(number) : 0;
        Py_XDECREF(number);
        if (!PyErr_Occurred()) {
            Py_INCREF(place);
            stack = place;
        }
    } else {
        stack = find_stack(s, thread, &stack_id);
    }
    if (stack != NULL) {
        began_ns = t_ns ? 0 : now_ns();
        seq = begin(s, (Operation *)operation, (Subject *)subject, size, t_ns ? t_ns : began_ns, stack_id);
    }
    if (seq == 0) {
        goto end;
    }
    call = make_call(s, operation, subject, stack, seq, began_ns);
    if (call != NULL && must_decide((Operation *)operation)) {
        done = PyObject_CallMethodObjArgs((PyObject *)core, text_decide_before, call, NULL);
        if (done == NULL) {
            Py_CLEAR(call);
        }
        Py_XDECREF(done);
    }
end:
    Py_XDECREF(stack);
    if (call == NULL) {
        note_trouble();
        if (!PyErr_Occurred()) {
            Py_INCREF(Py_None);
            call = Py_None;
        }
    }
    s->busy = 0;
    return call;
}

/* 0, or -1 with an exception of the host set. */
static int
leave(Call *call, int64_t result, PyObject *error)
{
    PyThreadState *thread = this_thread();
    State *s = thread->interp == main_interpreter && !forked ? state_of(thread) : NULL;
    if (s == NULL) {
        return 0;
    }
    char busy = s->busy;
    s->busy = 1;
    Py_INCREF(Py_None);
    Py_XSETREF(call->error, Py_None);
    Py_INCREF(Py_None);
    Py_XSETREF(call->change, Py_None);
    Py_INCREF(s);
    Py_XSETREF(call->cursor, (PyObject *)s);
    uint32_t id = error_id(s, error);
    if (!PyErr_Occurred()) {
        put_end(s, call->seq, now_ns(), result, id);
        if (((Operation *)call->operation)->opens == 1) {
            s->extent = ++opened;
        }
        if (!core->off && !is_empty(((Operation *)call->operation)->after)) {
            Py_XDECREF(PyObject_CallMethodObjArgs((PyObject *)core, text_decide_after, (PyObject *)call, NULL));
        }
    }
    if (PyErr_Occurred()) {
        note_trouble();
    }
    s->busy = busy;
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *
Core_enter(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    if (count < 2 || count > 5) {
        PyErr_SetString(PyExc_TypeError, "enter(operation, subject, size=0, t_ns=0, stack=None)");
        return NULL;
    }
    int64_t size = count > 2 ? PyLong_AsLongLong(args[2]) : 0, t_ns = count > 3 ? PyLong_AsLongLong(args[3]) : 0;
    if (PyErr_Occurred()) {
        PyErr_Clear();
        size = 0;
    }
    return enter(args[0], args[1], size, t_ns, count > 4 ? args[4] : NULL);
}

/* current_stack(): the target's current stack; None if nothing is recorded now. */
static PyObject *
Core_current_stack(PyObject *self, PyObject *unused)
{
    PyThreadState *thread = this_thread();
    State *s = state_to_record(thread);
    if (s == NULL) {
        Py_RETURN_NONE;
    }
    uint32_t stack_id;
    s->busy = 1;
    PyObject *stack = find_stack(s, thread, &stack_id);
    if (stack == NULL) {
        note_trouble();
    }
    s->busy = 0;
    if (stack == NULL && !PyErr_Occurred()) {
        Py_RETURN_NONE;
    }
    return stack;
}

static PyObject *
Core_leave(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    if (count < 1 || count > 3 || !Py_IS_TYPE(args[0], &CallType) || ((Call *)args[0])->operation == NULL) {
        PyErr_SetString(PyExc_TypeError, "leave(call, result=0, error=None)");
        return NULL;
    }
    int64_t result = count > 1 ? PyLong_AsLongLong(args[1]) : 0;
    if (PyErr_Occurred()) {
        PyErr_Clear();
        result = 0;
    }
    if (leave((Call *)args[0], result, count > 2 ? args[2] : NULL) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* The number of bytes that an operation moved, from its result. */
static int64_t
measured(PyObject *measure, PyObject *result)
{
    if (result == Py_None || measure == Py_None) {
        return 0;
    }
    int64_t size = 0;
    if (measure == (PyObject *)&PyLong_Type && PyLong_Check(result)) {
        size = PyLong_AsLongLong(result);
    } else if (PyBytes_CheckExact(result)) {
        size = PyBytes_GET_SIZE(result);
    } else {
        PyObject *number = PyObject_CallFunctionObjArgs(measure, result, NULL);
        size = number ? PyLong_AsLongLong(number) : 0;
        Py_XDECREF(number);
    }
    if (PyErr_Occurred()) {
        PyErr_Clear();
        size = 0;
    }
    return size;
}

/* The slow path of `perform`: a fault may have to be decided. */
static PyObject *
perform_decided(PyObject *call, PyObject *measure, PyObject *original, PyObject *const *args, Py_ssize_t count,
                PyObject *names)
{
    Call *c = (Call *)call;
    if (c->error != Py_None) {
        PyObject *error = PyObject_CallMethodObjArgs((PyObject *)core, text_refuse, call, NULL);
        if (error != NULL) {
            PyErr_SetObject((PyObject *)Py_TYPE(error), error);
            Py_DECREF(error);
        }
        return NULL;
    }
    PyObject *result = NULL, *positional = PyTuple_New(count), *options = PyDict_New();
    if (positional == NULL || options == NULL) {
        goto end;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_INCREF(args[i]);
        PyTuple_SET_ITEM(positional, i, args[i]);
    }
    for (Py_ssize_t i = 0; names != NULL && i < PyTuple_GET_SIZE(names); i++) {
        if (PyDict_SetItem(options, PyTuple_GET_ITEM(names, i), args[count + i]) < 0) {
            goto end;
        }
    }
    result = PyObject_CallMethodObjArgs((PyObject *)core, text_carry_out, call, measure, original, positional, options,
                                        NULL);
end:
    Py_XDECREF(positional);
    Py_XDECREF(options);
    return result;
}

static PyObject *
Core_perform(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    if (count < 5) {
        PyErr_SetString(PyExc_TypeError, "perform(operation, subject, size, measure, original, ...)");
        return NULL;
    }
    PyObject *operation = args[0], *subject = args[1], *measure = args[3], *original = args[4], *result;
    int64_t size = PyLong_AsLongLong(args[2]);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        size = 0;
    }
    PyThreadState *thread = this_thread();
    State *s = state_to_record(thread);
    if (s != NULL && PyObject_TypeCheck(subject, &SubjectType) && PyObject_TypeCheck(operation, &OperationType) &&
        is_quiet(s, (Operation *)operation)) {
        int64_t seq = begin_recorded(thread, s, (Operation *)operation, (Subject *)subject, size, 0);
        if (seq < 0) {
            return NULL;
        }
        result = PyObject_Vectorcall(original, args + 5, count - 5, names);
        if (seq > 0) {
            end_recorded(thread, (uint32_t)seq, result ? measured(measure, result) : 0);
        }
        return result;
    }
    PyObject *call = enter(operation, subject, size, 0, NULL);
    if (call == NULL) {
        return NULL;
    }
    if (call == Py_None) {
        result = PyObject_Vectorcall(original, args + 5, count - 5, names);
    } else {
        result = perform_decided(call, measure, original, args + 5, count - 5, names);
    }
    Py_DECREF(call);
    return result;
}

static PyObject *
Core_record(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    PyThreadState *thread = this_thread();
    State *s = count >= 2 && count <= 6 && thread->interp == main_interpreter && !forked ? state_of(thread) : NULL;
    if (s == NULL || !PyObject_TypeCheck(args[0], &OperationType) || !PyObject_TypeCheck(args[1], &SubjectType)) {
        Py_RETURN_NONE;
    }
    char busy = s->busy;
    s->busy = 1;
    uint32_t stack_id = 0, seq = 0;
    int64_t result = count > 3 ? PyLong_AsLongLong(args[3]) : 0, size = count > 4 ? PyLong_AsLongLong(args[4]) : 0;
    int64_t t_ns = count > 5 ? PyLong_AsLongLong(args[5]) : now_ns();
    PyObject *stack = NULL;
    if (count >= 3 && args[2] != Py_None) {
        PyObject *number = PyObject_GetAttr(args[2], text_id);
        stack_id = number ? (uint32_t)PyLong_AsUnsignedLong(number) : 0;
        Py_XDECREF(number);
    } else {
        stack = find_stack(s, thread, &stack_id);
    }
    if (!PyErr_Occurred()) {
        seq = begin(s, (Operation *)args[0], (Subject *)args[1], size, t_ns, stack_id);
    }
    Py_XDECREF(stack);
    if (seq != 0) {
        put_end(s, seq, t_ns, result, 0);
    } else {
        note_trouble();
    }
    s->busy = busy;
    if (PyErr_Occurred()) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
Core_thread_state(PyObject *self, PyObject *unused)
{
    State *s = state_of(this_thread());
    if (s == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "this thread has no state");
        return NULL;
    }
    Py_INCREF(s);
    return (PyObject *)s;
}

/* begin_work(sites, shared, lasting, agent_dir, error_name): an event file is open; from now on operations are recorded. */
static PyObject *
Core_begin_work(Core *self, PyObject *args)
{
    PyObject *sites, *view, *lasting;
    if (!PyArg_ParseTuple(args, "OOO!UO", &sites, &view, &LastingType, &lasting, &agent_dir, &error_name)) {
        return NULL;
    }
    Py_INCREF(agent_dir);
    Py_INCREF(error_name);
    if (self->generation == NULL) {
        if (PyObject_GetBuffer(view, &self->shared, PyBUF_SIMPLE) < 0) {
            return NULL;
        }
        self->generation = (volatile uint32_t *)((char *)self->shared.buf + 8);
    }
    Py_INCREF(sites);
    Py_XSETREF(self->sites, sites);
    Py_INCREF(lasting);
    Py_XSETREF(self->lasting, (Lasting *)lasting);
    Py_INCREF(self);
    Py_XSETREF(core, self);
    Py_RETURN_NONE;
}

static PyMethodDef Core_methods[] = {
    {"current_stack", (PyCFunction)Core_current_stack, METH_NOARGS, NULL},
    {"enter", (PyCFunction)(void (*)(void))Core_enter, METH_FASTCALL, NULL},
    {"leave", (PyCFunction)(void (*)(void))Core_leave, METH_FASTCALL, NULL},
    {"perform", (PyCFunction)(void (*)(void))Core_perform, METH_FASTCALL | METH_KEYWORDS, NULL},
    {"record", (PyCFunction)(void (*)(void))Core_record, METH_FASTCALL, NULL},
    {"thread_state", (PyCFunction)Core_thread_state, METH_NOARGS, NULL},
    {"begin_work", (PyCFunction)Core_begin_work, METH_VARARGS, NULL},
    {NULL},
};
static PyMemberDef Core_members[] = {
    {"off", T_BOOL, offsetof(Core, off), 0, NULL},
    {"lost_tasks", T_OBJECT_EX, offsetof(Core, lost_tasks), 0, NULL},
    {"covered", T_OBJECT, offsetof(Core, covered), 0, NULL},
    {NULL},
};

/* Never for the agent in use, which lives as long as the process. */
static void
Core_dealloc(Core *self)
{
    Py_XDECREF(self->lost_tasks);
    Py_XDECREF(self->covered);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyTypeObject CoreType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "undermine_agent.Core",
    .tp_basicsize = sizeof(Core),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = PyType_GenericNew,
    .tp_dealloc = (destructor)Core_dealloc,
    .tp_methods = Core_methods,
    .tp_members = Core_members,
};

/* --- the types of subjects, operations and calls */

static int
Subject_init(Subject *self, PyObject *args, PyObject *options)
{
    static char *names[] = {"target", "resource", "on_disk", "content", NULL};
    PyObject *target, *resource = NULL, *content = NULL;
    int on_disk = 0;
    if (!PyArg_ParseTupleAndKeywords(args, options, "U|UpU", names, &target, &resource, &on_disk, &content)) {
        return -1;
    }
    if (content == NULL) {
        content = PyUnicode_FromString("");
    } else {
        Py_INCREF(content);
    }
    Py_XSETREF(self->content, content);
    Py_INCREF(target);
    Py_XSETREF(self->target, target);
    if (resource == NULL) {
        resource = PyUnicode_FromString("");
    } else {
        Py_INCREF(resource);
    }
    Py_XSETREF(self->resource, resource);
    self->on_disk = (char)on_disk;
    self->epoch = 0;
    return resource == NULL || content == NULL ? -1 : 0;
}

static void
Subject_dealloc(Subject *self)
{
    Py_XDECREF(self->content);
    Py_XDECREF(self->target);
    Py_XDECREF(self->resource);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMemberDef Subject_members[] = {
    {"target", T_OBJECT_EX, offsetof(Subject, target), READONLY, NULL},
    {"resource", T_OBJECT_EX, offsetof(Subject, resource), READONLY, NULL},
    {"on_disk", T_BOOL, offsetof(Subject, on_disk), READONLY, NULL},
    {"content", T_OBJECT_EX, offsetof(Subject, content), READONLY, NULL},
    {NULL},
};

static PyTypeObject SubjectType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "undermine_agent.Subject",
    .tp_basicsize = sizeof(Subject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)Subject_init,
    .tp_dealloc = (destructor)Subject_dealloc,
    .tp_members = Subject_members,
};

static int
Operation_init(Operation *self, PyObject *args, PyObject *options)
{
    PyObject *name;
    int matchable;
    if (!PyArg_ParseTuple(args, "Up", &name, &matchable)) {
        return -1;
    }
    Py_INCREF(name);
    Py_XSETREF(self->name, name);
    self->matchable = (char)matchable;
    Py_XSETREF(self->before, PyTuple_New(0));
    Py_XSETREF(self->after, PyTuple_New(0));
    return 0;
}

static void
Operation_dealloc(Operation *self)
{
    Py_XDECREF(self->name);
    Py_XDECREF(self->before);
    Py_XDECREF(self->after);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMemberDef Operation_members[] = {
    {"name", T_OBJECT_EX, offsetof(Operation, name), 0, NULL},
    {"matchable", T_BOOL, offsetof(Operation, matchable), 0, NULL},
    {"opens", T_UBYTE, offsetof(Operation, opens), 0, NULL},
    {"before", T_OBJECT_EX, offsetof(Operation, before), 0, NULL},
    {"after", T_OBJECT_EX, offsetof(Operation, after), 0, NULL},
    {NULL},
};

static PyTypeObject OperationType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "undermine_agent.Operation",
    .tp_basicsize = sizeof(Operation),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)Operation_init,
    .tp_dealloc = (destructor)Operation_dealloc,
    .tp_members = Operation_members,
};

static void
Lasting_dealloc(Lasting *self)
{
    Py_XDECREF(self->entries);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMemberDef Lasting_members[] = {
    {"entries", T_OBJECT_EX, offsetof(Lasting, entries), 0, NULL},
    {"generation", T_LONGLONG, offsetof(Lasting, generation), 0, NULL},
    {NULL},
};

static PyTypeObject LastingType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "undermine_agent.Lasting",
    .tp_basicsize = sizeof(Lasting),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = PyType_GenericNew,
    .tp_dealloc = (destructor)Lasting_dealloc,
    .tp_members = Lasting_members,
};

/* The raised error may lead back to the call through its traceback. */
static int
Call_traverse(Call *self, visitproc visit, void *arg)
{
    Py_VISIT(self->operation);
    Py_VISIT(self->subject);
    Py_VISIT(self->stack);
    Py_VISIT(self->cursor);
    Py_VISIT(self->error);
    Py_VISIT(self->change);
    return 0;
}

static int
Call_clear(Call *self)
{
    Py_CLEAR(self->operation);
    Py_CLEAR(self->subject);
    Py_CLEAR(self->stack);
    Py_CLEAR(self->cursor);
    Py_CLEAR(self->error);
    Py_CLEAR(self->change);
    return 0;
}

static void
Call_dealloc(Call *self)
{
    PyObject_GC_UnTrack(self);
    Call_clear(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMemberDef Call_members[] = {
    {"operation", T_OBJECT, offsetof(Call, operation), READONLY, NULL},
    {"subject", T_OBJECT, offsetof(Call, subject), READONLY, NULL},
    {"stack", T_OBJECT, offsetof(Call, stack), READONLY, NULL},
    {"cursor", T_OBJECT, offsetof(Call, cursor), 0, NULL},
    {"error", T_OBJECT, offsetof(Call, error), 0, NULL},
    {"change", T_OBJECT, offsetof(Call, change), 0, NULL},
    {"seq", T_UINT, offsetof(Call, seq), READONLY, NULL},
    {"t_ns", T_LONGLONG, offsetof(Call, t_ns), READONLY, NULL},
    {NULL},
};

static PyTypeObject CallType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "undermine_agent.Call",
    .tp_basicsize = sizeof(Call),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_traverse = (traverseproc)Call_traverse,
    .tp_clear = (inquiry)Call_clear,
    .tp_dealloc = (destructor)Call_dealloc,
    .tp_members = Call_members,
};
