// Package rolefiles writes the files of a role that the configuration has of its own, before each start of one of its
// units: ExecStartPre=+/usr/bin/spore-role files NAME. It runs as root, since files may belong to others; the
// directories that they go to may be those of a user, who can lay a link at each name in them, at any time.
package rolefiles

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"spore/agent/config/live"
	"spore/agent/datadisk"
	"spore/agent/detect"
	"spore/agent/nic"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/quota"
	"spore/agent/renewal"
	"spore/cluster/role"
	"spore/cluster/role/render"
	"spore/pki"
	"spore/pki/bundle"
	"spore/services"
	"spore/services/rendering"
	"spore/storage/atomicfile"
)

// maxTime bounds the rendering of all files of a role; the templates have bounds of their own.
const maxTime = 30 * time.Second

// Run renders the files of a role and writes each whole or not at all. account finds their owners: Account on a node.
func Run(ctx context.Context, m *node.Machine, name string, account Accounts) error {
	_, c, n, err := m.Node()
	if err != nil {
		return err
	}
	if n == nil {
		return fmt.Errorf("%w, so there is nothing to render", detect.ErrUnmatched)
	}
	own, _ := services.Of(c).Own(name)
	d, ok := own.(*role.Definition)
	if !ok {
		return fmt.Errorf("write the files of the role %.64q: the configuration has no role of its own of this name; it "+
			"has %v", name, services.Of(c).OwnNames())
	}
	if err := disksOf(m, d); err != nil {
		return err
	}
	quotasOf(m, quota.Of(c, n), d)
	hosts, err := m.Part.Hosts()
	if err != nil {
		return err
	}
	addresses, err := nic.Addresses()
	if err != nil {
		return err
	}
	share, err := pki.ShareOf(c, n)
	if err != nil {
		return err
	}
	given, leaves := credentials(os.Getenv("CREDENTIALS_DIRECTORY")), renewal.Entries(share)
	ctx, cancel := context.WithTimeoutCause(ctx, maxTime, fmt.Errorf("%s are over", maxTime))
	defer cancel()
	files, err := render.Files(ctx, d, rendering.Input{
		Cluster: c, Node: n, Hosts: bytes.NewReader(hosts), Addresses: addresses, Memory: node.Memory(),
		Secret: given.read, Authority: m.Part.Public,
		SecretPath: func(ref string) string {
			if leaves[ref] { // All units of the role see it there.
				return live.Of(paths.Live, name, ref)
			}
			return given.path(ref)
		},
	})
	if err != nil {
		return err
	}
	return Write(string(m.Root), files, account)
}

// quotasOf has what is in the role's directories with a quota count for it. Where it cannot, the role starts all the
// same, and the node's health says so.
func quotasOf(m *node.Machine, limits []quota.Limit, d *role.Definition) {
	for _, l := range limits {
		if l.Role != d.Name {
			continue
		}
		dir, err := directory(string(m.Root), l.Path)
		if err == nil {
			err = errors.Join(quota.Assign(dir, l.Project), dir.Close())
		}
		if err != nil {
			m.Say(fmt.Sprintf("the directory %s is not held to its quota: %v", l.Path, err))
		}
	}
}

// disksOf fails as long as a disk of the role cannot be used: its unit would write to what lies under it.
func disksOf(m *node.Machine, d *role.Definition) error {
	if d.Disks == nil {
		return nil
	}
	infos, err := datadisk.Read(m.Root, d.Disks.Use)
	if err == nil {
		err = datadisk.Problems(infos)
	}
	if err == nil && len(infos) == 0 {
		err = errors.New("the node's file gives it none")
	}
	if err != nil {
		return fmt.Errorf("the role %s waits for its disks: %w", d.Name, err)
	}
	return nil
}

// credentials is the directory of what the unit was given.
type credentials string

func (c credentials) path(ref string) string { return filepath.Join(string(c), "secret_"+ref) }

func (c credentials) read(ref string) ([]byte, error) {
	if c == "" || !bundle.ValidName(ref) {
		return nil, fmt.Errorf("the secret %.64q was not given to this unit", ref)
	}
	value, err := atomicfile.ReadLimited(c.path(ref), node.MaxSecret)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("the bundle of this node does not have the secret %q", ref)
	}
	return bytes.TrimSuffix(value, []byte("\n")), err
}
