package undermine.agent.own;

import java.util.ArrayDeque;
import java.util.Deque;
import org.objectweb.asm.Handle;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.Type;
import undermine.agent.heap.HeapMethod;
import undermine.agent.stacks.Locs;

/**
 * Weaves hooks at a method's accesses to the heap: fields, elements of arrays, calls of collections and maps, and the creation
 * of objects.
 *
 * All hooks are calls of the agent in straight code. So call sites, lines and stack frames stay as they are. A call keeps its
 * arguments in local variables behind the method's own. Before a constructor has called another one, its object can't be
 * passed to a hook, so nothing is woven there.
 */
final class HeapAccesses extends MethodVisitor {
    private static final String HOOKS = "undermine/agent/heap/HeapHooks";
    private static final String QUEUES = "undermine/agent/instead/QueueCalls";
    private static final String OBJECT = "Ljava/lang/Object;";
    /** Stands for a value that hooks don't take. */
    private static final String UNKNOWN = "";
    private static final String PLACE = "Ljava/lang/String;I)V";

    private final HeapHome home;
    private final String method;
    private final String descriptor;
    /** The first local variable that the method doesn't use. */
    private final int free;
    /** False in a constructor until it has called another one. */
    private boolean isReady;
    /** The types that are being created; those that aren't duplicated, and so aren't kept, have a minus in front. */
    private final Deque<String> created = new ArrayDeque<String>();
    private boolean isAfterNew;
    /** The number of calls so far, as CallCounter counts them. */
    private int calls;

    HeapAccesses(MethodVisitor next, HeapHome home, String method, String descriptor, int free) {
        super(Opcodes.ASM9, next);
        this.home = home;
        this.method = method;
        this.descriptor = descriptor;
        this.free = free;
        isReady = !method.equals("<init>");
    }

    private void hook(String name, String takes) {
        home.isChanged = true;
        super.visitMethodInsn(Opcodes.INVOKESTATIC, HOOKS, name, takes, false);
    }

    private void pushPlace() {
        super.visitLdcInsn(home.nextPlace());
    }

    // --- fields

    /** How hooks take a value: as an object, a boolean or a long; empty if they don't take it. */
    private static String taken(String type) {
        switch (type.charAt(0)) {
            case 'L':
            case '[':
                return OBJECT;
            case 'Z':
                return "Z";
            case 'C':
            case 'F':
            case 'D':
                return "";
            default:
                return "J";
        }
    }

    private void widen(String type) {
        if (taken(type).equals("J") && !type.equals("J")) {
            super.visitInsn(Opcodes.I2L);
        }
    }

    @Override
    public void visitFieldInsn(int opcode, String of, String name, String type) {
        isAfterNew = false;
        boolean isRead = opcode == Opcodes.GETFIELD || opcode == Opcodes.GETSTATIC;
        boolean isStatic = opcode == Opcodes.GETSTATIC || opcode == Opcodes.PUTSTATIC;
        boolean isFinal = home.isFinal(of, name) || isStatic && isRead && !of.equals(home.owner) && isConstant(name);
        if (!isReady || name.indexOf('$') >= 0 || isFinal && (isRead || !taken(type).equals(OBJECT))) {
            super.visitFieldInsn(opcode, of, name, type);
        } else if (isStatic) {
            staticField(opcode, of, name, type, isFinal);
        } else if (isRead) {
            read(of, name, type);
        } else {
            write(of, name, type, isFinal);
        }
    }

    /** True if the name of a static field says that it doesn't change. */
    private static boolean isConstant(String name) {
        for (int i = 0; i < name.length(); i++) {
            if (Character.isLowerCase(name.charAt(i))) {
                return false;
            }
        }
        return true;
    }

    private void finish(String name, String type, String field, boolean isFinal) {
        super.visitLdcInsn("." + field);
        if (isFinal) {
            hook("stored", "(" + OBJECT + OBJECT + "Ljava/lang/String;)V");
            return;
        }
        pushPlace();
        hook(name, "(" + OBJECT + (taken(type).isEmpty() ? OBJECT : taken(type)) + PLACE);
    }

