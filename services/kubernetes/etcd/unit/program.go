package unit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// program is the part of the agent that speaks to etcd, which only images with Kubernetes have.
const program = "/usr/bin/spore-etcd"

// Program goes on as spore-etcd.
func Program(args []string) error {
	err := syscall.Exec(program, append([]string{program}, args...), os.Environ())
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("this image has no Kubernetes, so there is no %s", program)
	}
	return fmt.Errorf("run %s: %w", program, err)
}
