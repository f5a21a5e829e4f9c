// Command pause holds a pod's namespaces open: it sleeps until it is told to end, and reaps orphaned children.
// With -v it prints its version, as kubeadm's check of a cluster before an upgrade expects.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

var version = "unknown" // set by the build

func main() {
	if len(os.Args) > 1 && os.Args[1] == "-v" {
		fmt.Println("pause", version)
		return
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		for {
			// one SIGCHLD may stand for several ended children
			pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if pid <= 0 || err != nil {
				break
			}
		}
	}
}
