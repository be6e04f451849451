package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"spore/agent/atomicfile"
	"spore/agent/etcd/origin"
	"spore/agent/live"
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

// renderCommand writes a program's configuration into its unit's runtime directory, as the program's user.
func renderCommand(_ context.Context, m *machine, args []string) error {
	if len(args) != 1 {
		return usageError{fmt.Sprintf("usage: spore-agent render NAME, one of %v", render.Names())}
	}
	dir := runtimeDirectory(args[0])
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
	share, err := pki.ShareOf(c, n)
	if err != nil {
		return err
	}
	leaves := renewal.Entries(share)
	files, err := render.Render(args[0], render.Input{
		Cluster: c, Node: n, Hosts: bytes.NewReader(hosts), Addresses: addresses, Memory: memory(), Dir: dir,
		SecretPath: func(ref string) string {
			if leaves[ref] { // It is renewed while the program runs.
				return live.Of(paths.Live, args[0], ref)
			}
			return secretPath(ref)
		},
		Secret: func(ref string) ([]byte, error) {
			if credentials == "" || !bundle.ValidName(ref) {
				return nil, fmt.Errorf("the secret %q was not given to this unit", ref)
			}
			return atomicfile.ReadLimited(secretPath(ref), maxSecret)
		},
		Authority: m.part.Public, EtcdOrigin: origin.Dir(m.root.At(origin.Data)).Read,
	})
	if err != nil {
		return err
	}
	if args[0] == "kubelet" {
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
