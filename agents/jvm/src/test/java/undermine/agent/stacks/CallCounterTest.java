package undermine.agent.stacks;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.Handle;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;

/** Compares the reader of class files with ASM, on many classes. */
class CallCounterTest {
    @Test
    void itCountsAsManyCallsAsThereAre() throws IOException {
        Path root = FileSystems.getFileSystem(URI.create("jrt:/")).getPath("/modules/java.base/java/util");
        List<Path> files;
        try (Stream<Path> all = Files.walk(root, 1)) {
            files = all.filter(file -> file.toString().endsWith(".class")).toList();
        }
        assertTrue(files.size() > 100);
        for (Path file : files) {
            byte[] bytes = Files.readAllBytes(file);
            assertEquals(byAsm(bytes), byUs(bytes), file.toString());
        }
    }

    private static List<String> byUs(byte[] bytes) {
        List<String> found = new ArrayList<>();
        for (CallCounter.Method method : new CallCounter(bytes).methods) {
            found.add(method.name + method.descriptor + " " + method.ordinal(Integer.MAX_VALUE));
        }
        return found;
    }

    private static List<String> byAsm(byte[] bytes) {
        List<String> found = new ArrayList<>();
        new ClassReader(bytes).accept(new ClassVisitor(Opcodes.ASM9) {
            @Override
            public MethodVisitor visitMethod(int access, String name, String type, String generic, String[] errors) {
                boolean hasCode = (access & (Opcodes.ACC_ABSTRACT | Opcodes.ACC_NATIVE)) == 0;
                return hasCode ? new Counting(name + type, found) : null;
            }
        }, 0);
        return found;
    }

    private static final class Counting extends MethodVisitor {
        private final String name;
        private final List<String> found;
        private int count;

        Counting(String name, List<String> found) {
            super(Opcodes.ASM9);
            this.name = name;
            this.found = found;
        }

        @Override
        public void visitMethodInsn(int code, String owner, String method, String type, boolean isInterface) {
            count++;
        }

        @Override
        public void visitInvokeDynamicInsn(String method, String type, Handle handle, Object... arguments) {
            count++;
        }

        @Override
        public void visitEnd() {
            found.add(name + " " + count);
        }
    }

    @Test
    void callsOfTheAgentAreNotCounted() {
        ClassWriter writer = new ClassWriter(0);
        writer.visit(Opcodes.V1_8, Opcodes.ACC_PUBLIC, "a/B", null, "java/lang/Object", null);
        MethodVisitor method = writer.visitMethod(Opcodes.ACC_STATIC, "run", "()V", null, null);
        method.visitCode();
        method.visitMethodInsn(Opcodes.INVOKESTATIC, "undermine/agent/hooks/Hooks", "x", "()V", false);
        method.visitMethodInsn(Opcodes.INVOKESTATIC, "java/lang/Thread", "yield", "()V", false);
        method.visitMethodInsn(Opcodes.INVOKESTATIC, "undermine/agents/Other", "x", "()V", false);
        method.visitMethodInsn(Opcodes.INVOKESTATIC, "undermine/agent/instead/LockCalls", "x", "()V", false);
        method.visitInsn(Opcodes.RETURN);
        method.visitMaxs(0, 0);
        method.visitEnd();
        writer.visitEnd();
        CallCounter.Method found = new CallCounter(writer.toByteArray()).method("run", "()V");
        assertEquals(0, found.ordinal(3));
        assertEquals(1, found.ordinal(6));
        assertEquals(2, found.ordinal(9));
        assertEquals(3, found.ordinal(12)); // it replaces a call of the target
    }

    @Test
    void methodsAreFoundByLineAndPlace() throws IOException {
        CallCounter calls;
        try (InputStream stream = shop.Store.class.getResourceAsStream("Store.class")) {
            calls = new CallCounter(stream.readAllBytes());
        }
        assertTrue(calls.isOverloaded("write"));
        assertFalse(calls.isOverloaded("put"));
        assertNull(calls.method("put", "()V"));
        assertNull(calls.atLine("put", 100_000));
        CallCounter.Method twice = calls.method("twice", "()V");
        assertEquals(2, twice.ordinal(Integer.MAX_VALUE));
        assertEquals(0, calls.callersAt("put", 100_000));
    }

    @Test
    void malformedClassFilesAreIgnored() {
        assertNull(ClassSites.parse(new byte[0]));
        assertNull(ClassSites.parse(new byte[100]));
        assertNull(ClassSites.parse(new byte[] {(byte) 0xca, (byte) 0xfe, (byte) 0xba, (byte) 0xbe, 0, 0, 0, 52, 0, 9}));
    }
}
