package recipe

import (
	"context"
	"fmt"
	"path"
	"slices"

	"spore/builder/accounts"
	"spore/builder/replay"
	"spore/builder/replay/files"
)

// beginReplay prepares the replay of the maintainer scripts.
func (b *build) beginReplay() error {
	var packages []replay.Package
	for i := range b.packages {
		packages = append(packages, b.replayed(&b.packages[i]))
	}
	r, err := replay.New(packages, replay.Options{Tree: b.tree, Accounts: b.accounts, Answers: b.debconfAnswers(), OnNode: onNode()})
	if err != nil {
		return err
	}
	b.replay = r
	return b.writeAccounts()
}

// writeAccounts writes passwd, group, shadow and gshadow.
func (b *build) writeAccounts() error {
	f := files.New(b.tree)
	f.Origin, f.MTime = b.origin(), b.epoch
	return b.accounts.Write(f)
}

// replayed is a package as the replay sees it.
func (b *build) replayed(p *Package) replay.Package {
	return replay.Package{
		Name: p.Name, Version: p.Version, Status: p.Status, Conffiles: p.Conffiles, Scripts: p.Scripts,
		Paths: func() []string { return b.shipped[p.Name] },
		Skip:  b.opts.Scripts[p.Name].Skip,
	}
}

// preinst replays what a package does before it is unpacked.
func (b *build) preinst(p *Package) error {
	r := b.replayed(p)
	return b.replay.Preinst(context.Background(), &r)
}

// replayScripts replays what the packages do behind their unpacking.
func replayScripts(b *build) error {
	if err := b.replay.Configure(context.Background(), b.epoch); err != nil {
		return err
	}
	if err := b.sysusers(); err != nil {
		return err
	}
	if err := b.writeAccounts(); err != nil {
		return err
	}
	for _, p := range b.replay.Changed() {
		if n, err := b.tree.Lstat(p); err == nil {
			b.note("script", p, "made or changed by a maintainer script: "+n.Origin)
		} else {
			b.note("script", p, "removed by a maintainer script")
		}
	}
	for _, n := range b.replay.Notes() {
		b.note("undone", "", fmt.Sprintf("a script of %s calls %s: %s", n.Package, n.Command, n.Why))
	}
	return nil
}

// sysusers adds the accounts of sysusers.d(5) that no script has asked for: of a machine, systemd-sysusers makes them
// at its start.
func (b *build) sysusers() error {
	const dir = "/usr/lib/sysusers.d"
	var list []accounts.SysusersFile
	for _, name := range b.tree.Children(dir) {
		if path.Ext(name) != ".conf" {
			continue
		}
		p := path.Join(dir, name)
		data, err := b.tree.ReadFile(p)
		if err != nil {
			return err
		}
		list = append(list, accounts.SysusersFile{Name: p, Text: string(data)})
	}
	return b.accounts.SysusersFiles(list)
}

// named tells whether image.yaml names a package.
func (b *build) named(name string) bool { return slices.Contains(b.opts.Named, name) }

// enabledByScript tells whether a script enables a unit of systemd, and masks none with its name.
func (b *build) enabledByScript(unit string) bool {
	u := b.replay.Units()[path.Base(unit)]
	return u.Enabled && !u.Masked
}
