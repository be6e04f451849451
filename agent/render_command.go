package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"

	"spore/agent/atomicfile"
	"spore/agent/config/live"
	"spore/agent/etcd/origin"
	"spore/agent/nic"
	"spore/agent/paths"
	"spore/agent/render"
	"spore/agent/renewal"
	"spore/pki"
	"spore/pki/bundle"
)

// maxSecret bounds one secret in bytes.
const maxSecret = 1 << 20

// kubeletDir is where kubelet keeps its own certificates.
const kubeletDir = "/var/lib/kubelet"

// renderCommand writes a program's configuration into its unit's runtime directory, as the program's user, and becomes the
// program where one is named. In ExecStart= that spares the second sandbox that an ExecStartPre= has. --ready says that the
// service is ready, for a program that itself says nothing to systemd: its files are written, and it is there.
func renderCommand(ctx context.Context, m *machine, args []string) error {
	name, program, ready, err := renderArguments(args)
	if err != nil {
		return err
	}
	if err := renderFiles(m, name); err != nil || len(program) == 0 {
		return err
	}
	if err := unix.Access(program[0], unix.X_OK); err != nil {
		return fmt.Errorf("run %s: %w", program[0], err)
	}
	if err := ctx.Err(); err != nil {
		return err // Stopped before the program was there to hear of it.
	}
	if ready {
		if _, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
			return fmt.Errorf("say that %s is ready: %w", name, err)
		}
	}
	return fmt.Errorf("run %s: %w", program[0], syscall.Exec(program[0], program, os.Environ()))
}

// renderArguments reads NAME [[--ready] -- PROGRAM [ARGUMENT...]].
func renderArguments(args []string) (name string, program []string, ready bool, err error) {
	options := args
	if i := slices.Index(args, "--"); i >= 0 {
		options, program = args[:i], args[i+1:]
		ready = len(options) == 2 && options[1] == "--ready"
	}
	named := len(options) == 1 || ready
	if !named || strings.HasPrefix(options[0], "-") || len(options) < len(args) && len(program) == 0 {
		return "", nil, false, usageError{fmt.Sprintf("usage: spore-agent render NAME [[--ready] -- PROGRAM [ARGUMENT...]], with a NAME of %v", render.Names())}
	}
	return options[0], program, ready, nil
}

func renderFiles(m *machine, name string) error {
	dir := runtimeDirectory(name)
	credentials := os.Getenv("CREDENTIALS_DIRECTORY")
	if dir == "" {
		return errors.New("RUNTIME_DIRECTORY is not set: render is for a unit with RuntimeDirectory=")
	}
	_, c, n, err := m.node()
	if err != nil {
		return err
	}
	if n == nil {
		return errors.New("this machine is no node, so there is nothing to render")
	}
	hosts, err := m.part.Hosts()
	if err != nil {
		return err
	}
	addresses, err := nic.Addresses()
	if err != nil {
		return err
	}
	secretPath := func(ref string) string { return filepath.Join(credentials, "secret_"+ref) }
	share, err := pki.ShareOf(c, n)
	if err != nil {
		return err
	}
	leaves := renewal.Entries(share)
	files, err := render.Render(name, render.Input{
		Cluster: c, Node: n, Hosts: bytes.NewReader(hosts), Addresses: addresses, Memory: memory(), Dir: dir,
		SecretPath: func(ref string) string {
			if leaves[ref] { // It is renewed while the program runs.
				return live.Of(paths.Live, name, ref)
			}
			return secretPath(ref)
		},
		Secret: func(ref string) ([]byte, error) {
			if credentials == "" || !bundle.ValidName(ref) {
				return nil, fmt.Errorf("the secret %q was not given to this unit", ref)
			}
			return atomicfile.ReadLimited(secretPath(ref), maxSecret)
		},
		Authority: m.part.Public,
		State: func(program string) (any, error) {
			if program == "etcd" {
				return origin.Dir(m.root.At(origin.Data)).Read()
			}
			return nil, nil
		},
	})
	if err != nil {
		return err
	}
	if name == "kubelet" {
		dropped, err := renewal.DropForeign(m.root.At(kubeletDir), m.part.Public)
		for _, path := range dropped {
			m.say("removed " + path + ": another authority signs now")
		}
		if err != nil {
			return err
		}
	}
	return render.Write(dir, files)
}

// memory is the machine's memory in bytes; 0 where the kernel does not say.
func memory() uint64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	return uint64(info.Totalram) * uint64(info.Unit)
}

// runtimeDirectory is the unit's runtime directory of this name, else the first: systemd tells a unit with several all of
// them, sorted (systemd.exec(5)).
func runtimeDirectory(name string) string {
	all := filepath.SplitList(os.Getenv("RUNTIME_DIRECTORY"))
	for _, dir := range all {
		if filepath.Base(dir) == name {
			return dir
		}
	}
	if len(all) == 0 {
		return ""
	}
	return all[0]
}
