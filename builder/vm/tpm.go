package vm

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	swtpm = "swtpm"
	// tpmTimeout is how long the emulator may take to write its state when it is asked to end.
	tpmTimeout = 5 * time.Second
)

// tpmArgs give the machine the TPM that listens on a socket. CRB is the interface of today's machines (TCG PC Client
// Platform TPM Profile, 6.4.2); its registers need no further device on q35.
func tpmArgs(socket string) []string {
	return []string{
		"-chardev", "socket,id=tpm,path=" + socket, "-tpmdev", "emulator,id=tpm0,chardev=tpm", "-device", "tpm-crb,tpmdev=tpm0",
	}
}

// tpm is a TPM 2.0 that swtpm emulates. It is a process of its own that ends with its machine; what it must remember is
// in a folder, so that the same TPM is there at the next start.
type tpm struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer
	done   chan struct{}
}

// startTPM runs the emulator with its state in dir, which is made when it is not there. It listens on the socket when
// the call returns.
func startTPM(dir, socket string) (*tpm, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("folder for the TPM: %w", err)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	// The socket listens before the process runs, so that nobody has to wait for it.
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("socket of the TPM: %w", err)
	}
	defer l.Close()
	l.SetUnlinkOnClose(false)
	f, err := l.File()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t := &tpm{done: make(chan struct{})}
	// The state is in the working directory: swtpm has no way to write a path with a comma.
	t.cmd = exec.Command(swtpm, "socket", "--tpm2", "--tpmstate", "dir=.", "--ctrl", "type=unixio,fd=3")
	t.cmd.Dir = dir
	t.cmd.ExtraFiles = []*os.File{f}
	t.cmd.Stdout, t.cmd.Stderr = &t.stderr, &t.stderr
	t.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := t.cmd.Start(); err != nil {
		return nil, fmt.Errorf("emulate a TPM: %w; run make deps", err)
	}
	go func() {
		// How it ended is in what it said.
		_ = t.cmd.Wait()
		close(t.done)
	}()
	return t, nil
}

// stop ends the emulator. What it was told before is in its folder.
func (t *tpm) stop() {
	if t == nil {
		return
	}
	// QEMU's end is the emulator's too, so that an error says only that it has ended.
	_ = t.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-t.done:
	case <-time.After(tpmTimeout):
		_ = t.cmd.Process.Kill()
		<-t.done
	}
}

// said is what the emulator complained about, for messages.
func (t *tpm) said() string {
	if t == nil {
		return ""
	}
	select {
	case <-t.done:
		return strings.TrimSpace(t.stderr.String())
	default:
		return ""
	}
}
