// SPDX-License-Identifier: MIT OR Apache-2.0

// Two goroutines, each locked to a thread, that hand numbers over through channels without a buffer. The number of round trips
// is written into a file.
package main

import (
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"time"
)

func main() {
	there, back := make(chan int), make(chan int)
	var trips atomic.Int64
	go func() {
		runtime.LockOSThread()
		for number := range there {
			back <- number
		}
	}()
	go func() {
		runtime.LockOSThread()
		for {
			there <- 1
			<-back
			trips.Add(1)
		}
	}()
	path := os.Args[1]
	for {
		time.Sleep(20 * time.Millisecond)
		text := fmt.Sprintln(trips.Load())
		if os.WriteFile(path+".part", []byte(text), 0o644) == nil {
			os.Rename(path+".part", path)
		}
	}
}
