package bundle

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"slices"

	"spore/agent/activate"
	"spore/agent/clusterpart"
	"spore/agent/config/live"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/renewal"
	"spore/agent/secrets"
	"spore/pki"
	"spore/pki/bundle"
	"spore/services"
	"spore/storage/atomicfile"
)

// layOut puts secrets, certificates and authorities where programs read them, and notes which programs have yet to take
// what is new.
func (t *taker) layOut(b *bundle.Bundle, have map[string]string, trust clusterpart.Authorities) error {
	share, err := pki.ShareOf(t.cluster, t.node)
	if err != nil {
		return err
	}
	others, err := t.layTrust(trust)
	if err != nil {
		return err
	}
	wanted := activate.Secrets(t.cluster, t.node)
	for _, a := range share.Issues { // For nodes that hold none.
		wanted[signerProgram] = append(wanted[signerProgram], a.Key)
	}
	changed, err := secrets.Install(t.m.Root.At(paths.Secrets), have, wanted)
	if err != nil {
		return err
	}
	if err := t.layLive(share, have, wanted); err != nil {
		return err
	}
	if err := t.layInbox(); err != nil {
		return err
	}
	if err := readable(filepath.Dir(t.m.Root.At(paths.Renewal))); err != nil {
		return err
	}
	plan := renewal.Plan(services.Of(t.cluster), share, changed, others, renewal.ProgramsOf(t.cluster, t.node))
	return (&renewal.File{Path: t.m.Root.At(paths.Renewal)}).Change(func(s *renewal.State) {
		now := renewal.Clock()
		if len(changed) > 0 || len(others) > 0 {
			if s.Changed != 0 { // At the boot, programs start after this.
				s.Add(plan, now)
			}
			s.Changed = now
		}
		s.Serial, s.Revision, s.Ends = 0, trust.Revision, renewal.Ends(share, have)
		if b != nil {
			s.Serial = b.Serial
		}
	})
}

// layTrust writes whom the node trusts. It returns the files that are not as they were.
func (t *taker) layTrust(trust clusterpart.Authorities) (changed []string, err error) {
	dir := t.m.Root.At(paths.Trust)
	if err := readable(dir); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(trust.Files)) {
		did, err := atomicfile.Write(filepath.Join(dir, name), []byte(trust.Files[name]), 0o644)
		if err != nil {
			return nil, err
		}
		if did {
			changed = append(changed, name)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		if _, ok := trust.Files[e.Name()]; ok {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return nil, err
		}
		changed = append(changed, e.Name())
	}
	return changed, nil
}

// readable makes a folder that every program may read: the unit's UMask= would keep all but root's out.
func readable(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.Chmod(dir, 0o755)
}

// layInbox makes the folder in which the API's server leaves a bundle that the operator sends.
func (t *taker) layInbox() error {
	row, _ := services.Of(t.cluster).LookupProgram(node.APIProgram)
	group, err := t.m.Group(row.User)
	if err != nil {
		return fmt.Errorf("make the folder for bundles that are sent: %w", err)
	}
	dir := t.m.Root.At(paths.Inbox)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if group != os.Getgid() {
		if err := os.Chown(dir, -1, group); err != nil {
			return err
		}
	}
	return os.Chmod(dir, 0o770)
}

// layLive lays out the certificates of programs that read them again while they run.
func (t *taker) layLive(share pki.Share, have map[string]string, wanted map[string][]string) error {
	dir, leaves, laid := t.m.Root.At(paths.Live), renewal.Entries(share), map[string]bool{}
	for _, program := range slices.Sorted(maps.Keys(wanted)) {
		files := map[string]string{}
		for _, ref := range wanted[program] {
			if text, ok := have[ref]; ok && leaves[ref] {
				files[ref] = text
			}
		}
		row, ok := services.Of(t.cluster).LookupProgram(program)
		if !ok || len(files) == 0 {
			continue
		}
		group, err := t.m.Group(row.User)
		if errors.As(err, new(user.UnknownUserError)) {
			continue // The image does not carry the role, which is held.
		}
		if err != nil {
			return fmt.Errorf("lay out the certificates of %s: %w", program, err)
		}
		if _, err := live.Lay(dir, program, group, files); err != nil {
			return err
		}
		laid[program] = true
	}
	return live.Remove(dir, func(program string) bool { return laid[program] })
}
