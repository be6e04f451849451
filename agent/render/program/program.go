// Package program writes a service program's configuration into the runtime directory of its unit, and becomes the
// program. Package render knows what each program's configuration is.
package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"spore/agent/config/live"
	"spore/agent/detect"
	"spore/agent/nic"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/render"
	"spore/agent/renewal"
	"spore/pki"
	"spore/pki/bundle"
	services "spore/services/node"
	"spore/services/rendering"
	"spore/storage/atomicfile"
)

// Run writes a program's configuration into its unit's runtime directory, as the program's user, and becomes the
// program where one is named. In ExecStart= that spares the second sandbox that an ExecStartPre= has.
func Run(ctx context.Context, m *node.Machine, name string, program []string) error {
	if err := write(m, name); err != nil || len(program) == 0 {
		return err
	}
	if err := unix.Access(program[0], unix.X_OK); err != nil {
		return fmt.Errorf("run %s: %w", program[0], err)
	}
	if err := ctx.Err(); err != nil {
		return err // Stopped before the program was there to hear of it.
	}
	return fmt.Errorf("run %s: %w", program[0], syscall.Exec(program[0], program, os.Environ()))
}

func write(m *node.Machine, name string) error {
	dir := node.RuntimeDirectory(name)
	credentials := os.Getenv("CREDENTIALS_DIRECTORY")
	if dir == "" {
		return errors.New("RUNTIME_DIRECTORY is not set: render is for a unit with RuntimeDirectory=")
	}
	_, c, n, err := m.Node()
	if err != nil {
		return err
	}
	if n == nil {
		return fmt.Errorf("%w, so there is nothing to render", detect.ErrUnmatched)
	}
	hosts, err := m.Part.Hosts()
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
	files, err := render.Render(name, rendering.Input{
		Cluster: c, Node: n, Hosts: bytes.NewReader(hosts), Addresses: addresses, Memory: node.Memory(), Dir: dir,
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
			return atomicfile.ReadLimited(secretPath(ref), node.MaxSecret)
		},
		Authority: m.Part.Public,
		State: func(program string) (any, error) {
			if read, ok := services.Kept()[program]; ok {
				return read(string(m.Root))
			}
			return nil, nil
		},
	})
	if err != nil {
		return err
	}
	if before, ok := services.Before()[name]; ok {
		removed, err := before(string(m.Root), m.Part.Public)
		for _, path := range removed {
			m.Say("removed " + path + ": another authority signs now")
		}
		if err != nil {
			return err
		}
	}
	return render.Write(dir, files)
}
