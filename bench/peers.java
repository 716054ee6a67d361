/* How fast is Curator's InterProcessMutex? Peers WORKLOAD SECONDS PORT
 * W1 is one thread on one lock, W3 eight threads on one lock, each with a lock object of its own on
 * one client, as its users would write it: its defaults. It works uncounted until its machine has
 * compiled what it needs, and only then for SECONDS. Prints one JSON object, with the fields of
 * `holdfast bench --json`. */

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryOneTime;

final class Peers {
    private static final double WARM_S_MAX = 5;
    private static final double LIMIT_S = 60;

    /** One thread at one lock. */
    private static final class Contender extends Thread {
        private final InterProcessMutex lock;
        private final long counted;
        private final long end;
        private final boolean contended;
        private final List<Long> samplesNs = new ArrayList<>();
        private Exception failure;

        Contender(InterProcessMutex lock, long counted, long end, boolean contended) {
            this.lock = lock;
            this.counted = counted;
            this.end = end;
            this.contended = contended;
        }

        @Override
        public void run() {
            try {
                work();
            } catch (Exception failed) {
                failure = failed;
            }
        }

        private void work() throws Exception {
            while (System.nanoTime() < end) {
                long begun = System.nanoTime();
                lock.acquire();
                long acquired = System.nanoTime();
                lock.release();
                if (begun >= counted) {
                    samplesNs.add((contended ? acquired : System.nanoTime()) - begun);
                }
            }
        }
    }

    private static List<Contender> run(CuratorFramework client, int count, double seconds)
            throws Exception {
        String path = "/holdfast-bench/curator/" + ProcessHandle.current().pid();
        long counted = System.nanoTime() + (long) (Math.min(WARM_S_MAX, seconds) * 1e9);
        long end = counted + (long) (seconds * 1e9);
        List<Contender> contenders = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            contenders.add(new Contender(new InterProcessMutex(client, path), counted, end,
                                         count > 1));
        }
        for (Contender contender : contenders) {
            contender.start();
        }
        for (Contender contender : contenders) {
            contender.join();
            if (contender.failure != null) {
                throw contender.failure;
            }
        }
        return contenders;
    }

    private static long[] samplesOf(List<Contender> contenders) {
        return contenders.stream().flatMap(one -> one.samplesNs.stream())
                         .mapToLong(Long::longValue).sorted().toArray();
    }

    private static void print(List<Contender> contenders, double seconds) {
        long[] samples = samplesOf(contenders);
        int[] counts = contenders.stream().mapToInt(one -> one.samplesNs.size()).sorted().toArray();
        if (samples.length == 0) {
            throw new IllegalStateException("nobody got in");
        }
        System.out.printf(Locale.ROOT, "{\"cycles_per_s\": %f, \"p50_us\": %f, \"p99_us\": %f,"
                          + " \"share_min\": %f, \"share_max\": %f}%n",
                          samples.length / seconds, samples[samples.length / 2] / 1e3,
                          samples[(int) (samples.length * 99L / 100)] / 1e3,
                          (double) counts[0] / samples.length,
                          (double) counts[counts.length - 1] / samples.length);
    }

    public static void main(String[] arguments) throws Exception {
        double seconds = Double.parseDouble(arguments[1]);
        if (!Arrays.asList("W1", "W3").contains(arguments[0])) {
            throw new IllegalArgumentException("no workload '" + arguments[0] + "' here");
        }
        CuratorFramework client = CuratorFrameworkFactory.newClient("127.0.0.1:" + arguments[2],
                                                                    new RetryOneTime(100));
        client.start();
        client.blockUntilConnected();
        int count = arguments[0].equals("W3") ? 8 : 1;
        List<Contender> contenders = run(client, count, seconds);
        while (samplesOf(contenders).length == 0 && seconds < LIMIT_S) {
            seconds *= 2; // in a short time perhaps nobody gets in
            contenders = run(client, count, seconds);
        }
        print(contenders, seconds);
        client.close();
    }
}
