/* Walks the stack of a thread for undermine.agent.stacks.NativeWalker: the method of each frame, and the index in it.
 *
 * The JVM's tool interface (JVMTI) needs a third of the time of a StackWalker. The indexes of its functions are part of its
 * specification. The helper requests no capability, so the JVM doesn't get slower. AsyncGetCallTrace, which profilers use,
 * would be faster still, but must not be called while a garbage collection or another safepoint can begin.
 */

typedef struct {
    void *method;
    int64_t index;
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

static tools walking_tools;

/* Returns 0 if stacks can be walked. */
EXPORTED int32_t
Java_undermine_agent_stacks_NativeWalker_open(environment env, void *class)
{
    environment vm;
    (void)class;
    if (((get_vm)(*env)[GET_VM])(env, &vm) != 0) {
        return 1;
    }
    return ((get_env)(*vm)[GET_ENV])(vm, &walking_tools, TOOLS_VERSION);
}

/* Stores pairs of method and index in the array; returns the number of frames, or less than 0. */
EXPORTED int32_t
Java_undermine_agent_stacks_NativeWalker_walk(environment env, void *class, void *into, int32_t from, int32_t max)
{
    frame found[FRAMES_MAX];
    int64_t numbers[2 * FRAMES_MAX];
    int32_t count = 0, i;
    (void)class;
    if (max > FRAMES_MAX || ((get_stack)(*walking_tools)[GET_STACK])(walking_tools, 0, from, max, found, &count) != 0) {
        return -1;
    }
    for (i = 0; i < count; i++) {
        numbers[2 * i] = (int64_t)(intptr_t)found[i].method;
        numbers[2 * i + 1] = found[i].index;
    }
    ((put_longs)(*env)[PUT_LONGS])(env, into, 0, 2 * count, numbers);
    return count;
}

/* Returns the class of a method, or null. The method was just found in a stack, so it still exists. */
EXPORTED void *
Java_undermine_agent_stacks_NativeWalker_owner(environment env, void *class, int64_t method)
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

/* Returns the method's name and descriptor as one text, or null. */
EXPORTED void *
Java_undermine_agent_stacks_NativeWalker_name(environment env, void *class, int64_t method)
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
