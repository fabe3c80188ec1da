import io.netty.bootstrap.Bootstrap;
import io.netty.bootstrap.ServerBootstrap;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.channel.Channel;
import io.netty.channel.ChannelFuture;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.ServerChannel;
import io.netty.channel.SimpleChannelInboundHandler;
import io.netty.channel.epoll.Epoll;
import io.netty.channel.epoll.EpollDatagramChannel;
import io.netty.channel.epoll.EpollEventLoopGroup;
import io.netty.channel.epoll.EpollServerSocketChannel;
import io.netty.channel.epoll.EpollSocketChannel;
import io.netty.channel.nio.NioEventLoopGroup;
import io.netty.channel.socket.DatagramPacket;
import io.netty.channel.socket.nio.NioDatagramChannel;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.netty.channel.socket.nio.NioSocketChannel;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** A client and an echo server over Netty, with epoll or NIO. Each line is a command with one answer. */
public class NettyTarget {
    static final int WAIT_S = 200;
    static boolean isNative;
    static EventLoopGroup group;
    static Channel client;
    static final LinkedBlockingQueue<String> ARRIVED = new LinkedBlockingQueue<String>();

    public static void main(String[] arguments) throws Exception {
        isNative = arguments[0].equals("epoll");
        group = isNative ? new EpollEventLoopGroup(1) : new NioEventLoopGroup(1);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            String answer;
            try {
                answer = done(words[0], words.length > 1 ? words[1] : "");
            } catch (Throwable error) {
                answer = said(error);
            }
            System.out.println(answer);
            System.out.flush();
        }
        group.shutdownGracefully(0, 1, TimeUnit.SECONDS).await(WAIT_S, TimeUnit.SECONDS);
    }

    static String said(Throwable error) {
        return error.getClass().getSimpleName() + ": " + error.getMessage();
    }

    static String done(String command, String word) throws Exception {
        switch (command) {
            case "loaded":
                return isNative ? String.valueOf(Epoll.isAvailable()) : "nio";
            case "listen":
                return listen(Integer.parseInt(word));
            case "connect":
                return connect(Integer.parseInt(word));
            case "tell":
                client.writeAndFlush(bytes(word));
                return "told";
            case "send":
                return awaited(client.writeAndFlush(bytes(word)), "sent");
            case "both": // gathered into one operation
                client.write(bytes(word));
                return awaited(client.writeAndFlush(bytes(word)), "sent");
            case "recv":
                String text = ARRIVED.poll(WAIT_S, TimeUnit.SECONDS);
                return text == null ? "nothing" : text;
            case "close":
                return awaited(client.close(), "closed");
            case "ask":
                return ask(Integer.parseInt(word), true);
            case "post":
                return ask(Integer.parseInt(word), false);
            default:
                return "what?";
        }
    }

    static ByteBuf bytes(String text) {
        return Unpooled.copiedBuffer(text, StandardCharsets.US_ASCII);
    }

    static String awaited(ChannelFuture future, String done) throws Exception {
        if (!future.await(WAIT_S, TimeUnit.SECONDS)) {
            return "nothing";
        }
        return future.isSuccess() ? done : said(future.cause());
    }

    // --- streams

    static String listen(int port) throws Exception {
        Class<? extends ServerChannel> type = isNative ? EpollServerSocketChannel.class : NioServerSocketChannel.class;
        ServerBootstrap server = new ServerBootstrap().group(group).channel(type);
        server.childHandler(new ChannelInitializer<Channel>() {
            @Override
            protected void initChannel(Channel channel) {
                channel.pipeline().addLast(new Echo());
            }
        });
        return awaited(server.bind("127.0.0.1", port), "listens");
    }

    static class Echo extends ChannelInboundHandlerAdapter {
        @Override
        public void channelRead(ChannelHandlerContext context, Object message) {
            context.writeAndFlush(message);
        }

        @Override
        public void exceptionCaught(ChannelHandlerContext context, Throwable error) {
            context.close();
        }
    }

    static String connect(int port) throws Exception {
        Class<? extends Channel> type = isNative ? EpollSocketChannel.class : NioSocketChannel.class;
        Bootstrap bootstrap = new Bootstrap().group(group).channel(type).handler(new Hearing());
        ChannelFuture future = bootstrap.connect("127.0.0.1", port);
        String answer = awaited(future, "connected");
        client = future.channel();
        return answer;
    }

    static class Hearing extends SimpleChannelInboundHandler<ByteBuf> {
        @Override
        protected void channelRead0(ChannelHandlerContext context, ByteBuf message) {
            ARRIVED.add(message.toString(StandardCharsets.US_ASCII));
        }

        @Override
        public void exceptionCaught(ChannelHandlerContext context, Throwable error) {
            ARRIVED.add(said(error));
            context.close();
        }
    }

    // --- datagrams: one to the server and, on request, one back

    static String ask(int port, boolean isAnswered) throws Exception {
        Class<? extends Channel> type = isNative ? EpollDatagramChannel.class : NioDatagramChannel.class;
        Bootstrap bootstrap = new Bootstrap().group(group).channel(type);
        bootstrap.handler(new SimpleChannelInboundHandler<DatagramPacket>() {
            @Override
            protected void channelRead0(ChannelHandlerContext context, DatagramPacket packet) {
                ARRIVED.add(packet.content().toString(StandardCharsets.US_ASCII));
            }
        });
        Channel channel = bootstrap.bind("127.0.0.1", 0).sync().channel();
        InetSocketAddress to = new InetSocketAddress("127.0.0.1", port);
        String answer = awaited(channel.writeAndFlush(new DatagramPacket(bytes("ping"), to)), "sent");
        answer = isAnswered ? ARRIVED.poll(WAIT_S, TimeUnit.SECONDS) : answer;
        channel.close().sync();
        return answer;
    }
}
