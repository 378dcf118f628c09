import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationTargetException;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.Readable;

/** Reads lines of "name version hex", decodes each with Kafka's own class and prints what that class writes back. */
public class EchoMessages {
    private static final String[] PACKAGES = {
        "org.apache.kafka.common.message.",
        "org.apache.kafka.coordinator.group.generated.",
        "org.apache.kafka.coordinator.transaction.generated.",
        "org.apache.kafka.coordinator.share.generated.",
        "org.apache.kafka.raft.generated.",
    };

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ", -1);
            System.out.println(echo(words[0], Short.parseShort(words[1]), HexFormat.of().parseHex(words[2])));
        }
    }

    private static String echo(String name, short version, byte[] data) throws Exception {
        try {
            ByteBuffer buffer = ByteBuffer.wrap(data);
            Message message = (Message) classOf(name)
                .getConstructor(Readable.class, short.class)
                .newInstance(new ByteBufferAccessor(buffer), version);
            if (buffer.hasRemaining()) {
                return "left " + buffer.remaining() + " bytes";
            }
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ByteBufferAccessor output = new ByteBufferAccessor(ByteBuffer.allocate(message.size(cache, version)));
            message.write(output, cache, version);
            return HexFormat.of().formatHex(output.buffer().array());
        } catch (InvocationTargetException problem) {
            return "refused: " + problem.getCause();
        }
    }

    private static Class<?> classOf(String name) throws ClassNotFoundException {
        for (String prefix : PACKAGES) {
            for (String suffix : new String[] {"Data", ""}) {
                try {
                    return Class.forName(prefix + name + suffix);
                } catch (ClassNotFoundException ignored) {
                    // the next one
                }
            }
        }
        throw new ClassNotFoundException(name);
    }
}
