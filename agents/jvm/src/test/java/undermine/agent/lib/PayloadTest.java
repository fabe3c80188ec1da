package undermine.agent.lib;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;

import java.net.DatagramPacket;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;

class PayloadTest {
    private static byte[] ascii(String text) {
        return text.getBytes(StandardCharsets.US_ASCII);
    }

    private static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.US_ASCII);
    }

    @Test
    void aPartOfAnArrayIsReplacedInACopy() {
        byte[] own = ascii("0123456789");
        Object[] arguments = {own, 2, 3};
        Payload payload = Payload.of(arguments);
        assertEquals("234", text(payload.bytes()));
        payload.replace(ascii("abc"));
        payload.settle();
        assertEquals("01abc56789", text((byte[]) arguments[0]));
        assertEquals("0123456789", text(own));
    }

    @Test
    void aBufferMovesAsItsCopyDid() {
        ByteBuffer own = ByteBuffer.allocateDirect(10).order(ByteOrder.LITTLE_ENDIAN);
        own.put(ascii("0123456789")).position(3).limit(8);
        ByteBuffer readOnly = own.asReadOnlyBuffer().order(ByteOrder.LITTLE_ENDIAN);
        Object[] arguments = {readOnly, 7L};
        Payload payload = Payload.of(arguments);
        assertEquals("34567", text(payload.bytes()));
        payload.replace(ascii("abcde"));
        ByteBuffer copy = (ByteBuffer) arguments[0];
        assertEquals(5, copy.remaining());
        assertSame(ByteOrder.LITTLE_ENDIAN, copy.order());
        copy.get(new byte[2]); // a write that took only a part
        payload.settle();
        assertEquals(5, readOnly.position());
        assertEquals(8, readOnly.limit());
        assertEquals('5', readOnly.get());
    }

    @Test
    void onlyTheNamedBuffersOfSeveralAreReplaced() {
        ByteBuffer[] own = {
            ByteBuffer.wrap(ascii("no")), ByteBuffer.wrap(ascii("one")), ByteBuffer.wrap(ascii("two")), null,
        };
        own[1].position(1);
        Object[] arguments = {own, 1, 2};
        Payload payload = Payload.of(arguments);
        assertEquals("netwo", text(payload.bytes()));
        payload.replace(ascii("abcde"));
        ByteBuffer[] copies = (ByteBuffer[]) arguments[0];
        assertSame(own[0], copies[0]);
        assertNotSame(own[1], copies[1]);
        copies[1].get(new byte[2]);
        copies[2].get();
        payload.settle();
        assertEquals(3, own[1].position());
        assertEquals(1, own[2].position());
        assertEquals("one", text(own[1].array()));
    }

    @Test
    void receivedBytesAreReplacedInPlace() {
        ByteBuffer[] own = {ByteBuffer.allocate(4), ByteBuffer.allocate(4)};
        own[0].position(1);
        Payload payload = Payload.of(new Object[] {own, 0, 2});
        own[0].put(ascii("abc"));
        own[1].put(ascii("d"));
        assertEquals("abcd", text(payload.received(4)));
        payload.put(ascii("ABCD"));
        assertEquals("\0ABC", text(own[0].array()));
        assertEquals("D\0\0\0", text(own[1].array()));
        assertEquals(1, own[1].position());
        byte[] room = new byte[6];
        Payload array = Payload.of(new Object[] {room, 2, 4, 0L});
        room[2] = 'x';
        assertEquals("x", text(array.received(1)));
        array.put(ascii("y"));
        assertEquals('y', room[2]);
    }

    @Test
    void aPacketKeepsItsAddress() {
        InetSocketAddress to = new InetSocketAddress("127.0.0.1", 9);
        DatagramPacket own = new DatagramPacket(ascii("0123456789"), 2, 3, to);
        Object[] arguments = {own};
        Payload payload = Payload.of(arguments, 3);
        assertEquals("234", text(payload.bytes()));
        payload.replace(ascii("abc"));
        payload.settle();
        DatagramPacket copy = (DatagramPacket) arguments[0];
        assertEquals("abc", text(copy.getData()));
        assertEquals(to, copy.getSocketAddress());
        assertEquals("0123456789", text(own.getData()));
    }

    @Test
    void numbersAndTextsHaveTheBytesThatTheyAreWrittenAs() {
        assertArrayEquals(new byte[] {1, 2}, Payload.of(new Object[] {0x70102}, 2).bytes());
        assertArrayEquals(ascii("hi"), Payload.of(new Object[] {"hi"}, 2).bytes());
        assertArrayEquals(new byte[] {0, 'h', 0, 'i'}, Payload.of(new Object[] {"hi"}, 4).bytes());
        Object[][] changed = {{0x0102}, {5L}, {"hi"}, {"h"}};
        byte[][] instead = {{2, 2}, {0, 0, 0, 0, 0, 0, 1, 0}, {'h', (byte) 0xCA}, {1, 0}};
        for (int i = 0; i < changed.length; i++) {
            Payload.of(changed[i], instead[i].length).replace(instead[i]);
        }
        assertEquals(0x0202, changed[0][0]);
        assertEquals(256L, changed[1][0]);
        assertEquals("h\u00ca", changed[2][0]);
        assertEquals("\u0100", changed[3][0]);
    }

    @Test
    void argumentsWithoutBytesHaveNone() {
        assertNull(Payload.of(new Object[] {"text", 3}));
        assertNull(Payload.of(new Object[] {1, 2}, 4));
        assertEquals("b", text(Payload.of(new Object[] {ascii("a"), ascii("b"), "c"}).bytes()));
    }
}
