/* Takes Curator's locks again and again beside other programs:
 * Player SERVER PATH DIRECTORY SECONDS READERS mutex|readwrite
 * What it does inside, and what it writes down, is written in player.c. Its fence is made as ours
 * are, from the number that the server gave to the creation of its node. */

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Random;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.retry.RetryOneTime;

final class Player {
    private static final int FENCE_STEP = 256;

    /** A lock of Curator's that tells which node is its own. */
    private interface Lock {
        void acquire() throws Exception;
        void release() throws Exception;
        String node();
    }

    private static final class Mutex extends InterProcessMutex implements Lock {
        Mutex(CuratorFramework client, String path) {
            super(client, path);
        }

        @Override
        public String node() {
            return getLockPath();
        }
    }

    private static final class Writer extends InterProcessReadWriteLock.WriteLock implements Lock {
        Writer(CuratorFramework client, String path) {
            super(client, path, null);
        }

        @Override
        public String node() {
            return getLockPath();
        }
    }

    private static final class Reader extends InterProcessReadWriteLock.ReadLock implements Lock {
        Reader(CuratorFramework client, String path, Writer writer) {
            super(client, path, null, writer);
        }

        @Override
        public String node() {
            return getLockPath();
        }
    }

    private final Path directory;
    private final CuratorFramework client;
    private final int readers;
    private final Random random = new Random();
    private final String name = "theirs-" + ProcessHandle.current().pid();
    private Lock reader;
    private Lock writer;

    private Player(String[] arguments) {
        directory = Path.of(arguments[2]);
        readers = Integer.parseInt(arguments[4]);
        client = CuratorFrameworkFactory.newClient(arguments[0], new RetryOneTime(100));
        client.start();
        if (arguments[5].equals("mutex")) {
            writer = new Mutex(client, arguments[1]);
        } else {
            Writer both = new Writer(client, arguments[1]);
            writer = both;
            reader = new Reader(client, arguments[1], both);
        }
    }

    private long count() throws IOException {
        return Long.parseLong(Files.readString(directory.resolve("count")).trim());
    }

    private void addOne() throws Exception {
        Path inside = directory.resolve("inside");
        Files.createFile(inside);
        long number = count();
        Thread.sleep(0, 300_000);
        Files.writeString(directory.resolve("count"), (number + 1) + "\n");
        Files.delete(inside);
    }

    private void look() throws Exception {
        long number = count();
        Thread.sleep(0, 300_000);
        if (Files.exists(directory.resolve("inside"))) {
            throw new IllegalStateException("reading: a writer is inside");
        }
        if (count() != number) {
            throw new IllegalStateException("reading: somebody wrote");
        }
    }

    private void takeNote(String what, boolean reads, long fence) throws IOException {
        String line = what + (reads ? " r " : " w ") + fence + " " + name + "\n";
        Files.write(directory.resolve("turns"), line.getBytes(StandardCharsets.US_ASCII),
                    StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    }

    /** Was it a writer? */
    private boolean takeTurn() throws Exception {
        boolean reads = random.nextInt(100) < readers;
        Lock lock = reads ? reader : writer;
        lock.acquire();
        long fence = client.checkExists().forPath(lock.node()).getCzxid() * FENCE_STEP;
        takeNote("enter", reads, fence);
        if (reads) {
            look();
        } else {
            addOne();
        }
        takeNote("leave", reads, fence);
        lock.release();
        return !reads;
    }

    private int play(double seconds) throws Exception {
        client.blockUntilConnected();
        Files.createFile(directory.resolve("ready." + ProcessHandle.current().pid()));
        while (!Files.exists(directory.resolve("go"))) {
            Thread.sleep(1);
        }
        long end = System.nanoTime() + (long) (seconds * 1e9);
        int times = 0;
        while (System.nanoTime() < end) {
            times += takeTurn() ? 1 : 0;
            Thread.sleep(random.nextInt(10), random.nextInt(1_000_000));
        }
        client.close();
        return times;
    }

    public static void main(String[] arguments) throws Exception {
        System.out.println(new Player(arguments).play(Double.parseDouble(arguments[3])));
    }
}