    private void staticField(int opcode, String of, String field, String type, boolean isFinal) {
        boolean isRead = opcode == Opcodes.GETSTATIC;
        if (isRead) {
            super.visitFieldInsn(opcode, of, field, type);
        }
        boolean isWide = type.equals("J");
        if (taken(type).isEmpty()) {
            super.visitLdcInsn(Locs.ofClass(of.replace('/', '.')));
            super.visitLdcInsn(UNKNOWN);
        } else {
            super.visitInsn(isWide ? Opcodes.DUP2 : Opcodes.DUP);
            super.visitLdcInsn(Locs.ofClass(of.replace('/', '.')));
            super.visitInsn(isWide ? Opcodes.DUP_X2 : Opcodes.SWAP);
            if (isWide) {
                super.visitInsn(Opcodes.POP);
            }
            widen(type);
        }
        finish(isRead ? "read" : "write", type, field, isFinal);
        if (!isRead) {
            super.visitFieldInsn(opcode, of, field, type);
        }
    }

    private void read(String of, String field, String type) {
        super.visitInsn(Opcodes.DUP);
        if (taken(type).isEmpty()) {
            super.visitLdcInsn(UNKNOWN);
            finish("read", type, field, false);
            super.visitFieldInsn(Opcodes.GETFIELD, of, field, type);
            return;
        }
        super.visitFieldInsn(Opcodes.GETFIELD, of, field, type);
        super.visitInsn(type.equals("J") ? Opcodes.DUP2_X1 : Opcodes.DUP_X1);
        widen(type);
        finish("read", type, field, false);
    }

    private void write(String of, String field, String type, boolean isFinal) {
        boolean isTaken = !taken(type).isEmpty();
        if (isTaken && !type.equals("J")) {
            super.visitInsn(Opcodes.DUP2);
            widen(type);
            finish("write", type, field, isFinal);
        } else {
            Type kept = Type.getType(type);
            super.visitVarInsn(kept.getOpcode(Opcodes.ISTORE), free);
            super.visitInsn(Opcodes.DUP);
            if (isTaken) {
                super.visitVarInsn(kept.getOpcode(Opcodes.ILOAD), free);
            } else {
                super.visitLdcInsn(UNKNOWN);
            }
            finish("write", type, field, isFinal);
            super.visitVarInsn(kept.getOpcode(Opcodes.ILOAD), free);
        }
        super.visitFieldInsn(Opcodes.PUTFIELD, of, field, type);
    }

    // --- elements of arrays

    @Override
    public void visitInsn(int opcode) {
        if (opcode == Opcodes.DUP && isAfterNew) {
            created.push(created.pop().substring(1));
        }
        isAfterNew = false;
        boolean isRead = opcode >= Opcodes.IALOAD && opcode <= Opcodes.SALOAD;
        boolean isWrite = opcode >= Opcodes.IASTORE && opcode <= Opcodes.SASTORE;
        String type = isRead ? elementType(opcode - Opcodes.IALOAD) : isWrite ? elementType(opcode - Opcodes.IASTORE) : "";
        if (!isReady || type.isEmpty()) {
            super.visitInsn(opcode);
        } else if (isRead) {
            super.visitInsn(Opcodes.DUP2);
            super.visitInsn(opcode);
            super.visitInsn(type.equals("J") ? Opcodes.DUP2_X2 : Opcodes.DUP_X2);
            element("read", type);
        } else {
            Type kept = Type.getType(type);
            super.visitVarInsn(kept.getOpcode(Opcodes.ISTORE), free);
            super.visitInsn(Opcodes.DUP2);
            super.visitVarInsn(kept.getOpcode(Opcodes.ILOAD), free);
            element("write", type);
            super.visitVarInsn(kept.getOpcode(Opcodes.ILOAD), free);
            super.visitInsn(opcode);
        }
    }

    /** By the order of the instructions: int, long, float, double, object, byte or boolean, char, short. Empty: not woven. */
    private static String elementType(int number) {
        return new String[] {"I", "J", "", "", OBJECT, "I", "", "I"}[number];
    }

    private void element(String name, String type) {
        widen(type);
        pushPlace();
        hook(name, "(" + OBJECT + "I" + taken(type) + "I)V");
    }

    // --- calls

    @Override
    public void visitTypeInsn(int opcode, String type) {
        super.visitTypeInsn(opcode, type);
        isAfterNew = opcode == Opcodes.NEW;
        if (isAfterNew) {
            created.push("-" + type);
        }
    }

