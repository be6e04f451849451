// Program pause is the first process of every pod: it holds the pod's namespaces open, and where the pod shares its process
// namespace it reaps what others leave behind. It ends with status 0 at SIGINT or SIGTERM.
package main

import (
	"os"
	"os/signal"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

func main() {
	// Every pod has one, so memory counts and speed does not.
	debug.SetGCPercent(10)
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGCHLD, unix.SIGINT, unix.SIGTERM)
	for s := range signals {
		if s != unix.SIGCHLD {
			return
		}
		reap()
	}
}

// reap collects every child that has ended: one signal can stand for several.
func reap() {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if err != unix.EINTR && (err != nil || pid <= 0) {
			return
		}
	}
}
