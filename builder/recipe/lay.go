package recipe

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"spore/builder/tree"
	"spore/services"
	emergency "spore/wire/shell"
)

// Paths of our own in the image.
const (
	// AgentPath is the agent.
	AgentPath = "/usr/bin/spore-agent"
	// MountHelper is what mount(8) calls for the file system type "spore" (mount(8), external helpers).
	MountHelper = "/usr/sbin/mount.spore"
	// FormatHelper is what systemd-repart(8) calls for the file system type "spore".
	FormatHelper = "/usr/sbin/mkfs.spore"
	presetDir    = "/usr/lib/systemd/system-preset"
)

// layOverlay puts every file of the overlay where it says. Files named README.md are for people who read the source.
func layOverlay(b *build) error {
	return b.layFS(b.opts.Overlay, "overlay", func(name string) string {
		if path.Base(name) == "README.md" {
			return ""
		}
		return "/" + name
	})
}

// layUnits puts our units into /etc/systemd/system, and presets where presets are read. Units of programs that are not
// in the image, and targets of roles that it cannot run, are left out.
func layUnits(b *build) error {
	absent := b.absentUnits()
	return b.layFS(b.opts.Units, "unit", func(name string) string {
		unit, _, _ := strings.Cut(name, "/")
		owner := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(unit, ".d"), ".wants"), ".requires")
		switch {
		case path.Base(name) == "README.md" || path.Ext(name) == ".go" || absent[owner]:
			return ""
		case path.Ext(name) == ".preset":
			return path.Join(presetDir, path.Base(name))
		}
		return path.Join(localUnits, name)
	})
}

// shellUnits are those of the emergency shell.
var shellUnits = []string{"spore-shell.socket", "spore-shell@.service"}

// absentUnits are the units and targets of programs and roles of ours that this image does not carry. Those of roles of
// the configuration's own are none of ours, whatever they start.
func (b *build) absentUnits() map[string]bool {
	out, ours := map[string]bool{}, services.Ours()
	for _, unit := range shellUnits {
		out[unit] = len(b.opts.ShellKeys) == 0
	}
	for _, p := range ours.Programs() {
		if !b.programs[p.Name] {
			out[p.Unit] = true
			if name, ok := strings.CutSuffix(p.Unit, ".socket"); ok { // What it starts for each connection.
				out[name+"@.service"] = true
			}
		}
	}
	for _, r := range ours.Roles() {
		missing := len(r.Programs) == 0
		// Those with a second service may be absent.
		for _, p := range ours.ProgramsOf(r, func(string) bool { return false }) {
			missing = missing || !b.programs[p.Name]
		}
		if missing {
			out[r.Target] = true
		}
	}
	return out
}

// layFS copies files, mode 0755 where the owner may execute and 0644 otherwise. place returns "" for what is left out.
// What a role of the configuration's own has already is not replaced.
func (b *build) layFS(fsys fs.FS, origin string, place func(string) string) error {
	if fsys == nil {
		return nil
	}
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		to := place(name)
		if to == "" {
			return nil
		}
		n, err := inodeOf(fsys, name, d)
		if err != nil {
			return err
		}
		if old, err := b.tree.Lstat(to); err == nil && isOwn(old) {
			return fmt.Errorf("%s is there already, of %s; write another name there", to, ownerOf(old))
		}
		n.Origin = origin + ":" + name
		return b.add(to, n, "from "+origin)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s files: %w", origin, err)
	}
	return err
}

func inodeOf(fsys fs.FS, name string, d fs.DirEntry) (*tree.Inode, error) {
	info, err := d.Info()
	if err != nil {
		return nil, err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		target, err := fs.ReadLink(fsys, name)
		if err != nil {
			return nil, err
		}
		return &tree.Inode{Type: tree.Symlink, Mode: 0o777, Target: target}, nil
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is neither a file nor a link", name)
	}
	data, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil, err
	}
	// Only the execute bit is taken from the host: a umask must not reach an image.
	mode := uint32(0o644)
	if info.Mode()&0o100 != 0 {
		mode = 0o755
	}
	return &tree.Inode{Type: tree.Regular, Mode: mode, Content: tree.Bytes(data)}, nil
}

// layAgent puts the agent and its other names.
func layAgent(b *build) error {
	if b.opts.Agent == nil {
		return nil
	}
	n := &tree.Inode{Type: tree.Regular, Mode: 0o755, Content: b.opts.Agent, Origin: "payload:spore-agent"}
	if err := b.add(AgentPath, n, "our agent"); err != nil {
		return err
	}
	if err := b.link("../bin/spore-agent", MountHelper, "mount -t spore"); err != nil {
		return err
	}
	return b.link("../bin/spore-agent", FormatHelper, "Format=spore of systemd-repart")
}

// layShellKeys puts the keys whose grants open an emergency shell, where the image has one.
func layShellKeys(b *build) error {
	if len(b.opts.ShellKeys) == 0 {
		return nil
	}
	n := &tree.Inode{
		Type: tree.Regular, Mode: 0o644, Content: tree.Bytes([]byte(strings.Join(b.opts.ShellKeys, "\n") + "\n")),
		Origin: configuration + "image.yaml",
	}
	return b.add(emergency.KeysPath, n, "who may open a shell")
}

// layPayloads puts the programs that are not Debian packages.
func layPayloads(b *build) error {
	for _, p := range b.opts.Payloads {
		for _, f := range p.Files {
			if err := b.layPayload(p, f); err != nil {
				return fmt.Errorf("%s: %w", p.who(), err)
			}
		}
	}
	return nil
}

// who names a payload in messages.
func (p Payload) who() string {
	if p.Configured != "" {
		return p.Configured
	}
	return "payload " + p.Name
}

// origin is that of its files.
func (p Payload) origin() string {
	if p.Configured != "" {
		return "configuration:" + p.Configured
	}
	return "payload:" + p.Name
}

// layPayload puts one file with its links. Nothing that is there already is replaced.
func (b *build) layPayload(p Payload, f PayloadFile) error {
	if !path.IsAbs(f.Path) || path.Clean(f.Path) != f.Path {
		return fmt.Errorf("%q is not a clean absolute path", f.Path)
	}
	n := &tree.Inode{Type: tree.Regular, Mode: f.Mode & 0o7777, Content: f.Content, Origin: p.origin()}
	if err := b.addNew(p, f.Path, n); err != nil {
		return err
	}
	for _, l := range f.Links {
		target, err := filepath.Rel(path.Dir(l), f.Path)
		if err != nil {
			return fmt.Errorf("link %s: %w", l, err)
		}
		if err := b.addNew(p, l, &tree.Inode{Type: tree.Symlink, Mode: 0o777, Target: target, Origin: p.origin()}); err != nil {
			return err
		}
	}
	return nil
}

// ownRoots are where programs of the user's own may lie, with all links followed.
var ownRoots = []string{"/usr/", "/opt/"}

// addNew adds what is not there yet.
func (b *build) addNew(p Payload, at string, n *tree.Inode) error {
	hint := ""
	if p.Configured != "" {
		hint = "; write another path"
	}
	if old, err := b.tree.Lstat(at); err == nil {
		return fmt.Errorf("%s is there already, from %s%s", at, old.Origin, hint)
	}
	if p.Configured != "" {
		real, err := b.tree.Follow(path.Dir(at))
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(ownRoots, func(root string) bool { return strings.HasPrefix(real+"/", root) }) {
			return fmt.Errorf("%s leads to %s, which is not below /usr or /opt%s", at, real, hint)
		}
	}
	return b.add(at, n, "payload")
}
