package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"spore/agent/atomicfile"
	"spore/agent/nic"
	"spore/agent/render"
	"spore/pki/bundle"
)

// maxSecret bounds one secret in bytes.
const maxSecret = 1 << 20

// renderCommand writes a program's configuration into its unit's runtime directory, as the program's user.
func renderCommand(_ context.Context, m *machine, args []string) error {
	if len(args) != 1 {
		return usageError{fmt.Sprintf("usage: spore-agent render NAME, one of %v", render.Names())}
	}
	// A unit with several runtime directories is told all of them; the first is its own (systemd.exec(5)).
	dir, _, _ := strings.Cut(os.Getenv("RUNTIME_DIRECTORY"), ":")
	credentials := os.Getenv("CREDENTIALS_DIRECTORY")
	if dir == "" {
		return errors.New("RUNTIME_DIRECTORY is not set: render is for ExecStartPre= of a unit with RuntimeDirectory=")
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
	files, err := render.Render(args[0], render.Input{
		Cluster: c, Node: n, Hosts: bytes.NewReader(hosts), Addresses: addresses, Dir: dir, SecretPath: secretPath,
		Secret: func(ref string) ([]byte, error) {
			if credentials == "" || !bundle.ValidName(ref) {
				return nil, fmt.Errorf("the secret %q was not given to this unit", ref)
			}
			return atomicfile.ReadLimited(secretPath(ref), maxSecret)
		},
		Authority: m.part.Public,
	})
	if err != nil {
		return err
	}
	return render.Write(dir, files)
}
