package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// etcdProgram is the part of the agent that speaks to etcd, which only images with Kubernetes have.
const etcdProgram = "/usr/bin/spore-etcd"

// etcdCommand goes on as spore-etcd.
func etcdCommand(args []string) error {
	err := syscall.Exec(etcdProgram, append([]string{etcdProgram}, args...), os.Environ())
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("this image has no Kubernetes, so there is no %s", etcdProgram)
	}
	return fmt.Errorf("run %s: %w", etcdProgram, err)
}