    @Override
    public void visitMethodInsn(int opcode, String of, String name, String takes, boolean isInterface) {
        isAfterNew = false;
        boolean isOfQueues = opcode == Opcodes.INVOKESTATIC && of.equals(QUEUES);
        HeapMethod found = !isReady || opcode == Opcodes.INVOKESPECIAL ? null
                : isOfQueues ? ofQueue(name, takes)
                : opcode == Opcodes.INVOKESTATIC ? null : HeapMethod.of(of, name, takes);
        if (found == null) {
            super.visitMethodInsn(opcode, of, name, takes, isInterface);
        } else {
            Type[] arguments = Type.getArgumentTypes(isOfQueues ? takes : "(" + OBJECT + takes.substring(1));
            if (!isOfQueues) {
                arguments[0] = Type.getObjectType(of);
            }
            called(found, arguments, opcode, of, name, takes, isInterface);
        }
        if (opcode == Opcodes.INVOKESPECIAL && name.equals("<init>")) {
            constructed(of);
        }
        if (!of.startsWith("undermine/agent/") || of.startsWith("undermine/agent/instead/")) {
            calls++;
        }
    }

    @Override
    public void visitInvokeDynamicInsn(String name, String takes, Handle bootstrap, Object... arguments) {
        isAfterNew = false;
        super.visitInvokeDynamicInsn(name, takes, bootstrap, arguments);
        calls++;
    }

    @Override
    public void visitVarInsn(int opcode, int variable) {
        isAfterNew = false;
        super.visitVarInsn(opcode, variable);
    }

    @Override
    public void visitLdcInsn(Object value) {
        isAfterNew = false;
        super.visitLdcInsn(value);
    }

    /** The queue's method that a call of the agent replaced, or null. */
    private static HeapMethod ofQueue(String name, String takes) {
        int end = takes.indexOf(';');
        return HeapMethod.of(takes.substring(2, end), name, "(" + takes.substring(end + 1));
    }

    /** A constructor has returned. */
    private void constructed(String type) {
        String top = created.isEmpty() ? "" : created.peek();
        if (top.equals(type) || top.equals("-" + type)) {
            created.pop();
            if (isReady && top.equals(type) && !type.startsWith("java/")) {
                super.visitInsn(Opcodes.DUP);
                super.visitLdcInsn(home.site(method, descriptor, calls));
                hook("created", "(" + OBJECT + "Ljava/lang/String;)V");
            }
        } else if (type.equals(home.owner) || type.equals(home.superName)) {
            isReady = true;
        }
    }

    private void called(
            HeapMethod found, Type[] arguments, int opcode, String of, String name, String takes, boolean isInterface) {
        int[] kept = new int[arguments.length];
        int next = free;
        for (int i = arguments.length - 1; i >= 0; i--) {
            kept[i] = next;
            super.visitVarInsn(arguments[i].getOpcode(Opcodes.ISTORE), next);
            next += arguments[i].getSize();
        }
        for (int i = 0; i < arguments.length; i++) {
            super.visitVarInsn(arguments[i].getOpcode(Opcodes.ILOAD), kept[i]);
        }
        super.visitMethodInsn(opcode, of, name, takes, isInterface);
        String result = duplicated(Type.getReturnType(takes));
        super.visitVarInsn(Opcodes.ALOAD, kept[0]);
        argument(arguments, kept, found.key + 1);
        argument(arguments, kept, found.value + 1);
        super.visitIntInsn(Opcodes.SIPUSH, found.number);
        pushPlace();
        hook("called", "(" + result + OBJECT + OBJECT + OBJECT + "II)V");
    }

    /** Duplicate the result of a call, in the form in which the hook takes it. */
    private String duplicated(Type result) {
        if (result.getSort() == Type.VOID) {
            return "";
        }
        super.visitInsn(result.getSize() == 2 ? Opcodes.DUP2 : Opcodes.DUP);
        widen(result.getDescriptor());
        return taken(result.getDescriptor());
    }

    /** Push an argument as an object; 0: none. */
    private void argument(Type[] arguments, int[] kept, int number) {
        if (number == 0) {
            super.visitInsn(Opcodes.ACONST_NULL);
            return;
        }
        String type = arguments[number].getDescriptor();
        super.visitVarInsn(arguments[number].getOpcode(Opcodes.ILOAD), kept[number]);
        if (!taken(type).equals(OBJECT)) {
            widen(type);
            hook("argument", "(" + taken(type) + ")" + OBJECT);
        }
    }
}
