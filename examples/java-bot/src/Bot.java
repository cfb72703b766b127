/**
 * A program that behaves as a chat bot does, without a network: it says who it
 * is, gives a sign of life every few seconds, and leaves when it is asked to.
 */
public class Bot {
    private static final int VERSION = 1;

    public static void main(String[] args) throws InterruptedException {
        Runtime.getRuntime().addShutdownHook(new Thread(() -> System.out.println("goodbye")));
        System.out.printf("java-bot version %d, Java %s, heap of at most %d MB%n", VERSION,
            System.getProperty("java.version"), Runtime.getRuntime().maxMemory() >> 20);
        for (long tick = 1;; tick++) {
            Thread.sleep(5000);
            System.out.println("tick " + tick);
        }
    }
}
