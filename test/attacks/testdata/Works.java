import java.net.*;
import java.net.http.*;
import java.nio.file.*;
import com.sun.net.httpserver.HttpServer;

/** What programs in Java do, and must be able to. works.sh packs it. */
class Works {
    interface Check { void run() throws Exception; }

    static void works(String name, Check check) {
        String said = "ok";
        try { check.run(); } catch (Throwable e) { said = e.toString(); }
        System.out.println("works: " + name + ": " + said);
    }

    static void is(boolean so) { if (!so) throw new AssertionError(); }

    static String get(String url) throws Exception {
        return HttpClient.newHttpClient().send(HttpRequest.newBuilder(URI.create(url)).build(), HttpResponse.BodyHandlers.ofString()).body();
    }

    public static void main(String[] args) throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress(8080), 0);
        server.createContext("/", e -> { e.sendResponseHeaders(200, 5); e.getResponseBody().write("hello".getBytes()); e.close(); });
        server.start();
        works("names by the stub", () -> is(InetAddress.getAllByName("site.berth.test").length == 2));
        works("HTTP", () -> is(get("http://site.berth.test/").startsWith("hello")));
        works("itself on 8080", () -> is(get("http://localhost:8080/").equals("hello") && get("http://127.0.0.1:8080/").equals("hello")));
        works("files", () -> { Path f = Files.createTempFile("x", "y"); Files.writeString(f, "x"); Files.delete(f); Files.writeString(Path.of("written"), "x"); });
        works("threads", () -> { int[] n = {0}; Thread t = new Thread(() -> n[0]++); t.start(); t.join(); is(n[0] == 1); });
        works("child processes", () -> is(new ProcessBuilder("sh", "-c", "exit 7").start().waitFor() == 7));
        works("its limit", () -> is(Runtime.getRuntime().maxMemory() <= 512L << 20));
        System.out.println("works: done " + System.getenv("PORT"));
    }
}
