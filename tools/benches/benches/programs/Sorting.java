// SPDX-License-Identifier: MIT OR Apache-2.0

import java.util.Arrays;
import java.util.HashMap;

/** Sorts numbers, and counts them in a map. */
class Sorting {
    public static void main(String[] words) {
        long state = 1;
        for (int round = 0; round < 4; round++) {
            int[] numbers = new int[300_000];
            HashMap<Integer, Integer> counts = new HashMap<>();
            for (int i = 0; i < numbers.length; i++) {
                state = state * 6364136223846793005L + 1442695040888963407L;
                numbers[i] = (int) (state >>> 40);
                counts.merge(numbers[i] & 0x3fff, 1, Integer::sum);
            }
            Arrays.sort(numbers);
        }
    }
}
