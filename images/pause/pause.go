// Command pause holds a pod's namespaces: it does nothing until it is told to stop.
//
// Where the containers of a pod share a process namespace it is process 1 there, so it also collects the children that
// others leave behind.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for received := range signals {
		if received != syscall.SIGCHLD {
			os.Exit(0)
		}
		collect()
	}
}

// collect waits for every child that has ended; one signal may stand for several.
func collect() {
	for {
		child, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if child <= 0 && err != syscall.EINTR {
			return
		}
	}
}
