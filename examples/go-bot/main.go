// A program that behaves as a chat bot does, without a network: it says who it
// is, gives a sign of life every few seconds, and leaves when it is asked to.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

const version = 1 // change it and commit: the next start prints the new one

func main() {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	fmt.Printf("go-bot version %d, %s, pid %d\n", version, runtime.Version(), os.Getpid())
	tick := time.NewTicker(5 * time.Second)
	for n := 1; ; n++ {
		select {
		case <-tick.C:
			fmt.Printf("tick %d\n", n)
		case s := <-stop:
			fmt.Printf("%v: goodbye\n", s)
			return
		}
	}
}
