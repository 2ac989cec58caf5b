// SPDX-License-Identifier: MIT OR Apache-2.0

// Sorts numbers, and counts them in a map.
package main

import "sort"

func main() {
	state := uint64(1)
	for round := 0; round < 4; round++ {
		numbers := make([]int, 300000)
		counts := map[int]int{}
		for i := range numbers {
			state = state*6364136223846793005 + 1442695040888963407
			numbers[i] = int(state >> 40)
			counts[numbers[i]&0x3fff]++
		}
		sort.Ints(numbers)
	}
}
