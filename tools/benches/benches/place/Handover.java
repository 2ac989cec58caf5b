// SPDX-License-Identifier: MIT OR Apache-2.0
// Two threads that hand numbers over through a queue without room; the file of the first argument has their count.

import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.concurrent.SynchronousQueue;

public final class Handover {
    /** It ends by itself after so many ticks, whatever becomes of the benchmark. */
    private static final int MOST_TICKS = 120_000;
    private static final int TICK_MS = 5;
    private static volatile long taken;

    private interface Work {
        void run() throws InterruptedException;
    }

    public static void main(String[] arguments) throws Exception {
        SynchronousQueue<Long> queue = new SynchronousQueue<>();
        start("producer", () -> {
            for (long number = 1;; number++) {
                queue.put(number);
            }
        });
        start("consumer", () -> {
            for (;;) {
                taken = queue.take();
            }
        });
        Path file = Path.of(arguments[0]);
        Path next = Path.of(arguments[0] + ".new");
        for (int tick = 0; tick < MOST_TICKS; tick++) {
            Files.writeString(next, Long.toString(taken));
            Files.move(next, file, StandardCopyOption.ATOMIC_MOVE);
            Thread.sleep(TICK_MS);
        }
    }

    private static void start(String name, Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (InterruptedException end) {
                Thread.currentThread().interrupt();
            }
        }, name);
        thread.setDaemon(true);
        thread.start();
    }
}
