import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;

/** A program that uses memory in one of several ways. */
public class Main {
    static final int MB = 1 << 20;
    static final long BEGAN = System.nanoTime();

    static double seconds() { return (System.nanoTime() - BEGAN) / 1e9; }

    static int any(int n) { return ThreadLocalRandom.current().nextInt(n); }

    static Map<String, Object> member(int id) {
        Map<String, Object> m = new HashMap<>();
        m.put("id", id);
        m.put("name", "member " + id);
        m.put("roles", new int[] {id, id + 1});
        return m;
    }

    static Runnable step(String work, int ram) throws Exception {
        List<Object> all = new ArrayList<>();
        switch (work) {
            case "bot": // members and the last messages of channels, and a message now and then
                for (int id = 0; id < 20000; id++) all.add(member(id));
                List<List<Object>> channels = new ArrayList<>();
                for (int i = 0; i < 20; i++) channels.add(new ArrayList<>());
                return () -> {
                    List<Object> channel = channels.get(any(20));
                    channel.add("x".repeat(1500).toCharArray());
                    if (channel.size() > 200) channel.remove(0);
                    all.set(any(20000), member(any(20000)));
                };
            case "cache": // entries that are replaced
                for (int n = (int) (0.42 * ram * MB / 10240); n > 0; n--) all.add(new byte[10000]);
                return () -> all.set(any(all.size()), new byte[10000]);
            case "garbage": // what nobody keeps
                return () -> {
                    List<Object> rows = new ArrayList<>();
                    for (int i = 0; i < 100; i++) rows.add(new byte[1000]);
                };
            case "buffers":
                for (int n = (int) (0.3 * ram * MB / 65536); n > 0; n--) all.add(new byte[65536]);
                return () -> all.set(any(all.size()), new byte[65536]);
            case "leak": // a third of the RAM in a second
                return () -> {
                    if (all.size() * 10240.0 < seconds() * ram / 3 * MB) all.add(new byte[10000]);
                };
            default:
                HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(System.getenv("PORT"))), 0);
                server.setExecutor(Executors.newFixedThreadPool(4));
                server.createContext("/", exchange -> {
                    StringBuilder b = new StringBuilder();
                    for (int i = 0; i < 200; i++) b.append("{\"i\":").append(i).append(",\"value\":\"").append("x".repeat(100)).append("\"}");
                    byte[] body = b.toString().getBytes();
                    exchange.sendResponseHeaders(200, body.length);
                    exchange.getResponseBody().write(body);
                    exchange.close();
                });
                server.start();
                return null;
        }
    }

    public static void main(String[] args) throws Exception {
        double end = Double.parseDouble(args[2]);
        Runnable step = step(args[0], Integer.parseInt(args[1]));
        long operations = 0;
        while (seconds() < end) {
            if (step == null) {
                Thread.sleep(50);
                continue;
            }
            step.run();
            operations++;
        }
        System.out.println("operations " + operations);
        System.exit(0);
    }
}
