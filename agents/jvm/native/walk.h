/* Walking the stack of a thread, for undermine.agent.NativeWalker: which method each frame is in, and where.
 *
 * The JVM's tool interface (JVMTI) answers in a third of the time that a StackWalker takes. Like those of JNI, the places
 * of its functions are part of its specification. No capability is asked for, so nothing gets slower by it but the loading of
 * classes, a little.
 */

typedef struct {
    void *method;
    int64_t place;
} frame;

typedef void *const *const *tools;
typedef int32_t (*get_vm)(environment, environment *vm);
typedef int32_t (*get_env)(environment vm, tools *found, int32_t version);
typedef int32_t (*get_stack)(tools, void *thread, int32_t from, int32_t max, frame *into, int32_t *count);
typedef int32_t (*get_name)(tools, void *method, char **name, char **type, char **generic);
typedef int32_t (*get_class)(tools, void *method, void **class);
typedef int32_t (*let_go)(tools, void *memory);
typedef void *(*new_text)(environment, const char *text);
typedef void (*put_longs)(environment, void *array, int32_t start, int32_t length, const int64_t *from);

enum { NEW_TEXT = 167, PUT_LONGS = 212, GET_VM = 219, GET_ENV = 6 };
enum { LET_GO = 46, GET_NAME = 63, GET_CLASS = 64, GET_STACK = 103, TOOLS_VERSION = 0x30010200 };
enum { FRAMES_MAX = 64, NAME_BYTES_MAX = 8192 };

typedef int32_t (*set_event)(tools, int32_t is_on, int32_t event, void *thread, ...);
typedef int32_t (*set_handlers)(tools, void *const *handlers, int32_t size);

enum { SET_EVENT = 1, SET_HANDLERS = 121, FIRST_EVENT = 50, CLASS_LOAD = 55, ON = 1, IN_NATIVE_CODE = -3 };

static tools walking_tools;

/* What profilers ask in their signal handlers is faster still, since no object is made for a frame. It knows only methods that
 * have a number already; and it answers only if somebody wants to hear of classes that are loaded, so we do. */
typedef struct {
    int32_t place;
    void *method;
} sample;

typedef struct {
    environment env;
    int32_t count;
    sample *frames;
} samples;

extern void AsyncGetCallTrace(samples *into, int32_t max, void *context) __attribute__((weak));

static void
class_loaded(tools own, environment env, void *thread, void *class)
{
    (void)own;
    (void)env;
    (void)thread;
    (void)class;
}

static void
hear_of_classes(void)
{
    void *handlers[CLASS_LOAD - FIRST_EVENT + 1] = {0};
    handlers[CLASS_LOAD - FIRST_EVENT] = (void *)class_loaded;
    if (((set_handlers)(*walking_tools)[SET_HANDLERS])(walking_tools, handlers, sizeof handlers) == 0) {
        ((set_event)(*walking_tools)[SET_EVENT])(walking_tools, ON, CLASS_LOAD, 0);
    }
}

/* 0 if stacks can be walked. */
EXPORTED int32_t
Java_undermine_agent_NativeWalker_open(environment env, void *class)
{
    environment vm;
    (void)class;
    if (((get_vm)(*env)[GET_VM])(env, &vm) != 0) {
        return 1;
    }
    if (((get_env)(*vm)[GET_ENV])(vm, &walking_tools, TOOLS_VERSION) != 0) {
        return 1;
    }
    if (AsyncGetCallTrace) {
        hear_of_classes();
    }
    return 0;
}

/* How many frames of this thread were found, if these are all; less than 1: it must be asked for in another way. */
static int32_t
sampled(environment env, int64_t *numbers, int32_t max)
{
    sample found[FRAMES_MAX];
    samples all = {env, 0, found};
    int32_t i;
    if (!AsyncGetCallTrace) {
        return 0;
    }
    AsyncGetCallTrace(&all, max, 0);
    for (i = 0; i < all.count; i++) {
        if (found[i].method == 0) {
            return 0;
        }
        numbers[2 * i] = (int64_t)(intptr_t)found[i].method;
        numbers[2 * i + 1] = found[i].place == IN_NATIVE_CODE ? -1 : found[i].place;
    }
    return all.count < max ? all.count : 0;
}

/* Puts methods and places by turns into the array; returns how many frames there were, or less than 0. */
EXPORTED int32_t
Java_undermine_agent_NativeWalker_walk(environment env, void *class, void *into, int32_t from, int32_t max)
{
    frame found[FRAMES_MAX];
    int64_t numbers[2 * FRAMES_MAX];
    int32_t count = 0, i;
    (void)class;
    if (from == 0 && max <= FRAMES_MAX && (count = sampled(env, numbers, max)) > 0) {
        ((put_longs)(*env)[PUT_LONGS])(env, into, 0, 2 * count, numbers);
        return count;
    }
    count = 0;
    if (max > FRAMES_MAX || ((get_stack)(*walking_tools)[GET_STACK])(walking_tools, 0, from, max, found, &count) != 0) {
        return -1;
    }
    for (i = 0; i < count; i++) {
        numbers[2 * i] = (int64_t)(intptr_t)found[i].method;
        numbers[2 * i + 1] = found[i].place;
    }
    ((put_longs)(*env)[PUT_LONGS])(env, into, 0, 2 * count, numbers);
    return count;
}

/* The class of a method that was just found in a stack, so it is still there; or null. */
EXPORTED void *
Java_undermine_agent_NativeWalker_owner(environment env, void *class, int64_t method)
{
    void *found = 0;
    (void)env;
    (void)class;
    if (((get_class)(*walking_tools)[GET_CLASS])(walking_tools, (void *)(intptr_t)method, &found) != 0) {
        return 0;
    }
    return found;
}

static size_t
copy_text(char *into, size_t at, const char *text)
{
    while (*text != '\0' && at + 1 < NAME_BYTES_MAX) {
        into[at++] = *text++;
    }
    return at;
}

/* Its name and descriptor, in one text; or null. */
EXPORTED void *
Java_undermine_agent_NativeWalker_name(environment env, void *class, int64_t method)
{
    char text[NAME_BYTES_MAX], *name = 0, *type = 0;
    size_t end;
    let_go release = (let_go)(*walking_tools)[LET_GO];
    (void)class;
    if (((get_name)(*walking_tools)[GET_NAME])(walking_tools, (void *)(intptr_t)method, &name, &type, 0) != 0) {
        return 0;
    }
    end = copy_text(text, copy_text(text, 0, name), type);
    text[end] = '\0';
    release(walking_tools, name);
    release(walking_tools, type);
    return ((new_text)(*env)[NEW_TEXT])(env, text);
}
